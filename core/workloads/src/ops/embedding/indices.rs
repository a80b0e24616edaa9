//! Indices of table rows, uniform or by Zipf's law, and the expected number of uses of a row.

use parallax_ir::stress::{smallest_normal, zipf, zipf_octaves};
use parallax_ir::{Axis, Draw, Fill, Problem, Shape, Tolerance};

/// Distribution of the rows.
pub(crate) const CHOICE: Axis =
    Axis::word("rows", "how rows are chosen: each alike, or by Zipf's law with exponent 1.05", &["", "zipf"]);

/// Multiplier that spreads the popular rows over the whole table. It is a prime, so that ranks of a smaller table do not collide.
const APART: u64 = 2_654_435_761;

/// Random row of a table of `v` rows.
pub(crate) fn chosen(shape: &Shape, draw: Draw) -> f64 {
    if shape.has("zipf") { popular(shape, draw) } else { draw.below(shape["v"]) as f64 }
}

/// Random row by Zipf's law, for any shape.
pub(crate) fn popular(shape: &Shape, draw: Draw) -> f64 {
    let u = (draw.bits() >> 11) as f64 / (1u64 << 53) as f64;
    (zipf(shape["v"], u) * APART % shape["v"]) as f64
}

/// Indices of stress inputs: the last row for all items, and only the first and the last.
pub(crate) const LAST: Fill = |shape, _| (shape["v"] - 1) as f64;
pub(crate) const ENDS: Fill = |shape, draw| ((draw.index % 2) * (shape["v"] - 1)) as f64;

/// Classes of rows with equal probability: number of rows, and the share of each.
fn shares(p: &Problem) -> Vec<(u64, f64)> {
    let v = p["v"];
    if !p.shape.has("zipf") {
        return vec![(v, 1.0 / v as f64)];
    }
    let total = zipf_octaves(v).fold(0.0, |sum, (.., weight)| sum + weight);
    zipf_octaves(v).map(|(_, rows, weight)| (rows, weight / total / rows as f64)).collect()
}

/// Computes `x` to the power of `n` with multiplications alone, which are the same on every platform.
fn power(mut x: f64, mut n: u64) -> f64 {
    let mut result = 1.0;
    while n > 0 {
        if n % 2 == 1 {
            result *= x;
        }
        x *= x;
        n /= 2;
    }
    result
}

/// Mean number of distinct rows in `draws` draws: no program reads fewer.
pub(crate) fn different(p: &Problem, draws: u64) -> u64 {
    shares(p).into_iter().map(|(rows, share)| rows as f64 * (1.0 - power(1.0 - share, draws))).sum::<f64>() as u64
}

/// Uses of the most frequent row in `draws` draws, with a margin for chance.
pub(crate) fn most_alike(p: &Problem, draws: u64) -> f64 {
    let mean = draws as f64 * shares(p)[0].1;
    (mean + 8.0 * mean.sqrt() + 16.0).min(draws as f64)
}

/// Tolerance for sums of up to `terms` terms of either sign, none greater than `most`, rounded once to the element type at the end.
pub(crate) fn summed(p: &Problem, terms: f64, most: f64) -> Tolerance {
    Tolerance {
        // Few terms: the error of each addition is up to half a unit of the sum of magnitudes. Many terms: see the reason.
        abs: 2f64.powi(-24) * most * terms * (terms + 1.0).min(64.0) + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "terms of mean zero are summed in f32 in any order: partial sums of n of them stay below 8·√n times their size, and \
                 errors of n additions below 8·√n·u times that, but with probability e^-32 (Higham and Mary 2019); the result is \
                 rounded once, or zero where it is too small to be normal",
    }
}

/// Tolerance for elements that are only moved.
pub(crate) fn moved(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: smallest_normal(p),
        rel: 0.0,
        reason: "elements are moved as they are; a device may flush subnormal numbers to zero",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;
    use parallax_schema::case::{DType, Direction};

    fn problem(shape: &str) -> Problem {
        Problem::new(find("embedding").expect("here"), Direction::Fwd, shape, DType::F32).expect("valid")
    }

    #[test]
    fn draws_take_as_many_different_rows_as_expected_and_none_too_often() {
        for shape in ["n20000,v1000,d1", "n20000,v1000,d1,zipf", "n500,v100000,d1,zipf", "n500,v100000,d1"] {
            let p = problem(shape);
            let mut taken = vec![0u64; p["v"] as usize];
            let inputs = p.inputs(5);
            (0..p["n"]).for_each(|i| taken[inputs.at(0, i) as usize] += 1);
            let found = taken.iter().filter(|times| **times > 0).count() as f64;
            let expected = different(&p, p["n"]) as f64;
            assert!((found - expected).abs() <= 4.0 * expected.sqrt() + 2.0, "{shape}: {found}, not {expected}");
            let most = *taken.iter().max().expect("rows");
            assert!(most as f64 <= most_alike(&p, p["n"]), "{shape}: {most} of {}", most_alike(&p, p["n"]));
        }
    }

    #[test]
    fn powers_are_powers() {
        assert_eq!([power(0.5, 0), power(0.5, 1), power(0.5, 10)], [1.0, 0.5, 0.5f64.powi(10)]);
    }
}
