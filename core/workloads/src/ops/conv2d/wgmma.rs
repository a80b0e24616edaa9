//! Variants by warpgroups (`wgmma`), an instruction of compute capability 9.0 alone, for channels-last layouts. The gradient of the
//! input is a convolution, like the forward pass. The gradient of the kernels is computed in parts of the positions.

use parallax_ir::conv::Conv;
use parallax_ir::{CudaLaunch, Gemm, Problem, Stage, has_wgmma, spread};
use parallax_schema::case::DType;
use parallax_schema::device::Caps;

use super::stages::Gather;

/// Terms of a step: rows of 128 bytes, the instruction's swizzle. Steps in shared memory: two are multiplied, and two are in
/// flight.
const DEPTH: u64 = 64;
const STAGES: u64 = 4;
/// Threads and positions of a warpgroup.
const THREADS: u64 = 128;
const POSITIONS: u64 = 64;
/// Multiprocessors of a large GPU, for a device that reports no number.
const UNITS: u64 = 128;
/// Alignment of tiles in bytes.
const ALIGNED: u64 = 1024;

/// Result tile of a block: 64 rows per warpgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    warpgroups: u64,
    columns: u64,
}

impl Tile {
    /// Tile of two or three warpgroups, by the smaller number of waves in `turns`. A multiprocessor runs one block, and the last
    /// wave is often far from full.
    fn new(columns: u64, turns: impl Fn(&Tile) -> u64) -> Tile {
        let columns = match columns {
            0..=64 => 64,
            65..=128 => 128,
            _ => 256,
        };
        let tiles = [3, 2].map(|warpgroups| Tile { warpgroups, columns });
        *tiles.iter().min_by_key(|tile| turns(tile) * tile.warpgroups).expect("two")
    }

    /// Tile of a convolution's result: a row is a position, a column a channel.
    fn of_result(extents @ [channels, ..]: [u64; 3], caps: &Caps) -> Tile {
        Tile::new(channels, |tile| tile.of_results(extents).div_ceil(units(caps)))
    }

    /// Number of tiles of a convolution's result with these channels, positions and groups.
    fn of_results(&self, [channels, positions, groups]: [u64; 3]) -> u64 {
        groups * self.count([positions, channels])
    }

    /// Number of tiles of a matrix.
    fn count(&self, [rows, columns]: [u64; 2]) -> u64 {
        rows.div_ceil(self.rows()) * columns.div_ceil(self.columns)
    }

    fn rows(&self) -> u64 {
        self.warpgroups * POSITIONS
    }

    /// Stage with `blocks` such tiles.
    fn with_consts(&self, stage: Stage, blocks: u64) -> Stage {
        let threads = self.warpgroups * THREADS;
        let staged = STAGES * (self.rows() + self.columns) * DEPTH * 2;
        stage
            .consts(
                &[("BLOCK_N", self.columns), ("BLOCK_K", DEPTH), ("STAGES", STAGES), ("THREADS", threads)]
                    .map(|(name, value)| (name, value as u32)),
            )
            .threads([threads as u32, 1, 1])
            .grid(spread(blocks))
            .cuda(CudaLaunch { dynamic_shared_bytes: (staged + ALIGNED) as u32, ..CudaLaunch::default() })
    }
}

fn units(caps: &Caps) -> u64 {
    caps.compute_units.map_or(UNITS, u64::from)
}

/// Checks that the variant can compute a problem on a device.
///
/// # Errors
/// Reason against it.
pub(super) fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    takes(&Conv::new(&p.shape), p.dtype, caps)
}

/// Checks that warpgroups can compute a convolution on a device.
///
/// # Errors
/// Reason against it.
pub(super) fn takes(conv: &Conv, dtype: DType, caps: &Caps) -> Result<(), String> {
    Gemm::mma_available(dtype, caps)?;
    has_wgmma(caps)?;
    match conv.group_channels()[0] {
        _ if !conv.last => {
            Err("wgmma takes neighbouring channels for neighbouring terms: they must come last".to_owned())
        }
        c => in_pieces(c, "input"),
    }
}

/// Checks the same for both gradients, which have terms of either side's channels.
///
/// # Errors
/// Reason against it.
pub(super) fn available_backward(p: &Problem, caps: &Caps) -> Result<(), String> {
    available(p, caps)?;
    in_pieces(Conv::new(&p.shape).group_channels()[1], "output")
}

/// Checks that the channels of a group are whole pieces.
fn in_pieces(channels: u64, of: &str) -> Result<(), String> {
    match channels.is_multiple_of(8) {
        true => Ok(()),
        false => {
            Err(format!("wgmma copies 16 bytes at a time: {channels} {of} channels of a group are not a multiple of 8"))
        }
    }
}

/// Stage with the buffers of pixels, kernels and results.
pub(super) fn stage(gather: Gather, caps: &Caps, buffers: [&'static str; 3]) -> Stage {
    let extents = gather.extents();
    let tile = Tile::of_result(extents, caps);
    let stage = Stage::kernel("conv2d_wgmma", "conv2d/wgmma", "conv2d_wgmma");
    gather.with_consts(tile.with_consts(stage, tile.of_results(extents)), buffers)
}

/// Partition of the gradient of the kernels: a row is a weight of an output channel, a column an output channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shared {
    tile: Tile,
    /// Parts of the positions, and positions of each.
    parts: u64,
    part: u64,
}

impl Shared {
    /// Partition with as many parts as run at a time, but at most `most`.
    fn new(conv: &Conv, caps: &Caps, most: u64) -> Shared {
        let ([_, m], positions) = (conv.group_channels(), conv.pixels()[1]);
        let shared = |tile: &Tile| {
            let parts = (units(caps) / (conv.groups * tile.count([conv.terms(), m]))).clamp(1, most);
            let part = positions.div_ceil(parts).next_multiple_of(DEPTH);
            Shared { tile: *tile, parts: positions.div_ceil(part), part }
        };
        let turns = |tile: &Tile| {
            let shared = shared(tile);
            shared.blocks(conv).div_ceil(units(caps)) * shared.part
        };
        shared(&Tile::new(m, turns))
    }

    fn blocks(&self, conv: &Conv) -> u64 {
        conv.groups * self.parts * self.tile.count([conv.terms(), conv.group_channels()[1]])
    }
}

/// Stage for the parts of the kernels' gradient, and the number of parts, at most `most`.
pub(super) fn weights(conv: &Conv, caps: &Caps, most: u64) -> (Stage, u64) {
    let shared = Shared::new(conv, caps, most);
    let stage = Stage::kernel("dw_parts", "conv2d/weights_wgmma", "conv2d_weights_wgmma")
        .consts(&[("PARTS", shared.parts as u32), ("PART", shared.part as u32)]);
    (shared.tile.with_consts(stage, shared.blocks(conv)), shared.parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::hopper;

    fn conv(shape: &str) -> (Problem, Conv) {
        let case = parse_case(&format!("conv2d/fwd/{shape}/bf16/direct")).expect("valid");
        let conv = Conv::new(&case.problem.shape);
        (case.problem, conv)
    }

    #[test]
    fn tiles_leave_few_multiprocessors_without_work() {
        let caps = Caps { compute_units: Some(132), ..hopper() };
        // 196 blocks of 128 positions are two waves of 132; 131 of 192 are one. The time of a block is proportional to its rows.
        for (shape, warpgroups, columns) in
            [("n8,c256,h56,k3,p1,nhwc", 3, 256), ("n1,c8,h136,k1,nhwc", 3, 64), ("n1,c8,m70,h12,w11,k1,nhwc", 2, 128)]
        {
            let conv = conv(shape).1;
            let extents = [conv.group_channels()[1], conv.pixels()[1], conv.groups];
            assert_eq!(Tile::of_result(extents, &caps), Tile { warpgroups, columns }, "{shape}");
        }
    }

    #[test]
    fn parts_of_positions_are_one_turn() {
        let caps = Caps { compute_units: Some(132), ..hopper() };
        // 2304 weights of 256 channels: 12 tiles of 192, 11 times; 576 of 64: three tiles, 44 times.
        for (shape, warpgroups, columns, parts) in
            [("n8,c256,h56,k3,p1,nhwc", 3, 256, 11), ("n8,c64,h128,k3,p1,nhwc", 3, 64, 44)]
        {
            let shared = Shared::new(&conv(shape).1, &caps, 256);
            assert_eq!(shared.tile, Tile { warpgroups, columns }, "{shape}");
            assert_eq!(shared.parts, parts, "{shape}");
            assert!(shared.part * parts >= conv(shape).1.pixels()[1], "{shape}");
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
