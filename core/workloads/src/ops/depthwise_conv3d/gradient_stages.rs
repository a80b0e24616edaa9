//! Stages that every backward variant of depthwise convolutions shares.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Elem, Problem, Stage, by_pieces, spread, width};
use parallax_schema::case::Cost;
use parallax_schema::device::Caps;

use super::volume::Volume;
use super::{THREADS, by_element};

/// Whether the shape has an option of three dimensions.
pub(super) fn word(p: &Problem, word: &str) -> bool {
    p.shape.has(word)
}

/// Buffer of the effective gradient, and the stage that computes it for ReLU.
pub(super) fn masked(p: &Problem, caps: &Caps) -> (&'static str, Option<Stage>) {
    if !word(p, "relu") {
        return ("dout", None);
    }
    let [_, elements] = Volume::new(&p.shape).elements();
    let bytes = elements * Elem::Real.storage(p.dtype).bytes();
    let width = width(elements, p.dtype, caps);
    let text = "depthwise_conv3d/relu";
    let stage = by_pieces(elements / width, width, text, "depthwise_relu")
        .args([("out", Read), ("dout", Read), ("dpre", Write)])
        .cost(Cost::new(elements, 2 * bytes, bytes));
    ("dpre", Some(stage))
}

/// Bytes of the image, of the result and of the filters.
pub(super) fn sizes(p: &Problem, v: &Volume) -> [u64; 3] {
    let element = Elem::Real.storage(p.dtype).bytes();
    let [image, out] = v.elements();
    [image * element, out * element, v.c * v.taps() * element]
}

/// Stage with one workgroup per sum over all elements.
pub(super) fn a_workgroup(p: &Problem, sums: u64, entry: &'static str) -> Stage {
    let [_, out] = Volume::new(&p.shape).elements();
    by_element(p, out, "depthwise_conv3d/filter_direct", entry)
        .consts(&[("ROW_THREADS", THREADS as u32)])
        .grid(spread(sums))
        .shared(THREADS as u32 * 4)
}

/// Stage of the gradient of the bias, if the shape has one.
pub(super) fn bias_gradient(p: &Problem, v: &Volume, dout: &'static str) -> Option<Stage> {
    let ([_, result, filter], [_, out]) = (sizes(p, v), v.elements());
    let args = [("dbias", "dbias", Write), ("dout", dout, Read)];
    let stage = || a_workgroup(p, v.c, "depthwise_bias_direct").args(args);
    word(p, "bias").then(|| stage().cost(Cost::new(out, result, filter / v.taps())))
}
