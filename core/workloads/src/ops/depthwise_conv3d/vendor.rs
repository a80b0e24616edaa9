//! Depthwise convolutions by cuDNN, in two and three dimensions, forward and backward.
//!
//! With channels last the library stores the taps of each channel together, and these workloads the channels of each tap. A stage
//! of this suite transposes kernels before the call and their gradient after it. It moves a few kilobytes.

use parallax_ir::{
    BufferSpec, Choice, Conv, ConvPass, Convolution, Elem, Problem, Program, Stage, Variant, by_cudnn,
    transposed_kernels,
};
use parallax_schema::case::{Cost, DType};
use parallax_schema::device::Caps;

use super::gradient_stages::{bias_gradient, masked, sizes};
use super::volume::Volume;

/// Buffer of kernels in the library's layout, if it differs.
const KERNELS: &str = "kernels";
/// Buffer of their gradient in the library's layout.
const GRADIENT: &str = "dkernels";

/// Scratch for the kernels of either direction.
pub(crate) fn turned_kernels(p: &Problem) -> Option<BufferSpec> {
    scratch(p, KERNELS)
}

/// Scratch for their gradient.
pub(crate) fn turned_gradient(p: &Problem) -> Option<BufferSpec> {
    scratch(p, GRADIENT)
}

fn scratch(p: &Problem, name: &'static str) -> Option<BufferSpec> {
    let conv = Conv::depthwise(&p.shape);
    conv.last.then(|| BufferSpec::scratch(name, Elem::Real, &conv.w_dims()))
}

/// Variants of the forward directions.
pub(crate) fn forward() -> [Variant; 2] {
    by_cudnn(|p, caps| forward_program(p, caps, Choice::Heuristic), |p, caps| forward_program(p, caps, Choice::Timed))
}

/// Variants of the backward directions.
pub(super) fn backward() -> [Variant; 2] {
    by_cudnn(|p, caps| backward_program(p, caps, Choice::Heuristic), |p, caps| backward_program(p, caps, Choice::Timed))
        .map(|variant| variant.available(|p, _| sums_exactly(p)))
}

/// Checks that parts of a kernel's gradient are summed in more than the element type. Measured on an H100 with cuDNN 9.19, in two
/// dimensions: over 8 × 512 × 512 positions a gradient of 1228.8 was 1234. The bound is 2.2. Engine 61 does so without a numerical
/// note. In three dimensions, in bf16 and in f32 gradients are correct.
fn sums_exactly(p: &Problem) -> Result<(), String> {
    match p.dtype == DType::F16 && Conv::depthwise(&p.shape).flat {
        true => Err("cuDNN adds parts of a kernel's gradient up in f16, which is too coarse for the result".to_owned()),
        false => Ok(()),
    }
}

/// Buffer of the kernels in the library's layout, and the stage that fills it, if one is necessary.
fn kernels(p: &Problem, conv: &Conv, caps: &Caps) -> (&'static str, Option<Stage>) {
    match conv.last {
        true => (KERNELS, Some(transposed_kernels(conv, true, p.dtype, caps, ["w", KERNELS]))),
        false => ("w", None),
    }
}

fn forward_program(p: &Problem, caps: &Caps, choice: Choice) -> Program {
    let (conv, v) = (Conv::depthwise(&p.shape), Volume::new(&p.shape));
    let (w, transposed) = kernels(p, &conv, caps);
    let [image, result, filter] = sizes(p, &v);
    let pass = ConvPass::Forward { bias: p.shape.has("bias"), relu: p.shape.has("relu") };
    let cost = Cost::new(conv.flops(), image + filter, result);
    let call = Convolution { conv, pass, choice }.stage(["x", w, "out"]).cost(cost);
    Program { stages: transposed.into_iter().chain([call]).collect() }
}

fn backward_program(p: &Problem, caps: &Caps, choice: Choice) -> Program {
    let (conv, v) = (Conv::depthwise(&p.shape), Volume::new(&p.shape));
    let (dout, mask) = masked(p, caps);
    let (w, there) = kernels(p, &conv, caps);
    let (dw, back) = match conv.last {
        true => {
            (GRADIENT, Some(transposed_kernels(&conv, false, p.dtype, caps, [GRADIENT, "dw"]).label("turned_back")))
        }
        false => ("dw", None),
    };
    let [image, result, filter] = sizes(p, &v);
    let call = |pass, buffers| Convolution { conv, pass, choice }.stage(buffers);
    let dx = call(ConvPass::Image, [w, dout, "dx"]).cost(Cost::new(conv.flops(), result + filter, image));
    let filters = call(ConvPass::Kernels, ["x", dout, dw]).cost(Cost::new(conv.flops(), image + result, filter));
    let first = mask.into_iter().chain(there);
    Program { stages: first.chain([dx, filters]).chain(back).chain(bias_gradient(p, &v, dout)).collect() }
}
