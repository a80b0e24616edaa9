//! Stages of separable convolutions: those of both steps, each with its cost, and the fused one.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Elem, Problem, Program, Stage, spread};
use parallax_schema::case::Cost;
use parallax_schema::device::Caps;

use super::super::conv2d::stages::{Gather, Tile};
use super::super::depthwise_conv3d::marching::Finish;
use super::super::depthwise_conv3d::volume::Volume;
use super::super::depthwise_conv3d::{direct_stage, marching};
use super::{pointwise, pointwise_flops};

/// Components of the profile.
pub(super) const FIRST_STEP: &str = "depthwise";
pub(super) const SECOND_STEP: &str = "pointwise";

/// Buffers of the second step as a separate stage.
const SECOND: [&str; 3] = ["mid", "pointwise", "out"];

/// Costs of both steps, with stored intermediates.
pub(super) fn costs(p: &Problem) -> [Cost; 2] {
    let (v, conv, element) = (Volume::new(&p.shape), pointwise(p), Elem::Real.storage(p.dtype).bytes());
    let [c, m] = conv.channels;
    let (mid, out) = (v.elements()[1], conv.out_dims().iter().product::<u64>());
    let weights = c * m + u64::from(p.shape.has("bias")) * m;
    [
        Cost::new(2 * v.taps() * mid, (v.elements_read() + c * v.taps()) * element, mid * element),
        Cost::new(pointwise_flops(p), (mid + weights) * element, out * element),
    ]
}

/// Parameters of the second step, with its epilogue.
fn gather(p: &Problem) -> Gather {
    Gather { bias: p.shape.has("bias"), relu: p.shape.has("relu"), ..Gather::new(pointwise(p)) }
}

/// Program of both steps in sequence.
fn both(p: &Problem, depthwise: Stage, pointwise: Stage) -> Program {
    let [_, cost] = costs(p);
    Program { stages: vec![depthwise, pointwise.label("pointwise").cost(cost).component(SECOND_STEP)] }
}

/// First step, from `x` to `mid`, with one element per thread.
pub(super) fn plain(p: &Problem) -> Stage {
    let [cost, _] = costs(p);
    direct_stage(p, Finish::default(), ["x", "mid"]).label("depthwise").cost(cost).component(FIRST_STEP)
}

/// First step by the fastest stage for its filter.
pub(super) fn best(p: &Problem, caps: &Caps) -> Stage {
    let (v, [cost, _]) = (Volume::new(&p.shape), costs(p));
    match marching::available(&v) {
        Ok(()) => marching::stage(&v, p, caps, Finish::default(), ["x", "mid"])
            .label("depthwise")
            .cost(cost)
            .component(FIRST_STEP),
        Err(_) => plain(p),
    }
}

pub(super) fn direct(p: &Problem, _caps: &Caps) -> Program {
    both(p, plain(p), gather(p).direct(SECOND))
}

pub(super) fn unfused(p: &Problem, caps: &Caps) -> Program {
    both(p, best(p, caps), gather(p).implicit(caps, SECOND))
}

pub(super) fn unfused_mma(p: &Problem, caps: &Caps) -> Program {
    both(p, best(p, caps), gather(p).mma(SECOND))
}

/// Program of the fused stage. Tiles are as high as the output channels, up to the highest tile. Each further tile above recomputes
/// the depthwise results of its positions.
pub(super) fn fused(p: &Problem, _caps: &Caps) -> Program {
    let (v, conv) = (Volume::new(&p.shape), pointwise(p));
    let ([_, m], [_, positions]) = (conv.channels, conv.pixels());
    let (bias, relu) = (p.shape.has("bias"), p.shape.has("relu"));
    let tile = Tile::largest(m);
    let args = [("x", Read), ("w", Read), ("pointwise", Read), ("out", Write)];
    let stage = Stage::kernel("separable_conv3d_fused", "separable_conv3d/fused", "separable_conv3d_fused");
    tile.with_consts(stage)
        .consts(&v.consts())
        .consts(&[("M", m as u32)])
        .consts(&[("CHANNELS_LAST", v.channels_last), ("BIAS", bias), ("NORMALISED", false), ("RELU", relu)])
        .args(args.into_iter().chain(bias.then_some(("bias", Read))))
        .grid(spread(tile.count([m, positions, 1])))
        .cost(super::cost(p))
        .into()
}
