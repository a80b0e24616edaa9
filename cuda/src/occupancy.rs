//! How much of the device a launch fills: plain arithmetic on what the driver tells.

/// What the arithmetic needs of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Multiprocessors {
    /// How many there are.
    pub(crate) count: u32,
    /// Threads that one holds at most.
    pub(crate) threads: u32,
    /// Threads of a warp, the unit in which thread slots are handed out.
    pub(crate) warp: u32,
}

/// Share of the device's warp slots that a launch fills, averaged over its waves.
///
/// `wave` blocks of `block` threads fit on the device at a time by registers, shared memory and block size (the driver's
/// `cuOccupancyMaxActiveBlocksPerMultiprocessor`, or `cuOccupancyMaxActiveClusters`): that many warps over the most that it
/// holds is the occupancy that NVIDIA's calculator shows. A grid comes in waves of so many blocks, of which the last is
/// rarely full; the share of block slots that have a block in them makes the second factor. `None` when nothing fits or
/// nothing is known.
pub(crate) fn occupancy(grid: u64, block: u32, wave: u64, device: Multiprocessors) -> Option<f64> {
    let Multiprocessors { count, threads, warp } = device;
    let slots = u64::from(count) * u64::from(threads.checked_div(warp)?);
    if slots == 0 || wave == 0 || grid == 0 {
        return None;
    }
    let warps = wave as f64 * f64::from(block.div_ceil(warp));
    let filled = grid as f64 / (grid.div_ceil(wave) * wave) as f64;
    Some((warps / slots as f64).min(1.0) * filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Multiprocessors = Multiprocessors { count: 10, threads: 2048, warp: 32 };

    #[test]
    fn full_waves_of_blocks_that_fill_a_multiprocessor_fill_the_device() {
        assert_eq!(occupancy(80, 256, 80, DEVICE), Some(1.0));
        assert_eq!(occupancy(800, 256, 80, DEVICE), Some(1.0));
    }

    #[test]
    fn few_resident_blocks_leave_slots_empty() {
        assert_eq!(occupancy(20, 256, 20, DEVICE), Some(0.25));
    }

    #[test]
    fn a_last_wave_that_is_not_full_counts() {
        assert_eq!(occupancy(81, 256, 80, DEVICE), Some(81.0 / 160.0));
        assert_eq!(occupancy(1, 256, 80, DEVICE), Some(1.0 / 80.0), "one block on ten multiprocessors");
    }

    #[test]
    fn a_block_takes_whole_warps() {
        assert_eq!(occupancy(20, 33, 20, DEVICE), Some(4.0 / 64.0));
    }

    #[test]
    fn what_does_not_fit_has_no_occupancy() {
        assert_eq!(occupancy(10, 256, 0, DEVICE), None);
        assert_eq!(occupancy(0, 256, 80, DEVICE), None);
        assert_eq!(occupancy(10, 256, 80, Multiprocessors { warp: 0, ..DEVICE }), None);
    }

    #[test]
    fn clusters_that_do_not_fill_the_device_leave_multiprocessors_empty() {
        assert_eq!(occupancy(64, 256, 64, DEVICE), Some(0.8), "16 clusters of 4 where 80 blocks had room");
    }
}
