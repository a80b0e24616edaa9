//! Stress inputs.

use parallax_ir::stress::{exact, one, wide, zero};
use parallax_ir::{Draw, Shape, StressInput, splitmix64};
use parallax_schema::case::DType;

use super::{element, tolerance};

/// Cosines of one and sines of zero.
fn no_angle(shape: &Shape, draw: Draw) -> f64 {
    if draw.index % shape["d"] < shape["d"] / 2 { 1.0 } else { 0.0 }
}

/// NaN as the first element of a third of all heads.
fn nan(shape: &Shape, draw: Draw) -> f64 {
    let (head, column) = (draw.index / shape["d"], draw.index % shape["d"]);
    if column == 0 && splitmix64(head).is_multiple_of(3) { f64::NAN } else { element(shape, draw) }
}

/// Power of two for each head, from 2⁻⁶⁰ to 2⁵⁹.
fn ends(shape: &Shape, draw: Draw) -> f64 {
    let head = draw.index / shape["d"];
    element(shape, draw) * 2f64.powi((splitmix64(head) % 120) as i32 - 60)
}

pub(super) fn inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "all zero, and no angle: queries of zero, and the least scale",
            |_| vec![("qkv", zero), ("angles", no_angle)],
            exact,
        ),
        StressInput::new(
            "equal",
            "all one: the diagonal is rotated",
            |_| vec![("qkv", one)],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "no angle",
            "cosines of one and sines of zero: elements arrive as they were",
            |_| vec![("angles", no_angle)],
            exact,
        ),
        StressInput::new(
            "empty",
            "sequences alternate between no token and one: the others of their new tokens are padding",
            |_| vec![("lengths", |_, draw| (draw.index % 2) as f64)],
            |p, output| tolerance(p, output, 3.5),
        ),
        StressInput::new(
            "nan",
            "NaN in a third of the heads: their scales are NaN, and their codes zero",
            |_| vec![("qkv", nan)],
            |p, output| tolerance(p, output, 3.5),
        ),
        StressInput::new(
            "huge",
            "up to 3e4 in f16 and 1e30 otherwise: √2 times that is a number still",
            |p| match p.dtype {
                DType::F16 => vec![("qkv", |shape, draw| 2f64.powi(13) * element(shape, draw))],
                _ => vec![("qkv", |shape, draw| 2f64.powi(98) * element(shape, draw))],
            },
            |p, output| tolerance(p, output, 3.5 * 2f64.powi(if p.dtype == DType::F16 { 13 } else { 98 })),
        ),
        StressInput::new(
            "ends",
            "heads of different magnitudes, from 2⁻⁶⁰ to 2⁶⁰",
            |_| vec![("qkv", ends)],
            |p, output| tolerance(p, output, 2f64.powi(-30)),
        )
        .applies(wide),
    ]
}
