//! Stress inputs of decoding and their tolerances.

use parallax_ir::hard::{any, exact, nan_in_rows, one, smallest_normal, subnormal, zero};
use parallax_ir::{Draw, Fill, Problem, Shape, StressInput, Tolerance};
use parallax_schema::case::DType;

use super::super::attention::{huge, saturated};
use super::{append, length, of_result, pages_of_one, result, tolerance};

/// Extends fills of the caches to the appended keys and values.
fn filled(p: &Problem, mut fills: Vec<(&'static str, Fill)>) -> Vec<(&'static str, Fill)> {
    let new = |(name, fill): &(&str, Fill)| match *name {
        "k" => Some(("new_k", *fill)),
        "v" => Some(("new_v", *fill)),
        _ => None,
    };
    if append::asked(p) {
        fills.extend(fills.iter().filter_map(new).collect::<Vec<_>>());
    }
    fills
}

/// Keys or values of a contiguous cache with NaN beyond the default lengths of the sequences.
fn nan_beyond(shape: &Shape, draw: Draw) -> f64 {
    let token = draw.index / (shape["kv"] * shape["d"]);
    let each = pages_of_one(shape) * shape["p"];
    if token % each < length(shape, token / each) { draw.normal() } else { f64::NAN }
}

pub(super) fn sets() -> Vec<StressInput> {
    vec![
        StressInput {
            name: "zeros",
            about: "all zero: equal weights, and a result of zero",
            applies: any,
            fills: |p| filled(p, vec![("q", zero), ("k", zero), ("v", zero)]),
            tolerance: exact,
        },
        StressInput {
            name: "equal",
            about: "all one: equal weights, whose sum is one",
            applies: any,
            fills: |p| filled(p, vec![("q", one), ("k", one), ("v", one)]),
            tolerance: |p, output| {
                let summed = Tolerance {
                    abs: 0.0,
                    rel: 2.0 * p.dtype.unit_roundoff() + (p["t"] as f64 + 8.0) * 2f64.powi(-24),
                    reason: "each of t weights is rounded in f32, so is each sum of them, and the result once more",
                };
                of_result(p, output, summed)
            },
        },
        StressInput {
            name: "saturating",
            about: "scores of ±1000: tokens of the lesser sign weigh nothing, those of the greater all the same",
            applies: any,
            fills: |p| filled(p, vec![("q", |s, d| saturated(s, d, false)), ("k", |s, d| saturated(s, d, true))]),
            tolerance,
        },
        StressInput {
            name: "huge",
            about: "values of up to 60 000 in f16 and 1e30 otherwise: sums over tokens stay within f32, the result is finite",
            applies: any,
            fills: |p| {
                let large: Fill = match p.dtype {
                    DType::F16 => |_, draw| 6e4 * (0.5 + 0.5 * draw.uniform()),
                    _ => |_, draw| 1e30 * (0.5 + 0.5 * draw.uniform()),
                };
                filled(p, vec![("v", large)])
            },
            tolerance: |p, output| {
                let mixed = tolerance(p, result(p));
                of_result(p, output, Tolerance { abs: mixed.abs * huge(p) / 3.47, ..mixed })
            },
        },
        StressInput {
            name: "subnormal",
            about: "values too small to be normal: the result is such a number, or zero where the device flushes them",
            applies: any,
            fills: |p| filled(p, vec![("v", subnormal(p))]),
            tolerance: |p, _| Tolerance {
                abs: 2.0 * smallest_normal(p),
                rel: 0.0,
                reason: "a device may flush numbers below the smallest normal one to zero, before and after the sum",
            },
        },
        StressInput {
            name: "empty",
            about: "sequences alternate between no tokens and one: zero, and the value of the one, which may be the new one",
            applies: any,
            fills: |_| vec![("lengths", |_, draw| (draw.index % 2) as f64)],
            tolerance,
        },
        StressInput {
            name: "nan",
            about: "NaN in every third query: so are their results",
            applies: any,
            fills: |_| vec![("q", |shape, draw| nan_in_rows(draw, shape["d"]))],
            tolerance,
        },
        StressInput {
            name: "unread",
            about: "NaN in the caches beyond the lengths: it is never read into a sum",
            applies: |p| p.shape.has("contiguous"),
            fills: |_| vec![("k", nan_beyond), ("v", nan_beyond)],
            tolerance,
        },
        StressInput {
            name: "shared page",
            about: "every entry of the table names the last page, as where sequences begin alike",
            applies: |p| !p.shape.has("contiguous") && !append::asked(p),
            fills: |_| vec![("table", |shape, _| (shape["b"] * pages_of_one(shape) - 1) as f64)],
            tolerance,
        },
    ]
}
