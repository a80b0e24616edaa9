//! Stages of the backward pass of convolutions.

use parallax_ir::Access::{Read, Write};
use parallax_ir::conv::Conv;
use parallax_ir::{
    Choice, ConvPass, Convolution, Elem, Gemm, Layout, MATRIX_DEPTH, MATRIX_TILE, Program, Stage, by_pieces, spread,
    sum_of_parts, width,
};
use parallax_schema::case::{Cost, DType};
use parallax_schema::device::Caps;

use super::super::linear::stages;
use super::super::linear::stages::{Stages, most_parts};
use super::stages::{DEPTH, Gather, Tile};
use super::wgmma;

/// Kernel kind of both GEMMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum With {
    /// One gradient element per thread.
    Elements,
    /// Tiles in workgroup memory.
    Tiles,
    /// Tensor cores by warp-wide instructions (CUDA).
    Mma,
    /// Tensor cores by instructions of four warps (CUDA).
    Wgmma,
    /// Vendor library (CUDA).
    Library(Choice),
}

/// Backward pass of a convolution on a device.
#[derive(Clone, Copy)]
pub(in super::super) struct Backward<'a> {
    pub(in super::super) conv: Conv,
    pub(in super::super) dtype: DType,
    pub(in super::super) caps: &'a Caps,
    pub(in super::super) bias: bool,
    pub(in super::super) relu: bool,
}

/// Threads of a workgroup.
const THREADS: u64 = 256;
/// Multiprocessors of a large GPU, for a device that reports no number; workgroups for each.
const UNITS: u64 = 128;
const GROUPS_PER_UNIT: u64 = 4;
/// Workgroups per multiprocessor on tensor cores, limited by their shared memory.
const MMA_GROUPS_PER_UNIT: u64 = 2;
/// Fewest positions of a part of the kernels' gradient, and most elements of all parts together.
const FEWEST_POSITIONS: u64 = 64;
const MOST_ELEMENTS: u64 = 1 << 25;

/// Largest number of parts of the gradient of the kernels.
pub(in super::super) fn most_parts_of_weights(conv: &Conv) -> u64 {
    let weights: u64 = conv.w_dims().iter().product();
    (conv.pixels()[1] / FEWEST_POSITIONS).min(MOST_ELEMENTS / weights).clamp(1, 256)
}

impl Backward<'_> {
    /// Program with both gradients by the given kernel kind, and the common stages.
    pub(super) fn program(&self, with: With) -> Program {
        let g = if self.relu { "gated" } else { "dout" };
        let mut stages = Vec::new();
        if self.relu {
            stages.push(self.gate());
        }
        stages.extend(self.gradients(with, g));
        if self.bias {
            stages.extend(self.bias(g));
        }
        Program { stages }
    }

    /// Stages of the gradients of the input and of the kernels, from a gradient of the result before ReLU.
    pub(in super::super) fn gradients(&self, with: With, g: &'static str) -> Vec<Stage> {
        let mut stages = self.input(with, g);
        match with {
            With::Elements => stages.push(self.weights_directly(g)),
            With::Tiles => stages.extend(self.weights(g)),
            With::Mma => stages.extend(self.weights_mma(g)),
            With::Wgmma => stages.extend(self.weights_wgmma(g)),
            With::Library(choice) => {
                let ([x, w, out], weights) = (self.bytes(), self.library(ConvPass::Kernels, choice, ["x", g, "dw"]));
                stages.push(weights.label("dw").cost(Cost::new(self.conv.flops(), x + out, w)));
            }
        }
        stages
    }

    /// Stages of the gradient of the input.
    fn input(&self, with: With, g: &'static str) -> Vec<Stage> {
        let back = Gather { back: true, ..self.forward() };
        let [x, w, out] = self.bytes();
        let mut stages = Vec::new();
        let stage = match with {
            With::Elements => back.direct([g, "w", "dx"]),
            With::Tiles => back.implicit(self.caps, [g, "w", "dx"]),
            With::Wgmma => wgmma::stage(back, self.caps, [g, "w", "dx"]),
            With::Mma if self.conv.last => back.mma([g, "w", "dx"]),
            With::Mma => {
                stages.push(back.transposed_kernels(["w", "turned"]).cost(Cost::new(0, w, w)));
                back.mma([g, "turned", "dx"])
            }
            With::Library(choice) => self.library(ConvPass::Image, choice, ["w", g, "dx"]),
        };
        stages.push(stage.label("dx").cost(Cost::new(self.conv.flops(), w + out, x)));
        stages
    }

    fn library(&self, pass: ConvPass, choice: Choice, buffers: [&'static str; 3]) -> Stage {
        Convolution { conv: self.conv, pass, choice }.stage(buffers)
    }

    /// Bytes of the input, of the kernels and of the result.
    fn bytes(&self) -> [u64; 3] {
        let bytes = |dims: Vec<u64>| dims.iter().product::<u64>() * Elem::Real.storage(self.dtype).bytes();
        [self.conv.x_dims(), self.conv.w_dims(), self.conv.out_dims()].map(bytes)
    }

    /// Stage of the gradient before ReLU.
    pub(in super::super) fn gate(&self) -> Stage {
        let elements: u64 = self.conv.out_dims().iter().product();
        let (width, [.., out]) = (width(elements, self.dtype, self.caps), self.bytes());
        let text = "conv2d/gate";
        by_pieces(elements / width, width, text, "conv2d_gate")
            .args([("result", "out", Read), ("gradient", "dout", Read), ("gated", "gated", Write)])
            .cost(Cost::new(elements, 2 * out, out))
            .label("gate")
    }

    /// Forward gather: the kernels' gradient reads the same pixels.
    fn forward(&self) -> Gather {
        Gather::new(self.conv)
    }

    /// Stage with one weight per thread, over all images and positions.
    fn weights_directly(&self, g: &'static str) -> Stage {
        let weights: u64 = self.conv.w_dims().iter().product();
        let [x, w, out] = self.bytes();
        let stage = Stage::kernel("dw", "conv2d/direct_weights", "conv2d_direct_weights")
            .consts(&[("THREADS", THREADS as u32)])
            .threads([THREADS as u32, 1, 1])
            .grid(spread(weights.div_ceil(THREADS)))
            .args([("source", "x", Read), ("gradient", g, Read), ("weights", "dw", Write)])
            .cost(Cost::new(self.conv.flops(), x + out, w));
        self.forward().sides(stage)
    }

    /// Stages of the kernels' gradient with tiles, in parts of the positions.
    fn weights(&self, g: &'static str) -> [Stage; 2] {
        let conv = &self.conv;
        let ([_, m], positions) = (conv.group_channels(), conv.pixels()[1]);
        let tile = Tile::largest(m);
        let tiles = tile.count([m, conv.terms(), conv.groups]);
        let wanted = (self.caps.compute_units.map_or(UNITS, u64::from) * GROUPS_PER_UNIT).div_ceil(tiles);
        let parts = wanted.min(most_parts_of_weights(conv));
        // Whole steps, so that the end of a part does not cut a vector of positions.
        let part = positions.div_ceil(parts).next_multiple_of(DEPTH);
        let stage = Stage::kernel("dw_parts", "conv2d/weights", "conv2d_weights")
            .consts(&[("PARTS", parts as u32), ("PART", part as u32)])
            .grid(spread(tiles * parts));
        self.in_parts(tile.with_consts(stage), parts, g)
    }

    /// Stages on tensor cores, with as many parts of the positions as run at a time.
    fn weights_mma(&self, g: &'static str) -> [Stage; 2] {
        let conv = &self.conv;
        let ([_, m], positions) = (conv.group_channels(), conv.pixels()[1]);
        let layout = if conv.last { Layout::Tn } else { Layout::Nt };
        let whole = Gemm::new(m, conv.terms(), positions).batch(conv.groups).layout(layout);
        let at_a_time = self.caps.compute_units.map_or(UNITS, u64::from) * MMA_GROUPS_PER_UNIT;
        let parts = (at_a_time / whole.tiles(u64::from(MATRIX_TILE))).clamp(1, most_parts_of_weights(conv));
        let part = positions.div_ceil(parts).next_multiple_of(u64::from(MATRIX_DEPTH));
        let stage = Gemm { k: part, ..whole }
            .batch(conv.groups * parts)
            .mma("conv2d/weights_mma", "conv2d_weights_mma")
            .label("dw_parts");
        self.in_parts(stage, parts, g)
    }

    /// Stages by warpgroups, in parts of the positions.
    fn weights_wgmma(&self, g: &'static str) -> [Stage; 2] {
        let (stage, parts) = wgmma::weights(&self.conv, self.caps, most_parts_of_weights(&self.conv));
        self.in_parts(stage, parts, g)
    }

    /// Stage of the kernels' gradient in parts, and the stage that sums them.
    fn in_parts(&self, stage: Stage, parts: u64, g: &'static str) -> [Stage; 2] {
        let [x, _, out] = self.bytes();
        let weights: u64 = self.conv.w_dims().iter().product();
        let stage = self
            .forward()
            .sides(stage)
            .args([("source", "x", Read), ("gradient", g, Read), ("parts", "parts", Write)])
            .cost(Cost::new(self.conv.flops(), x + out, 4 * parts * weights));
        [stage, self.added_up([parts, weights], ["parts", "dw"])]
    }

    /// Stages of the channel sums, in parts.
    fn bias(&self, g: &'static str) -> [Stage; 2] {
        let (channels, positions) = (self.conv.channels[1], self.conv.pixels()[1]);
        if self.conv.last {
            let stages = Stages { dtype: self.dtype, caps: self.caps, kind: stages::GemmKind::Tiles };
            return stages.columns([positions, channels], [g, "sums", "dbias"]);
        }
        let wanted = self.caps.compute_units.map_or(UNITS, u64::from) * GROUPS_PER_UNIT / channels;
        let parts = wanted.clamp(1, most_parts(positions));
        let [_, m] = self.conv.group_channels();
        let stage = Stage::kernel("dbias_parts", "conv2d/channels", "conv2d_channels")
            .consts(&[("IMAGES", self.conv.images), ("CHANNELS", m * self.conv.groups)].map(|(n, v)| (n, v as u32)))
            .consts(&[("POSITIONS", (positions / self.conv.images) as u32), ("PARTS", parts as u32)])
            .consts(&[("ROW_THREADS", THREADS as u32)])
            .threads([THREADS as u32, 1, 1])
            .grid(spread(channels * parts))
            .shared(4 * THREADS as u32)
            .args([("gradient", g, Read), ("sums", "sums", Write)])
            .cost(Cost::new(positions * channels, self.bytes()[2], 4 * parts * channels));
        [stage, self.added_up([parts, channels], ["sums", "dbias"])]
    }

    /// Stage that sums `parts` rows of `columns` columns.
    fn added_up(&self, [parts, columns]: [u64; 2], [from, to]: [&'static str; 2]) -> Stage {
        sum_of_parts(parts, columns, self.caps, "rmsnorm/parts", "rmsnorm_parts")
            .consts(&[("COLUMNS", columns as u32)])
            .args([("parts", from, Read), ("dgamma", to, Write)])
            .label(to)
    }
}
