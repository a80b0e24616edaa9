//! Tolerances of the encoder: errors of layers add like those of independent steps.
//!
//! A layer adds its parts and their errors to the residual stream. Errors of layers are independent and of random sign, so their
//! variances add. The norm of a later layer divides the error of the stream by the stream's size. A share of it therefore appears
//! in the layer's parts, in addition to the error itself. This share shrinks as the stream grows. The stream grows by the additions
//! of layers, and their variances also add.
//!
//! Gradients propagate back alike, and grow by the same shares. Their factors have the error of the stream at that layer. Gradients
//! of parameters sum rows with errors of random sign, except for equal items.

use parallax_ir::stress::smallest_normal;
use parallax_ir::{Problem, Tolerance};

use super::super::attention_block::items::DIFFERENT;
use super::super::attention_block::{Rounding, row_count, width};

/// Variance of a layer's addition to the stream, in seeded elements.
const ADDED: f64 = 1.2;
/// Variance of the error of a layer's parts, for input rows of size one with error one. Short rows may have little deviation, by
/// which a norm divides.
const GAIN: f64 = 1.0;
const GAIN_OF_SHORT: f64 = 6.0;
const SHORT: u64 = 32;
/// Roundings of a layer: of the stream, and of the computation of its parts.
const OF_STREAM: f64 = 2.0;
const OF_PARTS: f64 = 12.0;
/// Variance of the error of a part's slopes, for an input error of one.
const BENT: f64 = 4.0;
/// Variance of a gradient at the end of a part that sums rows, for a stream gradient of one.
const SUMMED: f64 = 9.0;

/// Variances of the quantities.
struct Squares {
    /// Of a rounding, uniform over its unit; and of the sums of a layer's products.
    rounding: f64,
    sums: f64,
    gain: f64,
    /// Of the stream before each layer and after the last, and of its error there.
    stream: Vec<f64>,
    off: Vec<f64>,
}

impl Squares {
    /// Variances for rows `scale` times as large as seeded ones.
    fn new(p: &Problem, scale: f64) -> Squares {
        let Rounding { u, sum: by_width } = Rounding::new(p, width(p));
        let by_middle = Rounding::new(p, p["f"]).sum;
        let gain = if width(p) < SHORT { GAIN_OF_SHORT } else { GAIN };
        let (rounding, sums) = (u * u / 3.0, 4.0 * by_width * by_width + by_middle * by_middle);
        let (mut stream, mut off) = (vec![scale * scale], vec![0.0]);
        for at in 0..p["l"] as usize {
            let own = rounding * (OF_STREAM * stream[at] + OF_PARTS) + sums;
            off.push(off[at] * (1.0 + gain / stream[at]) + own);
            stream.push(stream[at] + ADDED);
        }
        Squares { rounding, sums, gain, stream, off }
    }

    /// Variance of the error of a layer's part, in gradients of one.
    fn of_part(&self, at: usize) -> f64 {
        self.rounding * OF_PARTS + self.sums + BENT * self.off[at] / self.stream[at]
    }

    /// Variances of a gradient after a layer and of its error, for a gradient of one after the last layer.
    fn gradient_behind(&self, layer: usize) -> [f64; 2] {
        (layer + 1..self.stream.len() - 1).rev().fold([1.0, 0.0], |behind, at| self.through(at, behind))
    }

    /// Same variances before a layer.
    fn through(&self, at: usize, [gradient, off]: [f64; 2]) -> [f64; 2] {
        let share = self.gain / self.stream[at];
        let own = self.rounding * OF_STREAM + share * self.of_part(at);
        [gradient * (1.0 + share), off * (1.0 + share) + gradient * own]
    }
}

const REASON: &str = "errors of random sign, eight times their standard deviation, which almost certainly bound all of them: the squares \
                      of layers' errors add up, each scaled by the layers behind it; the scale is smaller the larger \
                      the stream has grown";

/// Tolerance of eight standard deviations, from a variance.
fn likely(p: &Problem, square: f64) -> Tolerance {
    Tolerance { abs: 8.0 * square.sqrt() + smallest_normal(p), rel: 2.0 * p.dtype.unit_roundoff(), reason: REASON }
}

/// Tolerance of the result, for rows `scale` times as large as seeded ones.
pub(super) fn of_result(p: &Problem, scale: f64) -> Tolerance {
    likely(p, Squares::new(p, scale).off[p["l"] as usize])
}

/// Tolerance of the gradients of the rows.
pub(super) fn of_rows(p: &Problem) -> Tolerance {
    let squares = Squares::new(p, 1.0);
    let [_, off] = squares.through(0, squares.gradient_behind(0));
    likely(p, off)
}

/// Tolerance of the gradients of a layer's parameters.
pub(super) fn of_learned(p: &Problem, layer: usize) -> Tolerance {
    let squares = Squares::new(p, 1.0);
    let [gradient, off] = squares.gradient_behind(layer);
    let by_rows = Rounding::new(p, row_count(p)).sum;
    let of_row = SUMMED * off + gradient * (squares.of_part(layer) + by_rows * by_rows);
    // Equal items have equal errors.
    let rows = row_count(p) * p["b"].div_ceil(DIFFERENT);
    likely(p, squares.gain.max(1.0) * rows as f64 * of_row)
}
