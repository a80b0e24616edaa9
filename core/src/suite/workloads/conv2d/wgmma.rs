//! The forward variant by warpgroups (`wgmma`), which compute capability 9.0 alone has, for channels that come last.

use super::stages::Gather;
use crate::suite::conv::Conv;
use crate::suite::{Caps, CudaLaunch, Problem, Product, Stage, spread};

/// Terms of a step: rows of 128 bytes, as the instruction's swizzle has them. Steps in shared memory: two that are multiplied, and
/// two on their way.
const DEPTH: u64 = 64;
const STEPS: u64 = 4;
/// Threads and positions of a warpgroup.
const THREADS: u64 = 128;
const POSITIONS: u64 = 64;
/// Multiprocessors of a large GPU, where their number is not known.
const UNITS: u64 = 128;
/// Tiles begin on multiples of so many bytes.
const ALIGNED: u64 = 1024;

/// What a block computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    warpgroups: u64,
    channels: u64,
}

impl Tile {
    /// Of two or of three warpgroups, whichever has done sooner: blocks run one to a multiprocessor, and the last turn is often far
    /// from full.
    fn of(conv: &Conv, caps: &Caps) -> Tile {
        let channels = match conv.of_group()[1] {
            0..=64 => 64,
            65..=128 => 128,
            _ => 256,
        };
        let units = caps.units.map_or(UNITS, u64::from);
        let tiles = [3, 2].map(|warpgroups| Tile { warpgroups, channels });
        let turns = |tile: &Tile| tile.count(conv).div_ceil(units) * tile.warpgroups;
        *tiles.iter().min_by_key(|tile| turns(tile)).expect("two")
    }

    fn rows(&self) -> u64 {
        self.warpgroups * POSITIONS
    }

    /// How many of them there are.
    fn count(&self, conv: &Conv) -> u64 {
        let [_, m] = conv.of_group();
        conv.groups * conv.pixels()[1].div_ceil(self.rows()) * m.div_ceil(self.channels)
    }
}

/// Why it cannot compute a problem on a device, if so.
///
/// # Errors
/// With the reason.
pub(super) fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Product::mma_available(p.dtype, caps)?;
    let conv = Conv::of(&p.shape);
    match conv.of_group()[0] {
        _ if !caps.cuda.is_some_and(|cuda| cuda.wgmma) => {
            Err(format!("wgmma is an instruction of compute capability 9.0, not {:?}", caps.compute_capability))
        }
        _ if !conv.last => {
            Err("wgmma takes neighbouring channels for neighbouring terms: they must come last".to_owned())
        }
        c if !c.is_multiple_of(8) => {
            Err(format!("wgmma copies 16 bytes at a time: {c} input channels of a group are not a multiple of 8"))
        }
        _ => Ok(()),
    }
}

/// The stage with the buffers of pixels, of kernels and of results.
pub(super) fn stage(gather: Gather, caps: &Caps, buffers: [&'static str; 3]) -> Stage {
    let tile = Tile::of(&gather.conv, caps);
    let threads = tile.warpgroups * THREADS;
    let staged = STEPS * (tile.rows() + tile.channels) * DEPTH * 2;
    let stage = Stage::kernel("conv2d_wgmma", "conv2d/wgmma", "conv2d_wgmma")
        .consts(
            &[("COLUMNS", tile.channels), ("DEPTH", DEPTH), ("STEPS", STEPS), ("THREADS", threads)]
                .map(|(name, value)| (name, value as u32)),
        )
        .threads([threads as u32, 1, 1])
        .grid(spread(tile.count(&gather.conv)))
        .cuda(CudaLaunch { dynamic_shared_bytes: (staged + ALIGNED) as u32, ..CudaLaunch::default() });
    gather.told(stage, buffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Case;
    use crate::testing::mock::hopper;

    fn conv(shape: &str) -> (Problem, Conv) {
        let case: Case = format!("conv2d/fwd/{shape}/bf16/direct").parse().expect("valid");
        let conv = Conv::of(&case.problem.shape);
        (case.problem, conv)
    }

    #[test]
    fn tiles_leave_few_multiprocessors_without_work() {
        let caps = Caps { units: Some(132), ..hopper() };
        // 196 blocks of 128 positions are two turns of 132, 131 of 192 are one; one block is as long as its rows.
        for (shape, warpgroups, channels) in [
            ("n8,c256,h56,k3,p1,nhwc", 3, 256),
            ("n1,c8,m4,h136,k1,nhwc", 3, 64),
            ("n1,c8,m70,h12,w11,k1,nhwc", 2, 128),
        ] {
            assert_eq!(Tile::of(&conv(shape).1, &caps), Tile { warpgroups, channels }, "{shape}");
        }
    }

    #[test]
    fn it_says_what_it_does_not_take() {
        let without = Caps { cuda: None, ..hopper() };
        for (shape, caps, part) in [
            ("n1,c8,h8,k3,nchw", &hopper(), "must come last"),
            ("n1,c24,h8,k3,g2,nhwc", &hopper(), "12 input channels"),
            ("n1,c8,h8,k3,nhwc", &without, "compute capability 9.0"),
        ] {
            assert!(available(&conv(shape).0, caps).is_err_and(|why| why.contains(part)), "{shape}");
        }
        assert_eq!(available(&conv("n1,c8,h8,k3,nhwc").0, &hopper()), Ok(()));
    }
}
