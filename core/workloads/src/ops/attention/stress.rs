//! Stress inputs of attention and their tolerances.

use parallax_ir::stress::{exact, nan_in_rows, nan_of_first, one, smallest_normal, subnormal, zero};
use parallax_ir::{Draw, Problem, Shape, StressInput, Tolerance};
use parallax_schema::case::DType;

use super::masks::{bound, length};
use super::{score_error, tolerance};

/// Largest value of the set `huge`. Sums of it over all keys stay within f32, the accumulator type.
pub fn huge(p: &Problem) -> f64 {
    if p.dtype == DType::F16 { 6e4 } else { 1e30 }
}

/// Queries and keys with scaled dot products of ±1000. The sign depends on the row: all keys of a sign are bit-identical.
pub fn saturated(shape: &Shape, draw: Draw, signed: bool) -> f64 {
    let d = shape["d"];
    let row = draw.index / d;
    let sign = if signed && row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 1 { -1.0 } else { 1.0 };
    sign * (1000.0 / (d as f64).sqrt()).sqrt()
}

/// Keys with scaled dot products with ones that rise from 0 to 60.
fn rising(shape: &Shape, draw: Draw) -> f64 {
    let (t, d) = (shape["t"], shape["d"]);
    60.0 * (draw.index / d % t) as f64 / (t as f64 * (d as f64).sqrt())
}

pub(super) fn inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "all zero: equal weights, and a result of zero",
            |_| vec![("q", zero), ("k", zero), ("v", zero)],
            exact,
        ),
        StressInput::new(
            "equal",
            "all one: equal weights, whose sum is one",
            |_| vec![("q", one), ("k", one), ("v", one)],
            |p, _| {
                // Beside a sink, the share of all keys depends on their scores.
                let scores = if p.shape.has("sinks") { 4.0 * score_error(p) } else { 0.0 };
                Tolerance {
                    abs: 0.0,
                    rel: 2.0 * p.dtype.unit_roundoff() + (p["t"] as f64 + 4.0) * 2f64.powi(-24) + scores,
                    reason: "each of t weights is rounded in f32, so is each sum of them, and the result once more",
                }
            },
        ),
        StressInput::new(
            "saturating",
            "scores of ±1000: keys of the lesser sign weigh nothing, those of the greater all the same",
            |_| vec![("q", |s, d| saturated(s, d, false)), ("k", |s, d| saturated(s, d, true))],
            |p, _| {
                // Keys of a sign are no longer bit-identical: a mask or a distance is added to 1443, the score to base two.
                let mask = if p.shape.has("biased") || p.shape.has("alibi") { 3.47 * 2f64.powi(-22) * 1443.0 } else { 0.0 };
                Tolerance { abs: tolerance(p, 0).abs + mask, ..tolerance(p, 0) }
            },
        ),
        StressInput::new(
            "rising",
            "scores that rise by 60 from the first key to the last: no running maximum stays",
            |_| vec![("q", one), ("k", rising)],
            |p, _| {
                let scores = 60.0 * (2.0 * (p["d"] as f64).sqrt() + 3.0) * 2f64.powi(-24);
                Tolerance {
                    abs: tolerance(p, 0).abs + 3.47 * 2.0 * scores,
                    reason: "as always; and scores of up to 60 are sums of d equal products in f32, each rounded, scaled and brought \
                             to base two: a weight is off by as much as its own and the highest one",
                    ..tolerance(p, 0)
                }
            },
        ),
        StressInput::new(
            "huge",
            "values of up to 60 000 in f16 and 1e30 otherwise: sums over keys stay within f32, the result is finite",
            |p| match p.dtype {
                DType::F16 => vec![("v", |_, draw| 6e4 * (0.5 + 0.5 * draw.uniform()))],
                _ => vec![("v", |_, draw| 1e30 * (0.5 + 0.5 * draw.uniform()))],
            },
            |p, _| Tolerance { abs: tolerance(p, 0).abs * huge(p) / 3.47, ..tolerance(p, 0) },
        ),
        StressInput::new(
            "subnormal",
            "values too small to be normal: the result is such a number, or zero where the device flushes them",
            |p| vec![("v", subnormal(p))],
            |p, _| Tolerance {
                abs: 2.0 * smallest_normal(p),
                rel: 0.0,
                reason: "a device may flush numbers below the smallest normal one to zero, before and after the sum",
            },
        ),
        StressInput::new(
            "masked",
            "more queries than keys under a causal mask: rows that see no key are zero",
            |_| Vec::new(),
            tolerance,
        )
        .applies(|p| p.shape.has("causal") && p["s"] > p["t"]),
        StressInput::new(
            "lowest",
            "two thirds of the mask, and all of every fifth row, at the lowest finite number: it hides keys as −∞ does, \
                    but in a row of nothing else all keys weigh the same",
            |_| vec![("mask", |shape, draw| if hidden(shape, draw) { -3.3e38 } else { draw.normal() })],
            tolerance,
        )
        // In f16 the score would still change such a number.
        .applies(|p| p.shape.has("biased") && p.dtype != DType::F16),
    ]
    .into_iter()
    .chain(unseen_keys(tolerance))
    .chain(sinks(tolerance))
    .chain([
        StressInput::new(
            "nan",
            "NaN in every third query: so are their results, but for those that see no key",
            |_| vec![("q", |shape, draw| nan_in_rows(draw, shape["d"]))],
            tolerance,
        ),
        StressInput::new(
            "nan value",
            "NaN in the first value of each head: so is the first column of results",
            |_| vec![("v", |shape, draw| nan_in_rows(draw, shape["t"] * shape["d"]))],
            tolerance,
        )
        .applies(|p| !p.shape.has("causal") && p["n"] == 0),
        StressInput::new(
            "nan sink",
            "NaN in the sink of the first head: so are its results, but for queries that see no key",
            |_| vec![("sinks", nan_of_first)],
            tolerance,
        )
        .applies(|p| p.shape.has("sinks")),
    ])
    .collect()
}

/// Stress inputs with sinks far from all scores, for either direction.
pub(super) fn sinks(tolerance: fn(&Problem, usize) -> Tolerance) -> [StressInput; 2] {
    [
        StressInput::new(
            "high sinks",
            "sinks of 1000: no key weighs anything beside them, and the result is zero",
            |_| vec![("sinks", |_, _| 1000.0)],
            tolerance,
        )
        .applies(|p| p.shape.has("sinks")),
        StressInput::new(
            "low sinks",
            "sinks of -1000: they weigh nothing",
            |_| vec![("sinks", |_, _| -1000.0)],
            tolerance,
        )
        .applies(|p| p.shape.has("sinks")),
    ]
}

/// Selects two thirds of a mask, and all of every fifth row.
fn hidden(shape: &Shape, draw: Draw) -> bool {
    (draw.index / shape["t"]).is_multiple_of(5) || !draw.bits().is_multiple_of(3)
}

/// Keys or values with NaN beyond the default lengths of the batch items.
fn nan_beyond(shape: &Shape, draw: Draw) -> f64 {
    let (kv, t, d) = (shape["kv"], shape["t"], shape["d"]);
    let (item, key) = (draw.index / (kv * t * d), draw.index / d % t);
    if key < length(shape, item) { draw.normal() } else { f64::NAN }
}

/// Stress inputs with keys that no query sees, for either direction.
pub(super) fn unseen_keys(tolerance: fn(&Problem, usize) -> Tolerance) -> [StressInput; 5] {
    [
        StressInput::new(
            "unread",
            "NaN in all keys and values beyond the lengths: they are never read into a sum",
            |_| vec![("k", nan_beyond), ("v", nan_beyond)],
            tolerance,
        )
        .applies(|p| p.shape.has("padded")),
        StressInput::new(
            "empty",
            "batch items alternate between no keys and one: zero, and the value of the one",
            |_| vec![("lengths", |_, draw| (draw.index % 2) as f64)],
            tolerance,
        )
        .applies(|p| p.shape.has("padded")),
        StressInput::new(
            "gaps",
            "tokens before the first sequence and behind the last: zero, and no gradient",
            |_| {
                vec![("bounds", |shape, draw| {
                    bound(shape, draw.index).clamp(shape["s"] / 4, shape["s"] - shape["s"] / 3) as f64
                })]
            },
            tolerance,
        )
        .applies(|p| p["n"] > 0),
        StressInput::new(
            "one long",
            "all tokens in the last sequence, and all others empty",
            |_| vec![("bounds", |shape, draw| if draw.index < shape["n"] { 0.0 } else { shape["s"] as f64 })],
            tolerance,
        )
        .applies(|p| p["n"] > 0),
        StressInput::new(
            "hidden",
            "two thirds of the mask, and all of every fifth row, at −∞: those rows are zero",
            |_| vec![("mask", |s, d| if hidden(s, d) { f64::NEG_INFINITY } else { d.normal() })],
            tolerance,
        )
        .applies(|p| p.shape.has("biased")),
    ]
}
