//! Stress inputs of decoding and their tolerances.

use parallax_ir::stress::{exact, nan_in_rows, one, smallest_normal, subnormal, zero};
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

pub(super) fn inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "all zero: equal weights, and a result of zero",
            |p| filled(p, vec![("q", zero), ("k", zero), ("v", zero)]),
            exact,
        ),
        StressInput::new(
            "equal",
            "all one: equal weights, whose sum is one",
            |p| filled(p, vec![("q", one), ("k", one), ("v", one)]),
            |p, output| {
                let summed = Tolerance {
                    abs: 0.0,
                    rel: 2.0 * p.dtype.unit_roundoff() + (p["t"] as f64 + 8.0) * 2f64.powi(-24),
                    reason: "each of t weights is rounded in f32, so is each sum of them, and the result once more",
                };
                of_result(p, output, summed)
            },
        ),
        StressInput::new(
            "saturating",
            "scores of ±1000: tokens of the lesser sign weigh nothing, those of the greater all the same",
            |p| filled(p, vec![("q", |s, d| saturated(s, d, false)), ("k", |s, d| saturated(s, d, true))]),
            tolerance,
        ),
        StressInput::new(
            "huge",
            "values of up to 60 000 in f16 and 1e30 otherwise: sums over tokens stay within f32, the result is finite",
            |p| {
                let large: Fill = match p.dtype {
                    DType::F16 => |_, draw| 6e4 * (0.5 + 0.5 * draw.uniform()),
                    _ => |_, draw| 1e30 * (0.5 + 0.5 * draw.uniform()),
                };
                filled(p, vec![("v", large)])
            },
            |p, output| {
                let mixed = tolerance(p, result(p));
                of_result(p, output, Tolerance { abs: mixed.abs * huge(p) / 3.47, ..mixed })
            },
        ),
        StressInput::new(
            "subnormal",
            "values too small to be normal: the result is such a number, or zero where the device flushes them",
            |p| filled(p, vec![("v", subnormal(p))]),
            |p, _| Tolerance {
                abs: 2.0 * smallest_normal(p),
                rel: 0.0,
                reason: "a device may flush numbers below the smallest normal one to zero, before and after the sum",
            },
        ),
        StressInput::new(
            "empty",
            "sequences alternate between no tokens and one: zero, and the value of the one, which may be the new one",
            |_| vec![("lengths", |_, draw| (draw.index % 2) as f64)],
            tolerance,
        ),
        StressInput::new(
            "nan",
            "NaN in every third query: so are their results",
            |_| vec![("q", |shape, draw| nan_in_rows(draw, shape["d"]))],
            tolerance,
        ),
        StressInput::new(
            "unread",
            "NaN in the caches beyond the lengths: it is never read into a sum",
            |_| vec![("k", nan_beyond), ("v", nan_beyond)],
            tolerance,
        )
        .applies(|p| p.shape.has("contiguous")),
        StressInput::new(
            "shared page",
            "every entry of the table names the last page, as where sequences begin alike",
            |_| vec![("table", |shape, _| (shape["b"] * pages_of_one(shape) - 1) as f64)],
            tolerance,
        )
        .applies(|p| !p.shape.has("contiguous") && !append::asked(p)),
    ]
}
