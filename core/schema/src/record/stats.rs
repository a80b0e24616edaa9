//! Summaries of samples: pure functions of plain numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Summary of a set of samples. Derived from the samples and recomputable at any time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Number of samples.
    pub n: u32,
    /// Half the samples are at most this.
    pub median: Nanos,
    /// 95 % interval of the median, low end.
    pub low: Nanos,
    /// 95 % interval of the median, high end.
    pub high: Nanos,
    /// First quartile.
    pub q1: Nanos,
    /// Third quartile.
    pub q3: Nanos,
    /// Smallest sample.
    pub min: Nanos,
    /// Largest sample.
    pub max: Nanos,
    /// Relative spread: interquartile range over median.
    pub spread: f64,
}

impl Summary {
    /// Summarises samples in the order of measurement; `None` without samples.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = interval(samples, &sorted);
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|p| quantile(&sorted, p));
        Some(Summary {
            n: sorted.len() as u32,
            median: Nanos(median),
            low: Nanos(low),
            high: Nanos(high),
            q1: Nanos(q1),
            q3: Nanos(q3),
            min: Nanos(first),
            max: Nanos(last),
            spread: if median > 0.0 { (q3 - q1) / median } else { 0.0 },
        })
    }

    /// Returns half the width of the interval over the median. Infinite with too few samples for an interval of 95 %.
    pub fn precision(&self) -> f64 {
        if self.median.0 > 0.0 && self.n >= FEWEST {
            (self.high.0 - self.low.0) / 2.0 / self.median.0
        } else {
            f64::INFINITY
        }
    }
}

/// Smallest number of samples with a 95 % interval. With fewer, even the whole range covers the median less often: 1 - 2·2⁻⁵ is
/// 93.8 %.
pub const FEWEST: u32 = 6;

/// Number of stretches of time into which samples are cut.
const STRETCHES: usize = 8;

/// Returns an interval of at least 95 % of the median of samples in the order of measurement.
///
/// Consecutive samples are alike: clocks, heat and neighbours change slowly. An interval that assumes independence is too narrow,
/// and two runs of the same program then differ "significantly".
/// The samples are therefore cut into eight stretches of time, and the interval is that of the median of the eight medians. This
/// is the method of batch means (Law, "Simulation Modeling and Analysis", section 9.5.3) without its normal distribution.
/// Eight medians give the whole range: 99.2 % for independent stretches, which leaves room for a slight dependence.
/// The interval of independent samples counts where it is wider, as with two modes that alternate. With fewer than two samples a
/// stretch it is the only one.
fn interval(samples: &[f64], sorted: &[f64]) -> (f64, f64) {
    let n = samples.len();
    let (low, high) = median_interval(sorted);
    if n < 2 * STRETCHES {
        return (low, high);
    }
    let medians = (0..STRETCHES).map(|i| {
        let mut stretch = samples[i * n / STRETCHES..(i + 1) * n / STRETCHES].to_vec();
        stretch.sort_by(f64::total_cmp);
        quantile(&stretch, 0.5)
    });
    medians.fold((low, high), |(low, high), m| (low.min(m), high.max(m)))
}

/// Returns quantile `p` of ascending samples, interpolated linearly (Hyndman and Fan's type 7).
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// Returns the geometric mean of the values that have a finite logarithm, and their number; `None` without any.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<(f64, usize)> {
    let logs: Vec<f64> = values.into_iter().map(f64::ln).filter(|log| log.is_finite()).collect();
    (!logs.is_empty()).then(|| ((logs.iter().sum::<f64>() / logs.len() as f64).exp(), logs.len()))
}

/// Returns the distribution-free 95 % interval of the median of ascending samples.
///
/// The number of samples below the true median is binomial(n, 1/2). The interval between the order statistics k and n+1-k
/// therefore covers it with probability 1 - 2·P(X < k) (Conover, "Practical Nonparametric Statistics", section 3.2).
/// With fewer than six samples no interval reaches 95 %, and the result is the whole range.
fn median_interval(sorted: &[f64]) -> (f64, f64) {
    let n = sorted.len();
    // ln of the binomial probabilities, so that thousands of samples do not underflow.
    let mut ln_p = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut k = 0;
    while k < n / 2 {
        below += ln_p.exp();
        if below > 0.025 {
            break;
        }
        ln_p += ((n - k) as f64).ln() - ((k + 1) as f64).ln();
        k += 1;
    }
    // P(X < k) <= 2.5 %: order statistic k (1-based), or the smallest when k is zero.
    let k = k.max(1);
    (sorted[k - 1], sorted[n - k])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_known_samples() {
        // Every stretch of time has large and small numbers: 37 is prime to 101, so that each occurs once.
        let samples: Vec<f64> = (0..101).map(|i| f64::from(i * 37 % 101 + 1)).collect();
        let s = Summary::of(&samples).expect("samples");
        assert_eq!(
            (s.median, s.q1, s.q3, s.min, s.max),
            (Nanos(51.0), Nanos(26.0), Nanos(76.0), Nanos(1.0), Nanos(101.0))
        );
        // Tables of the sign test give order statistics 41 and 61 for n = 101; the stretches' interval is wider.
        assert_eq!(median_interval(&(1..=101).map(f64::from).collect::<Vec<_>>()), (41.0, 61.0));
        assert!(s.low.0 <= 49.0 && s.high.0 >= 53.0 && s.low.0 > 26.0 && s.high.0 < 76.0, "{s:?}");
        assert!((s.spread - 50.0 / 51.0).abs() < 1e-12);
    }

    #[test]
    fn few_samples_give_the_whole_range() {
        let s = Summary::of(&[3.0, 1.0, 2.0]).expect("samples");
        assert_eq!((s.low, s.high), (Nanos(1.0), Nanos(3.0)));
        assert_eq!(s.precision(), f64::INFINITY, "which is no 95 % interval");
        let s = Summary::of(&[5.0, 1.0, 2.0, 3.0, 4.0, 6.0]).expect("samples");
        assert_eq!((s.low, s.high), (Nanos(1.0), Nanos(6.0)), "n = 6 is the first that reaches 95 %");
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn a_geometric_mean_is_of_what_has_a_logarithm() {
        let (mean, count) = geometric_mean([2.0, 8.0, 0.0, -1.0, f64::NAN, f64::INFINITY]).expect("two of them have");
        assert!((mean - 4.0).abs() < 1e-12 && count == 2, "{mean} of {count}");
        assert_eq!(geometric_mean([0.0]), None);
    }

    #[test]
    fn the_interval_covers_the_median_as_often_as_it_says() {
        // A fixed congruential generator replaces noise: skewed samples with a known median.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let (trials, median) = (2000, std::f64::consts::LN_2);
        let covered = (0..trials)
            .filter(|_| {
                let samples: Vec<f64> = (0..40).map(|_| -(1.0 - uniform()).ln()).collect();
                let s = Summary::of(&samples).expect("samples");
                s.low.0 <= median && median <= s.high.0
            })
            .count();
        assert!(covered as f64 / trials as f64 > 0.945, "{covered} of {trials}");
    }

    #[test]
    fn slow_drift_widens_the_interval() {
        let noise = |i: i32| f64::from(i * 37 % 101) / 101.0;
        let still: Vec<f64> = (0..400).map(|i| 100.0 + noise(i)).collect();
        let drifting: Vec<f64> = (0..400).map(|i| 100.0 + noise(i) + f64::from(i) / 50.0).collect();
        let width = |samples: &[f64]| Summary::of(samples).map_or(0.0, |s| s.high.0 - s.low.0);
        assert!(width(&still) < 0.5, "{}", width(&still));
        assert!(width(&drifting) > 6.0, "eight stretches tell of a drift of eight: {}", width(&drifting));
    }

    #[test]
    fn thousands_of_samples_do_not_underflow() {
        let sorted: Vec<f64> = (0..20_001).map(f64::from).collect();
        let (low, high) = median_interval(&sorted);
        // Normal approximation: ±0.98·√n.
        assert!((high - low - 2.0 * 0.98 * (20_001f64).sqrt()).abs() < 4.0, "{low} {high}");
    }
}
