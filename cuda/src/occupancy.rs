//! Occupancy of the device by a launch, computed from the driver's attributes.

/// Device attributes of the computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Multiprocessors {
    /// Number of multiprocessors.
    pub(crate) count: u32,
    /// Maximum number of threads on a multiprocessor.
    pub(crate) threads: u32,
    /// Threads of a warp, the allocation unit of thread slots.
    pub(crate) warp: u32,
}

/// Returns the share of the device's warp slots that a launch fills, averaged over its waves.
///
/// `wave` is the number of blocks of `block` threads that are resident on the device at once. Registers, shared memory and block
/// size limit it. Its source is the driver's `cuOccupancyMaxActiveBlocksPerMultiprocessor` or `cuOccupancyMaxActiveClusters`. The
/// warps of a wave over the device's warp slots are the occupancy of NVIDIA's calculator.
///
/// A grid runs in waves of `wave` blocks, and the last one is rarely full. The second factor is the share of block slots in use.
/// The result is `None` when no block fits or the attributes are unknown.
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
