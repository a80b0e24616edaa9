//! Stages of the block, each with a component for the profile.

use parallax_ir::Access::{Read, Write};
use parallax_ir::conv::Conv;
use parallax_ir::{Elem, Problem, Program, Stage, spread, width};
use parallax_schema::case::Cost;
use parallax_schema::device::Caps;

use super::super::conv2d::stages::Gather;
use super::super::standard_scaler;
use super::{EPS, inference, scaler};

/// Components of the profile.
pub(super) const CONVOLUTION: &str = "convolution";
const BIAS: &str = "bias";
pub(super) const NORMALISATION: &str = "normalisation";
pub(super) const RELU: &str = "ReLU";
const CONVOLUTION_AND_SUMS: &str = "convolution, bias and sums";
pub(super) const NORMALISATION_AND_RELU: &str = "normalisation and ReLU";
const EVERYTHING: &str = "convolution, bias, normalisation and ReLU";

/// Kernel kind of the convolution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConvKind {
    /// Tiles in workgroup memory.
    Tiles,
    /// Tensor cores by warp-wide instructions (CUDA).
    Mma,
}

/// Positions of the smallest tile, and of the tiles of tensor cores.
pub(super) const SHORTEST_STRIP: u64 = 64;
const MMA_STRIP: u64 = 128;
/// Elements of a channel per workgroup of the statistics, for channels-first layouts.
pub(super) const STRIP: u64 = 4096;
/// Positions per thread of the gradient sums, for channels-last layouts.
pub(super) const GRADIENT_STRIP: u64 = 32;
/// Threads of a workgroup.
pub(super) const THREADS: u64 = 256;
/// Pieces of a thread that belong to the same channels.
const EACH: u64 = 8;

/// Block on a device.
pub(super) struct Block<'a> {
    pub(super) p: &'a Problem,
    pub(super) caps: &'a Caps,
    pub(super) conv: Conv,
}

impl Block<'_> {
    pub(super) fn new<'a>(p: &'a Problem, caps: &'a Caps) -> Block<'a> {
        Block { p, caps, conv: Conv::new(&p.shape) }
    }

    /// Bytes of `elements` elements.
    pub(super) fn bytes(&self, elements: u64) -> u64 {
        elements * Elem::Real.storage(self.p.dtype).bytes()
    }

    /// Number of elements of the result.
    pub(super) fn elements(&self) -> u64 {
        self.conv.out_dims().iter().product()
    }

    /// Cost of the convolution with `numbers` numbers per channel, and with `floats` f32 numbers written besides its result.
    fn convolution_cost(&self, numbers: u64, floats: u64) -> Cost {
        let [x, w] = [self.conv.x_dims(), self.conv.w_dims()].map(|dims| dims.iter().product::<u64>());
        let read = self.bytes(x + w + numbers * self.conv.channels[1]);
        Cost::new(self.conv.flops(), read, self.bytes(self.elements()) + 4 * floats)
    }

    /// Program with one stage per step.
    fn unfused(&self, kind: ConvKind) -> Program {
        let (plain, buffers) = (Gather::new(self.conv), ["x", "w", "sums"]);
        let convolution = match kind {
            ConvKind::Tiles => plain.implicit(self.caps, buffers),
            ConvKind::Mma => plain.mma(buffers),
        };
        let mut stages = vec![
            convolution.label("convolution").cost(self.convolution_cost(0, 0)).component(CONVOLUTION),
            self.bias(["sums", "biased"]).component(BIAS),
        ];
        if !inference(self.p) {
            stages.extend(self.statistics("biased").into_iter().map(|stage| stage.component(NORMALISATION)));
        }
        stages.push(self.normalise(["biased", "normalised"], false).component(NORMALISATION));
        stages.push(self.relu(["normalised", "out"]).component(RELU));
        Program { stages }
    }

    /// Program with all steps that fit fused into the convolution's epilogue.
    fn fused(&self, kind: ConvKind) -> Program {
        match inference(self.p) {
            true => self.in_one(kind).into(),
            false => self.with_sums(kind),
        }
    }

    /// All steps in one stage, with input statistics.
    fn in_one(&self, kind: ConvKind) -> Stage {
        let all = Gather { bias: true, normalised: Some(EPS as f32), relu: true, ..Gather::new(self.conv) };
        let stage = match kind {
            ConvKind::Tiles => all.implicit(self.caps, ["x", "w", "out"]),
            ConvKind::Mma => all.mma(["x", "w", "out"]),
        };
        let Cost { flops, read, written } = self.convolution_cost(3, 0);
        let cost = Cost::new(flops.0, read.0 + 8 * self.conv.channels[1], written.0);
        stage.label("convolution").cost(cost).component(EVERYTHING)
    }

    /// Program with a convolution that leaves statistics of its tiles. They are merged before the normalisation of its result.
    fn with_sums(&self, kind: ConvKind) -> Program {
        let biased = Gather { bias: true, ..Gather::new(self.conv) };
        let ([_, m], [_, positions], buffers) = (self.conv.channels, self.conv.pixels(), ["x", "w", "biased"]);
        let (mut convolution, strip) = match kind {
            ConvKind::Tiles => biased.implicit_by("conv_block/moments", "conv_block_moments", self.caps, buffers),
            ConvKind::Mma => (biased.mma_by("conv_block/moments_mma", "conv_block_moments_mma", buffers), MMA_STRIP),
        };
        convolution.args.push(("parts", Write).into());
        let cost = self.convolution_cost(1, 2 * m * positions.div_ceil(strip));
        Program {
            stages: vec![
                convolution.label("convolution").cost(cost).component(CONVOLUTION_AND_SUMS),
                self.merged(strip).component(NORMALISATION_AND_RELU),
                self.normalise(["biased", "out"], true).component(NORMALISATION_AND_RELU),
            ],
        }
    }

    /// Stages of the mean and variance of each channel of a buffer.
    fn statistics(&self, from: &'static str) -> Vec<Stage> {
        if self.conv.last {
            // Statistics of a table of positions and channels, without the scaling stage.
            let mut stages = scaler(self.p).stages("welford", self.caps, &[("x", from)]);
            stages.truncate(2);
            return stages;
        }
        let left = 8 * self.conv.channels[1] * self.conv.pixels()[1].div_ceil(STRIP);
        let strips = self
            .strips("conv_block_planes", "conv_block/planes")
            .args([("given", from, Read), ("parts", "parts", Write)])
            .cost(Cost::new(4 * self.elements(), self.bytes(self.elements()), left));
        vec![strips, self.merged(STRIP)]
    }

    /// Stage with one workgroup per strip of a channel's elements, for channels-first layouts.
    pub(super) fn strips(&self, entry: &'static str, text: &'static str) -> Stage {
        let ([_, m], [_, positions]) = (self.conv.channels, self.conv.pixels());
        let (plane, parts) = (positions / self.conv.images, positions.div_ceil(STRIP));
        let width = width(plane, self.p.dtype, self.caps);
        let consts = [
            ("CHANNELS", m),
            ("PLANE", plane),
            ("ROWS", positions),
            ("STRIP", STRIP),
            ("PARTS", parts),
            ("WIDTH", width),
            ("ROW_THREADS", THREADS),
        ];
        Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([THREADS as u32, 1, 1])
            .grid(spread(m * parts))
            .shared(4 * THREADS as u32)
    }

    /// Stage that merges the statistics of strips of `strip` positions.
    fn merged(&self, strip: u64) -> Stage {
        standard_scaler::merged([self.conv.pixels()[1], self.conv.channels[1]], strip, self.caps)
    }

    /// Stage with several pieces of an image per thread, all of the same channels.
    pub(super) fn placed(&self, entry: &'static str, text: &'static str) -> Stage {
        let ([_, m], [_, positions], elements) = (self.conv.channels, self.conv.pixels(), self.elements());
        let plane = positions / self.conv.images;
        let width = width(if self.conv.last { m } else { plane }, self.p.dtype, self.caps);
        // Threads that share a line process all of its pieces. With channels last, the image is one line.
        let (lines, line, together) = match self.conv.last {
            true => (1, elements / width, positions.div_ceil(EACH) * (m / width)),
            false => (self.conv.images * m, plane / width, (plane / width).div_ceil(EACH)),
        };
        let consts = [
            ("LINES", lines),
            ("LINE", line),
            ("TOGETHER", together),
            ("CHANNELS", m),
            ("WIDTH", width),
            ("THREADS", THREADS),
        ];
        Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .consts(&[("LAST", self.conv.last)])
            .consts(&[("EPS", EPS as f32)])
            .threads([THREADS as u32, 1, 1])
            .grid(spread((lines * together).div_ceil(THREADS)))
    }

    /// Stage that applies per-channel numbers to images: `operations` operations an element, with or without ReLU.
    fn of_channels(&self, entry: &'static str, [from, to]: [&'static str; 2], operations: u64, relu: bool) -> Stage {
        let (elements, bytes) = (self.elements(), self.bytes(self.elements()));
        self.placed(entry, "conv_block/channels")
            .consts(&[("RELU", relu)])
            .args([("given", from, Read), ("made", to, Write)])
            .cost(Cost::new(operations * elements, bytes, bytes))
    }

    fn bias(&self, buffers: [&'static str; 2]) -> Stage {
        let mut stage = self.of_channels("conv_block_bias", buffers, 1, false);
        stage.args.push(("bias", Read).into());
        stage
    }

    fn relu(&self, buffers: [&'static str; 2]) -> Stage {
        self.of_channels("conv_block_relu", buffers, 1, false)
    }

    /// Normalisation stage, with or without ReLU.
    fn normalise(&self, buffers: [&'static str; 2], relu: bool) -> Stage {
        let mut stage = self.of_channels("conv_block_normalise", buffers, 3 + u64::from(relu), relu);
        stage.args.extend(["mean", "variance", "gamma", "beta"].map(|name| (name, Read).into()));
        stage
    }
}

pub(super) fn unfused(p: &Problem, caps: &Caps) -> Program {
    Block::new(p, caps).unfused(ConvKind::Tiles)
}

pub(super) fn unfused_mma(p: &Problem, caps: &Caps) -> Program {
    Block::new(p, caps).unfused(ConvKind::Mma)
}

pub(super) fn fused(p: &Problem, caps: &Caps) -> Program {
    Block::new(p, caps).fused(ConvKind::Tiles)
}

pub(super) fn fused_mma(p: &Problem, caps: &Caps) -> Program {
    Block::new(p, caps).fused(ConvKind::Mma)
}

#[cfg(test)]
mod tests {
    use crate::{find, parse_case};
    use parallax_schema::case::DType;
    use parallax_schema::testing::{caps, hopper};

    #[test]
    fn parts_hold_the_strips_of_every_variant() {
        let form = &find("conv_block").expect("a workload").forms[0];
        for shape in form.awkward.iter().chain((form.shapes)(parallax_schema::case::Preset::Full)) {
            for variant in ["unfused", "fused", "fused_mma"] {
                let case = parse_case(&format!("conv_block/fwd/{shape}/f16/{variant}")).expect("valid");
                let found = case.problem.buffers().into_iter().find(|spec| spec.name == "parts");
                for caps in [caps(), hopper()] {
                    let Some(program) = case.program(&caps) else { continue };
                    let merge = program.stages.iter().find(|stage| stage.entry() == "standard_scaler_merge");
                    let (Some(merge), Some(parts)) = (merge, &found) else { continue };
                    // Reads all of them, as f32.
                    assert!(merge.cost.read <= parts.bytes(DType::F16), "{case}");
                }
            }
        }
    }

    #[test]
    fn with_given_statistics_everything_is_one_stage() {
        let case = parse_case("conv_block/fwd/n1,c8,h9,k3,p1,nhwc,inference/f32/fused").expect("valid");
        let program = case.program(&caps()).expect("a kernel variant");
        assert_eq!(program.stages.len(), 1);
        assert_eq!(program.stages[0].component, Some(super::EVERYTHING));
    }
}
