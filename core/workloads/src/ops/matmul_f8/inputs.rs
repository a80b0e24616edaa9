//! Inputs of the workload, and the accuracy of results for them.

use parallax_ir::stress::{smallest_normal, wide, zero};
use parallax_ir::{Draw, Problem, Shape, StressInput, Tolerance};

use super::codes::{INFINITY, NAN, SIGN, format_of_a, gradient};
use super::{PACKED, SPAN};
use crate::minifloat::{E4M3, Minifloat};
use crate::packed::word;

/// Four codes of numbers from −448 to 448, the sums of two uniform ones.
fn numbers(format: Minifloat, draw: Draw) -> f64 {
    word(|place| {
        let [first, second] = [0, 8].map(|half| (draw.bits() >> (16 * place + half)) as u8);
        format.code(f64::from(i32::from(first) + i32::from(second) - 255) * (E4M3.most / 255.0))
    })
}

/// Four numbers of A.
pub(super) fn numbers_of_a(shape: &Shape, draw: Draw) -> f64 {
    numbers(format_of_a(shape), draw)
}

/// Four numbers of B.
pub(super) fn numbers_of_b(_: &Shape, draw: Draw) -> f64 {
    numbers(E4M3, draw)
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
            ..set("equal", "all one: the depth, scaled", |_| {
                vec![("a", |shape, _| all(format_of_a(shape), 1.0)), ("b", ones)]
            })
        },
        set("codes", "every finite code as often as others", |_| {
            vec![("a", finite_of_a), ("b", |_, draw| finite(E4M3, draw)), ("a_scale", scale_of_finite)]
        }),
        StressInput {
            // Up to 15 steps of 2^-9 or 7 of 2^-16, with scales up to two.
            tolerance: |p, _| {
                of_exact_parts(p, 4.0 * if gradient(&p.shape) { 7.0 * 2f64.powi(-16) } else { 15.0 * 2f64.powi(-9) })
            },
            ..set("small", "subnormal numbers and the least normal ones, times one", |_| {
                vec![("a", small), ("b", ones), ("a_scale", up_to_two), ("b_scale", up_to_two)]
            })
        },
        StressInput {
            // Products are 49 steps.
            tolerance: |p, _| of_exact_parts(p, 12.25),
            ..set("ends", "−448 and 448 alone", |_| {
                vec![("a", |shape, draw| ends(format_of_a(shape), draw)), ("b", |_, draw| ends(E4M3, draw))]
            })
        },
        StressInput {
            tolerance: |p, _| of_exact_parts(p, 12.25),
            ..set("largest", "448 everywhere: the largest sums that there are", |_| {
                vec![("a", |shape, _| all(format_of_a(shape), E4M3.most)), ("b", |_, _| all(E4M3, E4M3.most))]
            })
        }
        .applies(|p| wide(p) || p["k"] <= 4096),
        set("nan", "NaN of either sign in some rows of A and B: so are their rows and columns of the result", |_| {
            vec![("a", nan_in_rows_of_a), ("b", nan_in_rows_of_b)]
        }),
        set("infinite", "infinities of either sign in some rows of A", |_| vec![("a", infinite_in_rows_of_a)])
            .applies(|p| gradient(&p.shape)),
        set("unscaled", "some scales are zero", |_| vec![("a_scale", some_zero), ("b_scale", some_zero)]),
        set("silent", "all scales of A are zero", |_| vec![("a_scale", zero)]),
        set("far", "scales of A near 2^52 and of B near 2^-68", |_| vec![("a_scale", large), ("b_scale", tiny)]),
    ]
}

fn zeros(_: &Shape, draw: Draw) -> f64 {
    word(|place| if draw.bits() >> place & 1 == 1 { SIGN } else { 0 })
}

/// Four codes of one number.
fn all(format: Minifloat, number: f64) -> f64 {
    word(|_| format.code(number))
}

fn ones(_: &Shape, _: Draw) -> f64 {
    all(E4M3, 1.0)
}

/// Four codes of 448 with either sign.
fn ends(format: Minifloat, draw: Draw) -> f64 {
    let largest = format.code(E4M3.most);
    word(|place| if (draw.bits() >> (63 - place)) & 1 == 1 { largest | SIGN } else { largest })
}

/// Four of the codes of numbers.
fn finite(format: Minifloat, draw: Draw) -> f64 {
    let sizes = u64::from(format.code(format.most)) + 1;
    word(|place| {
        let at = (((draw.bits() >> (16 * place)) & 0xFFFF) * 2 * sizes) >> 16;
        (at % sizes) as u8 | if at >= sizes { SIGN } else { 0 }
    })
}

fn finite_of_a(shape: &Shape, draw: Draw) -> f64 {
    finite(format_of_a(shape), draw)
}

/// Scale with which the largest number of A counts as 448 does.
fn scale_of_finite(shape: &Shape, draw: Draw) -> f64 {
    scale(shape, draw) * E4M3.most / format_of_a(shape).most
}

/// Codes of subnormal numbers and of as many normal ones, with either sign.
fn small(shape: &Shape, draw: Draw) -> f64 {
    let sizes = (2 << format_of_a(shape).mantissa) - 1;
    word(|place| {
        let bits = (draw.bits() >> (16 * place)) as u8;
        bits & sizes | bits & SIGN
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

/// Words of rows whose number leaves `rest` when divided by `every`, with another code at one place.
fn in_rows(shape: &Shape, draw: Draw, [every, rest]: [u64; 2], usual: f64, code: u8) -> f64 {
    let words = shape["k"] / PACKED;
    let (row, at, usual) = (draw.index / words, draw.index % words, usual as u32);
    // In the last word that begins a block, in its second byte.
    let there = row % every == rest && at == (words - 1) / (SPAN / PACKED) * (SPAN / PACKED);
    f64::from(if there { usual & !0xFF00 | u32::from(code) << 8 } else { usual })
}

fn nan_in_rows_of_a(shape: &Shape, draw: Draw) -> f64 {
    in_rows(shape, draw, [3, 0], numbers_of_a(shape, draw), NAN)
}

fn nan_in_rows_of_b(shape: &Shape, draw: Draw) -> f64 {
    in_rows(shape, draw, [5, 2], numbers_of_b(shape, draw), NAN | SIGN)
}

fn infinite_in_rows_of_a(shape: &Shape, draw: Draw) -> f64 {
    let row = draw.index / (shape["k"] / PACKED);
    let sign = if row.is_multiple_of(2) { 0 } else { SIGN };
    in_rows(shape, draw, [3, 1], numbers_of_a(shape, draw), INFINITY | sign)
}

#[cfg(test)]
mod tests {
    use super::super::codes::Numbers;
    use super::*;
    use crate::parse_case;

    fn problem(word: &str) -> Problem {
        parse_case(&format!("matmul_f8/fwd/m64,n64,k256,block{word}/f16/naive")).expect("valid").problem
    }

    /// Numbers that a fill draws, in the format of A.
    fn drawn(word: &str, fill: fn(&Shape, Draw) -> f64) -> Vec<f64> {
        let shape = problem(word).shape;
        let each = |index| Numbers::of_a(&shape).decoded(fill(&shape, Draw::new(7, index)) as u32).map(f64::from);
        (0..64 * 64).flat_map(each).collect()
    }

    #[test]
    fn numbers_have_the_magnitudes_that_the_tolerance_assumes() {
        for (word, count, small_number) in [("", 254, 15.0 * 2f64.powi(-9)), (",e5m2", 248, 7.0 * 2f64.powi(-16))] {
            let all = drawn(word, numbers_of_a);
            let deviation = (all.iter().map(|x| x * x).sum::<f64>() / all.len() as f64).sqrt();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let largest = all.iter().fold(0f64, |largest, x| largest.max(x.abs()));
            // Both scales are below 1/128.
            assert!(mean.abs() < 5.0 && largest <= E4M3.most, "{mean} {largest}");
            assert!((deviation / 128.0).powi(2) < 2.1, "{deviation}");
            assert!(drawn(word, finite_of_a).iter().all(|x| x.is_finite()));
            let codes: std::collections::HashSet<u64> =
                drawn(word, finite_of_a).into_iter().map(f64::to_bits).collect();
            assert_eq!(codes.len(), count);
            assert!(drawn(word, small).iter().all(|x| x.abs() <= small_number));
        }
    }

    #[test]
    fn nan_and_infinities_are_in_some_rows() {
        type Fill = fn(&Shape, Draw) -> f64;
        for (word, fill, rows) in [
            ("", nan_in_rows_of_a as Fill, [0, 3]),
            ("", nan_in_rows_of_b, [2, 7]),
            (",e5m2", nan_in_rows_of_a, [0, 3]),
            (",e5m2", infinite_in_rows_of_a, [1, 4]),
        ] {
            let all = drawn(word, fill);
            let special = |row: &[f64]| row.iter().filter(|x| !x.is_finite()).count();
            let mut found = all.chunks(256).enumerate().filter(|(_, row)| special(row) > 0);
            assert_eq!([(); 2].map(|()| found.next().expect("two").0), rows);
            assert_eq!(special(&all[..256]), usize::from(rows[0] == 0));
        }
        let infinities = drawn(",e5m2", infinite_in_rows_of_a).into_iter().filter(|x| x.is_infinite());
        let (up, down): (Vec<f64>, Vec<f64>) = infinities.partition(|x| *x > 0.0);
        assert!(!up.is_empty() && !down.is_empty());
    }
}
