//! Depthwise results between both steps: their values, and whether they stay in memory.

use parallax_ir::conv::Conv;
use parallax_ir::{Inputs, Problem, Tolerance};

use super::super::depthwise_conv3d::lines;
use super::super::depthwise_conv3d::volume::{Three, Volume};
use super::{W, X};

/// Whether they stay in memory for the backward pass.
pub(super) fn kept(p: &Problem) -> bool {
    p.shape.has("kept")
}

/// Value at an image, a channel and a position.
pub(super) fn value(v: &Volume, inputs: &Inputs, (n, c, at): (u64, u64, Three)) -> f64 {
    let term =
        |tap| Some(inputs.at(X, v.at(v.image, (n, c, v.input_position(at, tap)?))) * inputs.at(W, v.tap_at(c, tap)));
    v.each_tap().filter_map(term).sum()
}

/// Row of values, in memory order.
pub(super) fn row(v: &Volume, inputs: &Inputs, conv: &Conv, row: u64, out: &mut [f64]) {
    let first = row * out.len() as u64;
    for (slot, place) in out.iter_mut().zip(first..) {
        let ([n, c], at) = conv.x_index(place);
        *slot = value(v, inputs, (n, c, at));
    }
}

/// Tolerance of the values.
pub(super) fn tolerance(p: &Problem) -> Tolerance {
    let taps = Volume::new(&p.shape).taps() as f64;
    Tolerance {
        abs: taps * 3.47 * 3.47 * taps * 2f64.powi(-24),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "products of values of at most 3.47 are summed in f32 (n·u times the sum of magnitudes), and the result is rounded \
                 once to the element type",
    }
}

/// All values in f32.
pub(super) fn host(p: &Problem, x: &[f32], w: &[f32]) -> Vec<f32> {
    let v = Volume::new(&p.shape);
    let mut mid = vec![0.0; v.elements()[1] as usize];
    lines::convolve(&v, x, w, None, &mut mid);
    mid
}
