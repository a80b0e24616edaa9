//! Stages of convolutions in two and three dimensions, forward and backward.

use parallax_ir::Access::{Read, Write};
use parallax_ir::conv::Conv;
use parallax_ir::{Gemm, Layout, Stage, spread};
use parallax_schema::device::Caps;

/// Implicit GEMM of kernels and gathered pixels. Forward, it gathers the input around output positions. Backward, it gathers the
/// output's gradient around input positions.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Gather {
    pub(in super::super) conv: Conv,
    /// Whether the gradient of the input is computed.
    pub(in super::super) back: bool,
    /// Whether a number per output channel is added.
    pub(in super::super) bias: bool,
    /// ε of a normalisation after the bias, with the buffers `mean`, `variance`, `gamma` and `beta` per output channel.
    pub(in super::super) normalised: Option<f32>,
    /// Whether negative results become zero.
    pub(in super::super) relu: bool,
}

/// Tile of a GEMM. A thread has register tiles of 4 × 4 accumulators, one or two in each dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Tile {
    rows: u64,
    columns: u64,
    /// Register tiles of a thread, down and across.
    squares: [u64; 2],
}

/// Threads of a workgroup with tiles.
const THREADS: u64 = 256;
/// Multiprocessors of a large GPU, for a device that reports no number.
const UNITS: u64 = 128;

/// Terms of each sum that are staged at a time.
pub(super) const DEPTH: u64 = 16;

impl Tile {
    /// Tile of `down` rows of threads, with these register tiles per thread.
    fn new(down: u64, squares: [u64; 2]) -> Tile {
        Tile { rows: 4 * down * squares[0], columns: 4 * THREADS / down * squares[1], squares }
    }

    /// Largest tile for `rows` rows. Few rows, as in groups or in 3-D, would leave most of a square tile empty.
    pub(in super::super) fn largest(rows: u64) -> Tile {
        match rows {
            0..=32 => Tile::new(8, [1, 1]),
            33..=64 => Tile::new(16, [1, 2]),
            _ => Tile::new(16, [2, 2]),
        }
    }

    /// Tile for `times` results of `rows` × `columns`. Large tiles read less, but there must be enough for the device.
    fn for_results([rows, columns, times]: [u64; 3], caps: &Caps) -> Tile {
        let largest = Tile::largest(rows);
        let enough = largest.count([rows, columns, times]) >= caps.compute_units.map_or(UNITS, u64::from);
        if rows <= 32 || enough { largest } else { Tile::new(16, [1, 1]) }
    }

    /// Number of tiles.
    pub(in super::super) fn count(&self, [rows, columns, times]: [u64; 3]) -> u64 {
        times * rows.div_ceil(self.rows) * columns.div_ceil(self.columns)
    }

    /// Stage with the tile's constants.
    pub(in super::super) fn with_consts(&self, stage: Stage) -> Stage {
        let sizes = [
            ("BLOCK_M", self.rows),
            ("BLOCK_N", self.columns),
            ("REG_TILES_M", self.squares[0]),
            ("REG_TILES_N", self.squares[1]),
            ("BLOCK_K", DEPTH),
        ];
        stage
            .consts(&sizes.map(|(name, value)| (name, value as u32)))
            .threads([THREADS as u32, 1, 1])
            .shared(((self.rows + self.columns) * DEPTH * 4) as u32)
    }
}

impl Gather {
    /// Forward pass without epilogue.
    pub(in super::super) fn new(conv: Conv) -> Gather {
        Gather { conv, back: false, bias: false, normalised: None, relu: false }
    }

    /// Stage with the constants of both sides. Pixels come from one side, around positions of the other.
    pub(super) fn sides(&self, stage: Stage) -> Stage {
        let Gather { conv, back, bias, normalised, relu } = *self;
        let ([c, m], [image, out]) = (conv.group_channels(), [conv.image, conv.out()]);
        let ((from, from_c), (to, to_c)) = if back { ((out, m), (image, c)) } else { ((image, c), (out, m)) };
        let extents = [
            ("FROM_C", from_c),
            ("FROM_D", from[0]),
            ("FROM_H", from[1]),
            ("FROM_W", from[2]),
            ("TO_C", to_c),
            ("TO_D", to[0]),
            ("TO_H", to[1]),
            ("TO_W", to[2]),
        ];
        let words = [("BACK", back), ("BIAS", bias), ("NORMALISED", normalised.is_some()), ("RELU", relu)];
        let eps: Vec<_> = normalised.into_iter().map(|eps| ("EPS", eps)).collect();
        conv.with_consts(stage).consts(&extents.map(|(name, value)| (name, value as u32))).consts(&words).consts(&eps)
    }

    /// Stage with these constants and the buffers of pixels, kernels and results.
    pub(super) fn with_consts(&self, stage: Stage, [source, w, result]: [&'static str; 3]) -> Stage {
        let args = [("source", source, Read), ("w", w, Read), ("result", result, Write)];
        let numbers = ["mean", "variance", "gamma", "beta"].map(|name| (name, name, Read));
        let more = self.bias.then_some(("bias", "bias", Read)).into_iter();
        let more = more.chain(numbers.into_iter().filter(|_| self.normalised.is_some()));
        self.sides(stage).args(args.into_iter().chain(more))
    }

    /// Channels of a group, positions, and groups of the result.
    pub(super) fn extents(&self) -> [u64; 3] {
        let ([c, m], [image, out]) = (self.conv.group_channels(), self.conv.pixels());
        let (channels, pixels) = if self.back { (c, image) } else { (m, out) };
        [channels, pixels, self.conv.groups]
    }

    /// Stage with one result element per thread, with operands in device memory.
    pub(in super::super) fn direct(&self, buffers: [&'static str; 3]) -> Stage {
        let elements: u64 = self.extents().iter().product();
        let stage = Stage::kernel("conv2d_direct", "conv2d/direct", "conv2d_direct")
            .consts(&[("THREADS", THREADS as u32)])
            .threads([THREADS as u32, 1, 1])
            .grid(spread(elements.div_ceil(THREADS)));
        self.with_consts(stage, buffers)
    }

    /// Stage with tiles in workgroup memory.
    pub(in super::super) fn implicit(&self, caps: &Caps, buffers: [&'static str; 3]) -> Stage {
        self.implicit_by("conv2d/implicit", "conv2d_implicit", caps, buffers).0
    }

    /// Stage with tiles by another kernel source and entry point. Also returns the number of result positions per tile.
    pub(in super::super) fn implicit_by(
        &self,
        text: &'static str,
        entry: &'static str,
        caps: &Caps,
        buffers: [&'static str; 3],
    ) -> (Stage, u64) {
        let tile = Tile::for_results(self.extents(), caps);
        let stage = tile.with_consts(Stage::kernel(entry, text, entry)).grid(spread(tile.count(self.extents())));
        (self.with_consts(stage, buffers), tile.columns)
    }

    /// GEMM on matrix units. With channels last it is pixels times kernels, otherwise kernels times pixels, so that results keep
    /// their layout. Kernels with adjacent terms are stored columns.
    fn gemm(&self) -> Gemm {
        let ([channels, pixels, groups], [c, m]) = (self.extents(), self.conv.group_channels());
        let terms = if self.back { m } else { c } * self.conv.taps();
        let gemm = match (self.conv.last, self.back) {
            (true, false) => Gemm::new(pixels, channels, terms).layout(Layout::Nt),
            (true, true) => Gemm::new(pixels, channels, terms),
            (false, _) => Gemm::new(channels, pixels, terms),
        };
        gemm.batch(groups)
    }

    /// Stage on CUDA's tensor cores. Backward, it needs transposed kernels unless channels are last.
    pub(in super::super) fn mma(&self, buffers: [&'static str; 3]) -> Stage {
        self.mma_by("conv2d/mma", "conv2d_mma", buffers)
    }

    /// Stage on tensor cores by another kernel source and entry point.
    pub(in super::super) fn mma_by(
        &self,
        text: &'static str,
        entry: &'static str,
        buffers: [&'static str; 3],
    ) -> Stage {
        self.with_consts(self.gemm().mma(text, entry), buffers)
    }

    /// Stage with WGSL's cooperative matrices, forward.
    pub(super) fn coopmat(&self, caps: &Caps, buffers: [&'static str; 3]) -> Stage {
        let results = if self.conv.last { self.extents()[0] } else { self.conv.out().iter().product() };
        let stage = self.gemm().coopmat_gathering(caps, results, "conv2d/coopmat", "conv2d_coopmat");
        self.with_consts(stage, buffers)
    }

    /// Stage that transposes kernels from one buffer to another: for each input channel, the output channels at each tap.
    pub(super) fn transposed_kernels(&self, [from, to]: [&'static str; 2]) -> Stage {
        let weights: u64 = self.conv.w_dims().iter().product();
        let stage = Stage::kernel("conv2d_turned", "conv2d/turned", "conv2d_turned")
            .consts(&[("THREADS", THREADS as u32)])
            .threads([THREADS as u32, 1, 1])
            .grid(spread(weights.div_ceil(THREADS)));
        self.sides(stage).args([("w", from, Read), ("turned", to, Write)])
    }
}

#[cfg(test)]
mod tests {
    use crate::{find, parse_case};
    use parallax_ir::Value;
    use parallax_schema::testing::caps;

    #[test]
    fn awkward_shapes_reach_every_tile() {
        let mut found = std::collections::BTreeSet::new();
        for form in ["conv2d", "conv3d"].iter().flat_map(|name| &find(name).expect("a workload").forms) {
            for shape in form.awkward {
                let case = format!("conv2d/{}/{shape}/f32/implicit_gemm", form.direction.name());
                let Ok(case) = parse_case(&case) else { continue };
                for kernel in case.program(&caps()).expect("a kernel variant").kernels() {
                    let of = |name| kernel.consts.iter().find(|(known, _)| *known == name);
                    if let (Some((_, Value::U32(rows))), Some((_, Value::U32(columns)))) =
                        (of("BLOCK_M"), of("BLOCK_N"))
                    {
                        found.insert((kernel.entry, *rows, *columns));
                    }
                }
            }
        }
        for (rows, columns) in [(32, 128), (64, 64), (64, 128), (128, 128)] {
            let by = |entry| found.contains(&(entry, rows, columns));
            assert!(by("conv2d_implicit"), "{rows} x {columns}: {found:?}");
            // Terms are divided into parts, regardless of the number of tiles.
            assert!(by("conv2d_weights") != (columns == 64), "{rows} x {columns}: {found:?}");
        }
    }
}
