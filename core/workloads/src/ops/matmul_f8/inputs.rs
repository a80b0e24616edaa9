//! Inputs of the workload, and the accuracy of results for them.

use parallax_ir::stress::{smallest_normal, wide, zero};
use parallax_ir::{Draw, Problem, Shape, StressInput, Tolerance};

use super::codes::{LARGEST, NAN, ONE, SIGN};
use super::{PACKED, SPAN};
use crate::minifloat::E4M3;
use crate::packed::word;

/// Four codes of numbers from −448 to 448, the sums of two uniform ones.
pub(super) fn numbers(_: &Shape, draw: Draw) -> f64 {
    word(|place| {
        let [first, second] = [0, 8].map(|half| (draw.bits() >> (16 * place + half)) as u8);
        E4M3.code(f64::from(i32::from(first) + i32::from(second) - 255) * (E4M3.most / 255.0))
    })
}

/// Scale for numbers of about unit variance.
pub(super) fn scale(_: &Shape, draw: Draw) -> f64 {
    (1.0 + draw.uniform()) / 256.0
}

/// Bound of the errors of a sum in f32, over the sum of its magnitudes.
fn of_sum(p: &Problem) -> f64 {
    (8.0 * (p["k"] as f64).sqrt() + 8.0) * 2f64.powi(-24)
}

pub(super) fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let k = p["k"] as f64;
    // Products are up to 12.25, with a deviation of at most 2.1. In a part they and their sum are at most 16 but for chance.
    let terms = k + 12.0 * k.sqrt();
    Tolerance {
        abs: 16.0 * terms * 2f64.powi(-13) + of_sum(p) * 2.0 * terms,
        rel: 8.0 * 2f64.powi(-24) + 2.0 * p.dtype.unit_roundoff(),
        reason: "tensor cores align 32 products and their sum to the largest, and keep 13 bits behind its first: each term \
                 loses less than 2^-13 of it. Sums of 128 products are added in f32: 8·√k·u times the sum of magnitudes holds for \
                 any order but with probability e^-32 (Higham and Mary 2019). Scales and the result are rounded",
    }
}

/// Tolerance of sums whose partial sums tensor cores have exactly, for products of these magnitudes.
fn of_exact_parts(p: &Problem, magnitude: f64) -> Tolerance {
    Tolerance {
        abs: smallest_normal(p) + of_sum(p) * magnitude * p["k"] as f64,
        rel: 8.0 * 2f64.powi(-24) + 2.0 * p.dtype.unit_roundoff(),
        reason: "products are multiples of one step, and sums of 128 of them are below 2^13 steps: tensor cores have them exactly. \
                 They are scaled and added in f32, and rounded to the element type",
    }
}

pub(super) fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        StressInput {
            tolerance: |p, _| of_exact_parts(p, 0.0),
            ..set("zeros", "zeros of both signs: every result is zero", |_| vec![("a", zeros)])
        },
        StressInput {
            // Both scales are up to 1/128.
            tolerance: |p, _| of_exact_parts(p, 2f64.powi(-14)),
            ..set("equal", "all one: the depth, scaled", |_| vec![("a", ones), ("b", ones)])
        },
        set("codes", "every finite code as often as others", |_| vec![("a", finite), ("b", finite)]),
        StressInput {
            // Up to 15 steps of 2^-9, with scales up to two.
            tolerance: |p, _| of_exact_parts(p, 4.0 * 15.0 * 2f64.powi(-9)),
            ..set("small", "subnormal numbers and the least normal ones, times one", |_| {
                vec![("a", small), ("b", ones), ("a_scale", up_to_two), ("b_scale", up_to_two)]
            })
        },
        StressInput {
            // Products are 49 steps.
            tolerance: |p, _| of_exact_parts(p, 12.25),
            ..set("ends", "−448 and 448 alone", |_| vec![("a", ends), ("b", ends)])
        },
        StressInput {
            tolerance: |p, _| of_exact_parts(p, 12.25),
            ..set("largest", "448 everywhere: the largest sums that there are", |_| {
                vec![("a", largest), ("b", largest)]
            })
        }
        .applies(|p| wide(p) || p["k"] <= 4096),
        set("nan", "NaN of either sign in some rows of A and B: so are their rows and columns of the result", |_| {
            vec![("a", nan_in_rows_of_a), ("b", nan_in_rows_of_b)]
        }),
        set("unscaled", "some scales are zero", |_| vec![("a_scale", some_zero), ("b_scale", some_zero)]),
        set("silent", "all scales of A are zero", |_| vec![("a_scale", zero)]),
        set("far", "scales of A near 2^52 and of B near 2^-68", |_| vec![("a_scale", large), ("b_scale", tiny)]),
    ]
}

fn zeros(_: &Shape, draw: Draw) -> f64 {
    word(|place| if draw.bits() >> place & 1 == 1 { SIGN } else { 0 })
}

fn ones(_: &Shape, _: Draw) -> f64 {
    word(|_| ONE)
}

fn largest(_: &Shape, _: Draw) -> f64 {
    word(|_| LARGEST)
}

fn ends(_: &Shape, draw: Draw) -> f64 {
    word(|place| if (draw.bits() >> (63 - place)) & 1 == 1 { LARGEST | SIGN } else { LARGEST })
}

/// Four of the 254 codes of numbers.
fn finite(_: &Shape, draw: Draw) -> f64 {
    word(|place| {
        let at = (((draw.bits() >> (16 * place)) & 0xFFFF) * 254) >> 16;
        (at % 127) as u8 | if at >= 127 { SIGN } else { 0 }
    })
}

/// Codes up to 15 with either sign.
fn small(_: &Shape, draw: Draw) -> f64 {
    word(|place| {
        let bits = (draw.bits() >> (16 * place)) as u8;
        bits & 15 | bits & SIGN
    })
}

fn up_to_two(_: &Shape, draw: Draw) -> f64 {
    1.0 + draw.uniform()
}

fn some_zero(shape: &Shape, draw: Draw) -> f64 {
    if draw.index % 3 == 1 { 0.0 } else { scale(shape, draw) }
}

fn large(shape: &Shape, draw: Draw) -> f64 {
    scale(shape, draw) * 2f64.powi(60)
}

fn tiny(shape: &Shape, draw: Draw) -> f64 {
    scale(shape, draw) * 2f64.powi(-60)
}

/// The usual numbers, with this code at one place of every row whose number leaves `rest` when divided by `every`.
fn nan_in_rows(shape: &Shape, draw: Draw, [every, rest]: [u64; 2], of: u8) -> f64 {
    let words = shape["k"] / PACKED;
    let (row, at) = (draw.index / words, draw.index % words);
    let usual = numbers(shape, draw) as u32;
    // In the last word that begins a block, in its second byte.
    let there = row % every == rest && at == (words - 1) / (SPAN / PACKED) * (SPAN / PACKED);
    f64::from(if there { usual & !0xFF00 | u32::from(of) << 8 } else { usual })
}

fn nan_in_rows_of_a(shape: &Shape, draw: Draw) -> f64 {
    nan_in_rows(shape, draw, [3, 0], NAN)
}

fn nan_in_rows_of_b(shape: &Shape, draw: Draw) -> f64 {
    nan_in_rows(shape, draw, [5, 2], NAN | SIGN)
}

#[cfg(test)]
mod tests {
    use super::super::codes::decoded;
    use super::*;
    use crate::parse_case;

    fn problem() -> Problem {
        parse_case("matmul_f8/fwd/m64,n64,k256,block/f16/naive").expect("valid").problem
    }

    /// Numbers that a fill draws.
    fn drawn(fill: fn(&Shape, Draw) -> f64) -> Vec<f64> {
        let shape = problem().shape;
        let each = |index| decoded(fill(&shape, Draw::new(7, index)) as u32).map(f64::from);
        (0..64 * 64).flat_map(each).collect()
    }

    #[test]
    fn numbers_have_the_magnitudes_that_the_tolerance_assumes() {
        let all = drawn(numbers);
        let deviation = (all.iter().map(|x| x * x).sum::<f64>() / all.len() as f64).sqrt();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let largest = all.iter().fold(0f64, |largest, x| largest.max(x.abs()));
        // Both scales are below 1/128.
        assert!(mean.abs() < 5.0 && largest <= E4M3.most, "{mean} {largest}");
        assert!((deviation / 128.0).powi(2) < 2.1, "{deviation}");
        assert!(drawn(finite).iter().all(|x| x.is_finite()));
        let codes: std::collections::HashSet<u64> = drawn(finite).into_iter().map(f64::to_bits).collect();
        assert_eq!(codes.len(), 254);
        assert!(drawn(small).iter().all(|x| x.abs() <= 15.0 * 2f64.powi(-9)));
    }

    #[test]
    fn nan_is_in_some_rows_of_both_matrices() {
        for (fill, rows) in [(nan_in_rows_of_a as fn(&Shape, Draw) -> f64, [0, 3]), (nan_in_rows_of_b, [2, 7])] {
            let all = drawn(fill);
            let mut found = all.chunks(256).enumerate().filter(|(_, row)| row.iter().any(|x| x.is_nan()));
            assert_eq!([(); 2].map(|()| found.next().expect("two").0), rows);
            assert_eq!(all[..256].iter().filter(|x| x.is_nan()).count(), usize::from(rows[0] == 0));
        }
    }
}
