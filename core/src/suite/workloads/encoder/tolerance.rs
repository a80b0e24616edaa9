//! How far off the result may be: errors of layers add up as those of independent steps do.
//!
//! A layer adds its parts to the residual stream, and its errors with them. Errors of layers are of random sign and have nothing to
//! do with each other, so that their squares add up. What the stream is off by already goes through the norm of a later layer, which
//! divides by the size of the stream, and comes out of its parts beside itself: a share of it, which shrinks as the stream grows.
//! The stream grows by what layers add, whose squares add up as well.

use super::super::attention_block::{Rounding, width};
use super::layer;
use crate::suite::hard::smallest_normal;
use crate::suite::{Problem, Tolerance};

/// The square of what a layer adds to the stream, in seeded elements.
const ADDED: f64 = 1.0;
/// The square of how far off a layer's parts are for rows that are off by one before, and of one in size.
const GAIN: f64 = 1.5;
/// Roundings of a layer: of the stream, and of what its parts are made in.
const OF_STREAM: f64 = 2.0;
const OF_PARTS: f64 = 12.0;

/// For rows that are so many times as large as seeded ones.
pub(super) fn of_result(p: &Problem, scale: f64) -> Tolerance {
    let inner = layer(p);
    let Rounding { u, sum: by_width } = Rounding::of(inner.problem(), width(p));
    let by_middle = Rounding::of(inner.problem(), p["f"]).sum;
    // A rounding is off by any part of its unit, evenly.
    let rounding = u * u / 3.0;
    let (mut stream, mut off) = (scale * scale, 0.0);
    for _ in 0..p["l"] {
        let own = rounding * (OF_STREAM * stream + OF_PARTS) + 4.0 * by_width * by_width + by_middle * by_middle;
        off = off * (1.0 + GAIN / stream) + own;
        stream += ADDED;
    }
    Tolerance {
        abs: 8.0 * off.sqrt() + smallest_normal(p),
        rel: 2.0 * u,
        reason: "errors of random sign, eight times their standard deviation, which none exceeds with all but certainty: squares of \
                 layers' errors add up, each with what later layers make of it, which is less the larger the stream has grown",
    }
}
