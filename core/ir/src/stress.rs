//! Stress inputs: named input sets of a specification beside the seeded ones, and their expected results.

use std::fmt;

use parallax_schema::case::DType;

use super::{Draw, Fill, Problem, Shape, Tolerance};

/// Input set that provokes faults of a kernel: zeros, equal values, the ends of the number range, skewed indices.
pub struct StressInput {
    /// Name in tables.
    pub name: &'static str,
    /// Contents, and the expected result.
    pub about: &'static str,
    /// Problems for which it is defined.
    pub applies: fn(&Problem) -> bool,
    /// Functions that fill these inputs. The others are seeded as usual.
    pub fills: fn(&Problem) -> Vec<(&'static str, Fill)>,
    /// Tolerance of an output against the reference.
    pub tolerance: fn(&Problem, usize) -> Tolerance,
}

impl StressInput {
    /// Returns a stress input for every problem.
    pub fn new(
        name: &'static str,
        about: &'static str,
        fills: fn(&Problem) -> Vec<(&'static str, Fill)>,
        tolerance: fn(&Problem, usize) -> Tolerance,
    ) -> StressInput {
        StressInput { name, about, applies: any, fills, tolerance }
    }

    /// Restricts it to these problems.
    pub fn applies(self, applies: fn(&Problem) -> bool) -> StressInput {
        StressInput { applies, ..self }
    }
}

impl fmt::Debug for StressInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns whether the case's type has the range of f32. Values beyond f16 are defined for these types only.
pub fn wide(p: &Problem) -> bool {
    matches!(p.dtype, DType::F32 | DType::BF16)
}

/// Every problem.
pub fn any(_: &Problem) -> bool {
    true
}

/// Zero everywhere.
pub fn zero(_: &Shape, _: Draw) -> f64 {
    0.0
}

/// One everywhere.
pub fn one(_: &Shape, _: Draw) -> f64 {
    1.0
}

/// Stress input for backward passes: the gradient is zero.
pub fn no_gradient(tolerance: fn(&Problem, usize) -> Tolerance) -> StressInput {
    StressInput::new("zeros", "no gradient: every result is zero", |_| vec![("dout", zero)], tolerance)
}

/// Stress input for backward passes behind ReLU: all of its outputs are zero.
pub fn closed(applies: fn(&Problem) -> bool, tolerance: fn(&Problem, usize) -> Tolerance) -> StressInput {
    StressInput::new("closed", "ReLU let nothing through: every result is zero", |_| vec![("out", zero)], tolerance)
        .applies(applies)
}

/// NaN at every seventh element.
pub fn scattered_nan(_: &Shape, draw: Draw) -> f64 {
    if draw.index % 7 == 3 { f64::NAN } else { draw.normal() }
}

/// NaN at the first element of every third row of `columns` elements, from the first row on.
pub fn nan_in_rows(draw: Draw, columns: u64) -> f64 {
    let (row, column) = (draw.index / columns, draw.index % columns);
    if column == 0 && row.is_multiple_of(3) { f64::NAN } else { draw.normal() }
}

/// NaN for the bias of the first channel, and numbers for the others.
pub fn nan_of_first(_: &Shape, draw: Draw) -> f64 {
    if draw.index == 0 { f64::NAN } else { draw.normal() }
}

/// Stress input of a convolution whose bias has NaN in its first channel.
pub fn nan_bias(tolerance: fn(&Problem, usize) -> Tolerance) -> StressInput {
    StressInput::new(
        "nan",
        "NaN as the bias of the first channel, which ReLU lets through",
        |_| vec![("bias", nan_of_first)],
        tolerance,
    )
    .applies(|p| p.shape.has("bias"))
}

/// Input of a softmax over `columns` elements. Of every three rows, one has -inf in its first half and one begins with NaN.
pub fn not_finite_rows(draw: Draw, columns: u64) -> f64 {
    let (row, column) = (draw.index / columns, draw.index % columns);
    match row % 3 {
        0 if column < columns / 2 => f64::NEG_INFINITY,
        1 if column == 0 => f64::NAN,
        _ => draw.normal(),
    }
}

/// Returns a fill with numbers too small to be normal in the case's type.
pub fn subnormal(p: &Problem) -> Fill {
    match p.dtype {
        DType::F16 => |_, draw| 3e-5 * (1.0 + draw.uniform()) * 0.5,
        DType::F32 | DType::BF16 => |_, draw| 1e-40 * (1.0 + draw.uniform()),
    }
}

/// Tolerance of sums whose terms are all zero.
pub fn sums_of_zeros(p: &Problem) -> Tolerance {
    Tolerance { abs: smallest_normal(p), rel: 0.0, reason: "sums of zeros are zero" }
}

/// Smallest normal number of the case's type. A device may flush smaller numbers to zero. A sum of n terms is therefore defined
/// up to n times this number.
pub fn smallest_normal(p: &Problem) -> f64 {
    match p.dtype {
        DType::F16 => 2f64.powi(-14),
        DType::F32 | DType::BF16 => 2f64.powi(-126),
    }
}

/// Tolerance of exact results: half the smallest difference between two f32 numbers.
pub fn exact(_: &Problem, _output: usize) -> Tolerance {
    Tolerance { abs: 2f64.powi(-150), rel: 0.0, reason: "every step is exact in f32 and in the element type" }
}

/// Octaves of Zipf's law with exponent 1.05, for ranks below `n`. An item has an octave's first rank, its number of ranks, and
/// its weight. An octave has 2^-0.05 times the weight of the one before it. The last one is weighted by the part of it that is
/// below `n`. Only multiplications and divisions by powers of two occur, so that results are the same everywhere.
pub fn zipf_octaves(n: u64) -> impl Iterator<Item = (u64, u64, f64)> {
    /// 2^-0.05.
    const NEXT: f64 = 0.965_936_328_924_845_6;
    let widths = (0..=n.ilog2()).map(|octave| 1u64 << octave);
    widths.take_while(move |width| width - 1 < n).scan(1.0, move |whole, width| {
        let (first, weight) = (width - 1, *whole);
        *whole *= NEXT;
        let ranks = width.min(n - first);
        Some((first, ranks, weight * (ranks as f64 / width as f64)))
    })
}

/// Rank below `n` of a number in [0, 1) by Zipf's law, rising with the number. Ranks of an octave are equally likely.
pub fn zipf(n: u64, u: f64) -> u64 {
    let mut left = u * zipf_octaves(n).fold(0.0, |sum, (.., weight)| sum + weight);
    for (first, ranks, weight) in zipf_octaves(n) {
        if left < weight {
            return first + (((left / weight) * ranks as f64) as u64).min(ranks - 1);
        }
        left -= weight;
    }
    // Only rounding leaves a remainder.
    n - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_ranks_rise_stay_below_and_favour_the_first() {
        for n in [1, 2, 7, 1000, 1 << 20] {
            let ranks: Vec<u64> = (0..10_000).map(|i| zipf(n, f64::from(i) / 10_000.0)).collect();
            assert!(ranks.is_sorted() && ranks.iter().all(|r| *r < n), "{n}");
            assert_eq!(ranks[0], 0);
            let first = ranks.iter().filter(|r| **r == 0).count() as f64 / 1e4;
            assert!(first >= 1.0 / f64::from(n.ilog2() + 1), "{n}: {first}");
        }
    }

    #[test]
    fn octaves_have_every_rank_once_and_the_last_is_no_more_likely_than_its_neighbours() {
        for n in [1, 2, 3, 7, 8, 1000, 100_000] {
            let octaves: Vec<_> = zipf_octaves(n).collect();
            assert_eq!(octaves.iter().map(|(_, ranks, _)| ranks).sum::<u64>(), n);
            let each: Vec<f64> = octaves.iter().map(|(_, ranks, weight)| weight / *ranks as f64).collect();
            assert!(each.windows(2).all(|pair| pair[1] < pair[0]), "{n}: {each:?}");
        }
        let last = (0..100_000).filter(|i| zipf(1000, f64::from(*i) / 1e5) == 999).count();
        assert!((10..40).contains(&last), "{last}");
    }
}
