//! Stages of the block's backward pass.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Program, Stage, spread, sum_of_parts, width};
use parallax_schema::case::{Cost, DType};

use super::super::conv2d::backward_stages::{Backward, With};
use super::inference;
use super::stages::{Block, CONVOLUTION, GRADIENT_STRIP, NORMALISATION, NORMALISATION_AND_RELU, RELU, STRIP, THREADS};

impl Block<'_> {
    /// Program of the backward pass. ReLU is fused into the readers of the gradient, or a separate first stage.
    pub(super) fn backward(&self, with: With, fused: bool) -> Program {
        let convolution = Backward { conv: self.conv, dtype: self.p.dtype, caps: self.caps, bias: false, relu: false };
        let mut stages = Vec::new();
        let (g, component) = match fused {
            true => ("dout", NORMALISATION_AND_RELU),
            false => {
                stages.push(convolution.gate().component(RELU));
                ("gated", NORMALISATION)
            }
        };
        stages.extend(self.normalisation(g, fused).map(|stage| stage.component(component)));
        stages.extend(convolution.gradients(with, "dv").into_iter().map(|stage| stage.component(CONVOLUTION)));
        Program { stages }
    }

    /// Stages from the gradient after normalisation, with or without ReLU, to the gradient before it.
    fn normalisation(&self, g: &'static str, gated: bool) -> [Stage; 4] {
        let (m, elements) = (self.conv.channels[1], self.elements());
        let bytes = self.bytes(elements);
        let result = || gated.then_some(("result", "out", Read));
        // ReLU's gate reads one more array.
        let read = if gated { 3 } else { 2 } * bytes;

        let (sums, parts) = self.gradient_sums();
        let sums = sums
            .consts(&[("GATED", gated)])
            .args(
                [("gradient", g, Read), ("given", "biased", Read), ("mean", "mean", Read), ("strips", "strips", Write)]
                    .into_iter()
                    .chain(result()),
            )
            .cost(Cost::new(4 * elements, read, 8 * parts * m));
        let totals = sum_of_parts(parts, 2 * m, self.caps, "rmsnorm/parts", "rmsnorm_parts")
            .elem(DType::F32)
            .consts(&[("COLUMNS", (2 * m) as u32)])
            .args([("parts", "strips", Read), ("dgamma", "totals", Write)])
            .label("totals");
        let before = self
            .placed("conv_block_gradient", "conv_block/gradient")
            .consts(&[("ROWS", self.conv.pixels()[1] as u32)])
            .consts(&[("GATED", gated), ("INFERENCE", inference(self.p))])
            .args(
                [
                    ("gradient", g, Read),
                    ("given", "biased", Read),
                    ("mean", "mean", Read),
                    ("made", "dv", Write),
                    ("variance", "variance", Read),
                    ("gamma", "gamma", Read),
                    ("totals", "totals", Read),
                ]
                .into_iter()
                .chain(result()),
            )
            .cost(Cost::new(5 * elements, if inference(self.p) { read - bytes } else { read }, bytes));
        [sums, totals, self.numbers(), before]
    }

    /// Stage that sums the gradient of each channel, and its products, in parts; and the number of parts.
    fn gradient_sums(&self) -> (Stage, u64) {
        let (m, positions) = (self.conv.channels[1], self.conv.pixels()[1]);
        if !self.conv.last {
            let text = "conv_block/gradient_planes";
            return (self.strips("conv_block_gradient_planes", text), positions.div_ceil(STRIP));
        }
        let (width, parts) = (width(m, self.p.dtype, self.caps), positions.div_ceil(GRADIENT_STRIP));
        let text = "conv_block/gradient_columns";
        let consts = [
            ("CHANNELS", m),
            ("ROWS", positions),
            ("STRIP", GRADIENT_STRIP),
            ("PARTS", parts),
            ("WIDTH", width),
            ("THREADS", THREADS),
        ];
        let entry = "conv_block_gradient_columns";
        let stage = Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([THREADS as u32, 1, 1])
            .grid(spread((parts * (m / width)).div_ceil(THREADS)));
        (stage, parts)
    }

    /// Stage of the gradients of the per-channel numbers.
    fn numbers(&self) -> Stage {
        let (m, given) = (self.conv.channels[1], inference(self.p));
        let more = [("gamma", "gamma", Read), ("dbias", "dbias", Write)].into_iter().filter(|_| given);
        Stage::kernel("conv_block_numbers", "conv_block/numbers", "conv_block_numbers")
            .consts(&[("CHANNELS", m as u32), ("THREADS", THREADS as u32)])
            .consts(&[("INFERENCE", given)])
            .consts(&[("EPS", super::EPS as f32)])
            .threads([THREADS as u32, 1, 1])
            .grid(spread(m.div_ceil(THREADS)))
            .args(
                [
                    ("totals", "totals", Read),
                    ("variance", "variance", Read),
                    ("dgamma", "dgamma", Write),
                    ("dbeta", "dbeta", Write),
                ]
                .into_iter()
                .chain(more),
            )
            .cost(Cost::new(3 * m, 12 * m, self.bytes(2 * m)))
    }
}
