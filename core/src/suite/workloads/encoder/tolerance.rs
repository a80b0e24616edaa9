//! How far off results may be: errors of layers add up as those of independent steps do.
//!
//! A layer adds its parts to the residual stream, and its errors with them. Errors of layers are of random sign and have nothing to
//! do with each other, so that their squares add up. What the stream is off by already goes through the norm of a later layer, which
//! divides by the size of the stream, and comes out of its parts beside itself: a share of it, which shrinks as the stream grows.
//! The stream grows by what layers add, whose squares add up as well.
//!
//! Gradients go the same way back, and grow by the same shares; what their parts are multiplied with is off by what the stream was
//! off by there. Those of what a layer learns sum rows whose errors are of random sign, those of items that are alike aside.

use super::super::attention_block::items::DIFFERENT;
use super::super::attention_block::{Rounding, row_count, width};
use crate::suite::hard::smallest_normal;
use crate::suite::{Problem, Tolerance};

/// The square of what a layer adds to the stream, in seeded elements.
const ADDED: f64 = 1.2;
/// The square of how far off a layer's parts are for rows that are off by one before, and of one in size; and of rows that are so
/// short that some of them spread little, by which a norm divides.
const GAIN: f64 = 1.0;
const GAIN_OF_SHORT: f64 = 6.0;
const SHORT: u64 = 32;
/// Roundings of a layer: of the stream, and of what its parts are made in.
const OF_STREAM: f64 = 2.0;
const OF_PARTS: f64 = 12.0;
/// The square of how far off a part's slopes are for what is off by one before.
const BENT: f64 = 4.0;
/// The square of a gradient at the end of a part that sums rows, for one of one in the stream.
const SUMMED: f64 = 9.0;

/// Squares of standard deviations.
struct Squares {
    /// Of a rounding, which is off by any part of its unit evenly; and of the sums of a layer's products.
    rounding: f64,
    sums: f64,
    gain: f64,
    /// Of the stream before each layer and behind the last, and of what it is off by there.
    stream: Vec<f64>,
    off: Vec<f64>,
}

impl Squares {
    /// For rows that are so many times as large as seeded ones.
    fn of(p: &Problem, scale: f64) -> Squares {
        let Rounding { u, sum: by_width } = Rounding::of(p, width(p));
        let by_middle = Rounding::of(p, p["f"]).sum;
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

    /// Of what a layer's part is off by, in gradients of one.
    fn of_part(&self, at: usize) -> f64 {
        self.rounding * OF_PARTS + self.sums + BENT * self.off[at] / self.stream[at]
    }

    /// Of a gradient behind a layer and of what it is off by, for one of one behind the last.
    fn gradient_behind(&self, layer: usize) -> [f64; 2] {
        (layer + 1..self.stream.len() - 1).rev().fold([1.0, 0.0], |behind, at| self.through(at, behind))
    }

    /// Of the same before a layer.
    fn through(&self, at: usize, [gradient, off]: [f64; 2]) -> [f64; 2] {
        let share = self.gain / self.stream[at];
        let own = self.rounding * OF_STREAM + share * self.of_part(at);
        [gradient * (1.0 + share), off * (1.0 + share) + gradient * own]
    }
}

const REASON: &str = "errors of random sign, eight times their standard deviation, which none exceeds with all but certainty: squares \
                      of layers' errors add up, each with what the layers that it goes through make of it, which is less the larger \
                      the stream has grown";

/// A tolerance of eight standard deviations, of this square.
fn likely(p: &Problem, square: f64) -> Tolerance {
    Tolerance { abs: 8.0 * square.sqrt() + smallest_normal(p), rel: 2.0 * p.dtype.unit_roundoff(), reason: REASON }
}

/// Of the result, for rows that are so many times as large as seeded ones.
pub(super) fn of_result(p: &Problem, scale: f64) -> Tolerance {
    likely(p, Squares::of(p, scale).off[p["l"] as usize])
}

/// Of gradients of the rows.
pub(super) fn of_rows(p: &Problem) -> Tolerance {
    let squares = Squares::of(p, 1.0);
    let [_, off] = squares.through(0, squares.gradient_behind(0));
    likely(p, off)
}

/// Of gradients of what a layer learns.
pub(super) fn of_learned(p: &Problem, layer: usize) -> Tolerance {
    let squares = Squares::of(p, 1.0);
    let [gradient, off] = squares.gradient_behind(layer);
    let by_rows = Rounding::of(p, row_count(p)).sum;
    let of_row = SUMMED * off + gradient * (squares.of_part(layer) + by_rows * by_rows);
    // Items that are alike are off alike.
    let rows = row_count(p) * p["b"].div_ceil(DIFFERENT);
    likely(p, squares.gain.max(1.0) * rows as f64 * of_row)
}
