//! Steps in a series of logarithms: their places, and a bound on false alarms.
//!
//! # The test
//!
//! The null hypothesis is a level that is constant up to the resolution. A window of `n` values is split into
//! `a` values before and `b` after. The statistic is Student's
//!
//! ```text
//! T = (|difference of the means| - ln(1 + δ)) / sqrt(v · (1/a + 1/b)),   v with n - 2 degrees of freedom.
//! ```
//!
//! For normal values its maximum over the splits is the likelihood ratio of a step against none (Hawkins, JASA 72, 1977; Worsley, JASA
//! 74, 1979). `T` is compared with the quantile of Student's
//! distribution at the allowed alarms over the number of all tests: windows and splits of all series. Bonferroni's inequality then
//! bounds the rate of false alarms of a whole history, also for dependent series, as the cases of one run are.
//! The resolution is subtracted from the difference, so that `T` tests for a step larger than the resolution. This is the verdict of a
//! pair ([`crate::compare::verdict`]) at the confidence of a whole history.
//!
//! # The variance
//!
//! Student's distribution holds for independent normal values. Run medians are neither. `v` is therefore the largest of three estimates.
//!
//! - The first is the scatter around both means of the window.
//! - The second is the mean square error by the runs' own intervals. Values that agree by chance do not count as exact.
//! - The third is half the mean square of successive differences of the whole series, without the largest tenth (von Neumann, Ann. Math.
//!   Stat. 12, 1941). Steps hardly change it. It prevents alarms in calm windows of a restless series, as on a machine that alternates
//!   between two speeds.
//!
//! A machine's speed has a memory: neighbouring runs are alike. `v` is multiplied by `(1 + ρ) / (1 - ρ)`, the growth of the variance of
//! a mean for an autoregressive series. The mean square of differences over two runs is `1 + ρ` times that over one. One standard error
//! of `ρ`, `1 / √n`, is added, because an estimate that is too small costs more than one that is too large.
//!
//! # Disturbed runs
//!
//! A run beside other load may be slow by any amount, and one such run would shift the mean of five. Each value is therefore moved to
//! within three standard deviations of the median of its five neighbours, itself included. A median of five keeps steps at their places
//! (Tukey, "Exploratory Data Analysis", 1977), and passes over two disturbed runs in a row.
//!
//! A split of `a + b` values that keeps all large values on one side occurs by chance in 2 of C(a + b, a) orders, whatever their
//! distribution. Only splits where this is rarer than the allowed alarms of a series are tested. More series need longer histories.
//!
//! # The machine's part
//!
//! The same test is made once more with times over those of the reference kernel. Their noise is smaller where both share the machine's
//! speed. A step that is significant there alone counts if the times themselves moved too: by the verdict of the whole parts
//! before and after it, at 95 %.
//!
//! # The places
//!
//! Windows are seeded intervals (Kovács et al., Biometrika 110, 2023): the whole series, its halves, and so on. Each overlaps its
//! neighbours by half. So a step down soon after a step up hides neither. Of the windows with a significant
//! step, the narrowest is taken first, because it contains no other step (Baranowski, Chen and Fryzlewicz, JRSS B 81, 2019). The reference kernel of the same runs then makes the place exact ([`placed`]).

use std::cmp::Reverse;

use parallax_schema::record::stats::quantile;
use statrs::function::beta::beta_reg;

use crate::compare::verdict::Verdict;

/// Smallest number of runs on either side of a step.
///
/// Of five runs, a median passes over two that were disturbed. In ten runs, chance separates the five large values from the five small
/// ones in 2 of C(10, 5) = 252 orders. With fewer runs it does so in more than 1 %.
pub const FEWEST_RUNS: usize = 5;

/// Largest share of successive differences that steps and disturbed runs may cause.
const TRIMMED: f64 = 0.1;
/// Mean square of a standard normal variable without its largest tenth: (0.9 - 2 · 1.645 · φ(1.645)) / 0.9.
const TRIMMED_MEAN_SQUARE: f64 = 0.623;
/// Largest autocorrelation that is assumed. Above it, a series is a walk without a level.
const MOST_MEMORY: f64 = 0.9;
/// Distance from the median of its neighbours that a value may have, in standard deviations.
const REACH: f64 = 3.0;
/// Runs by which a disturbed run may hide the place of a step.
const NEARBY: usize = 2;
/// Half the width of a 95 % interval, in standard deviations of a normal variable.
pub(super) const DEVIATIONS: f64 = 1.96;

/// Sums over a series, for means and variances of any part of it at constant cost.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    /// Value that is subtracted from all, so that their second powers keep their digits.
    centre: f64,
    values: Vec<f64>,
    powers: Vec<f64>,
    errors: Vec<f64>,
    /// Variance of the whole series between neighbouring runs.
    restlessness: f64,
    /// Factor of the variance of a mean, by the memory of the series.
    memory: f64,
}

/// Difference between two neighbouring parts of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    /// Mean of the later part less that of the earlier one.
    pub difference: f64,
    /// Standard error of the difference.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub freedom: usize,
}

impl Shift {
    /// Returns the 95 % interval of the difference.
    pub fn interval(&self) -> (f64, f64) {
        let half = critical(0.05, self.freedom) * self.error;
        (self.difference - half, self.difference + half)
    }

    /// Returns the verdict on the ratio of both parts.
    pub fn verdict(&self, resolution: f64) -> Verdict {
        let (low, high) = self.interval();
        Verdict::of(low.exp(), high.exp(), resolution)
    }
}

impl Sums {
    /// Returns the sums of values with their standard errors.
    pub fn of(values: &[f64], errors: &[f64]) -> Sums {
        let restlessness = successive(values, 1).unwrap_or(0.0);
        let values = &calmed(values, errors, restlessness);
        let centre = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 };
        let from_centre = || values.iter().map(|value| value - centre);
        Sums {
            centre,
            values: running(from_centre()),
            powers: running(from_centre().map(|value| value * value)),
            errors: running(errors.iter().map(|error| error * error)),
            restlessness,
            memory: memory(values),
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values.len() - 1
    }

    /// Returns the mean of a part.
    pub fn mean(&self, from: usize, to: usize) -> f64 {
        self.centre + (self.values[to] - self.values[from]) / (to - from) as f64
    }

    /// Returns the sum of square distances from the mean of a part.
    fn scatter(&self, from: usize, to: usize) -> f64 {
        let sum = self.values[to] - self.values[from];
        (self.powers[to] - self.powers[from] - sum * sum / (to - from) as f64).max(0.0)
    }

    /// Returns the difference of the parts before and after a split.
    pub fn shift(&self, from: usize, split: usize, to: usize) -> Shift {
        let (before, after) = ((split - from) as f64, (to - split) as f64);
        let freedom = (to - from).saturating_sub(2).max(1);
        let around = (self.scatter(from, split) + self.scatter(split, to)) / freedom as f64;
        let own = (self.errors[to] - self.errors[from]) / (to - from) as f64;
        let variance = around.max(own).max(self.restlessness) * self.memory;
        Shift {
            difference: self.mean(split, to) - self.mean(from, split),
            error: (variance * (1.0 / before + 1.0 / after)).sqrt(),
            freedom,
        }
    }
}

/// Returns the sums of the first values, for each number of them.
fn running(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let sum = |total: &mut f64, value: f64| {
        *total += value;
        Some(*total)
    };
    std::iter::once(0.0).chain(values.scan(0.0, sum)).collect()
}

/// Returns the factor by which the memory of a series widens the variance of a mean.
fn memory(values: &[f64]) -> f64 {
    let alike = match (successive(values, 1), successive(values, 2)) {
        (Some(one), Some(two)) if one > 0.0 => two / one - 1.0,
        _ => 0.0,
    };
    let alike = (alike.max(0.0) + 1.0 / (values.len().max(1) as f64).sqrt()).min(MOST_MEMORY);
    (1.0 + alike) / (1.0 - alike)
}

/// Returns the values, each moved to within [`REACH`] of the median of its neighbours.
fn calmed(values: &[f64], errors: &[f64], restlessness: f64) -> Vec<f64> {
    let calm = |(i, (value, error)): (usize, (&f64, &f64))| {
        let mut near: Vec<f64> = values[i.saturating_sub(2)..(i + 3).min(values.len())].to_vec();
        near.sort_by(f64::total_cmp);
        let reach = REACH * restlessness.sqrt().max(*error);
        value.clamp(quantile(&near, 0.5) - reach, quantile(&near, 0.5) + reach)
    };
    values.iter().zip(errors).enumerate().map(calm).collect()
}

/// Returns half the mean square of differences over `apart` places, without the largest tenth. `None` without differences.
fn successive(values: &[f64], apart: usize) -> Option<f64> {
    let mut distances: Vec<f64> = values.iter().zip(values.iter().skip(apart)).map(|(a, b)| (b - a).powi(2)).collect();
    distances.sort_by(f64::total_cmp);
    let kept = distances.len() - (distances.len() as f64 * TRIMMED).ceil() as usize;
    let kept = distances.get(..kept).filter(|kept| !kept.is_empty())?;
    Some(kept.iter().sum::<f64>() / kept.len() as f64 / 2.0 / TRIMMED_MEAN_SQUARE)
}

/// Window of a series, with its number of splits.
type Window = (usize, usize);

/// Returns the seeded intervals of a series, widest first.
fn windows(length: usize) -> Vec<Window> {
    let mut all = Vec::new();
    let mut width = length;
    while width >= 2 * FEWEST_RUNS {
        let step = (width / 2).max(1);
        let mut from = 0;
        while from + width < length {
            all.push((from, from + width));
            from += step;
        }
        // The last window ends with the series, so that the newest step is always in a window of each width.
        all.push((length - width, length));
        width = width.div_ceil(2).min(width - 1);
    }
    all
}

/// Returns the number of tests of a series of this length.
pub(super) fn tests(length: usize) -> usize {
    windows(length).iter().map(|(from, to)| to - from - 2 * FEWEST_RUNS + 1).sum()
}

/// Returns the value that the absolute value of a variable of Student's distribution exceeds with this probability.
pub(crate) fn critical(probability: f64, freedom: usize) -> f64 {
    let freedom = freedom as f64;
    // Abramowitz and Stegun, 26.7.1 and 26.5.27.
    let exceeds = |t: f64| beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t));
    let (mut low, mut high) = (0.0, 2.0);
    while exceeds(high) > probability && high < 1e12 {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if exceeds(middle) > probability { low = middle } else { high = middle }
    }
    high
}

/// Allowed false alarms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Alarms {
    /// Probability of an alarm in one series.
    pub series: f64,
    /// Probability of an alarm in one test.
    pub test: f64,
}

impl Alarms {
    /// Returns the alarms of series of these lengths, of which any may have a step.
    pub fn of(total: f64, lengths: &[usize]) -> Alarms {
        let series = lengths.iter().filter(|length| **length >= 2 * FEWEST_RUNS).count().max(1);
        let tests: usize = lengths.iter().map(|length| tests(*length)).sum();
        // Each series is tested as it is, and without the machine's part.
        Alarms { series: total / series as f64, test: total / (2 * tests).max(1) as f64 }
    }

    /// Returns the smallest number of values on either side of a split of a window; `None` for a window that is too narrow.
    pub fn fewest(self, width: usize) -> Option<usize> {
        let mut orders = 1.0;
        // C(n, a) = C(n, a - 1) · (n - a + 1) / a.
        let enough = |side: &usize| {
            orders *= (width - side + 1) as f64 / *side as f64;
            *side >= FEWEST_RUNS && 2.0 / orders <= self.series
        };
        (1..=width / 2).find(enough)
    }
}

/// Series of logarithms, and the same without the machine's part: less the logarithms of the reference kernel of the same runs.
pub(super) struct Tested<'s> {
    /// Times as measured.
    pub whole: &'s Sums,
    /// Times over the reference kernel's; `None` if a run has none.
    pub without_machine: Option<&'s Sums>,
}

/// Returns the places of the steps of a series, ascending: positions of the first value after each.
pub(super) fn steps(tested: &Tested, resolution: f64, alarms: Alarms) -> Vec<usize> {
    let mut found = search(tested.whole, resolution, alarms);
    found.extend(tested.without_machine.into_iter().flat_map(|sums| search(sums, resolution, alarms)));
    found.sort_by_key(|step| (step.to - step.from, Reverse(step.statistic.to_bits())));
    let mut places: Vec<usize> = Vec::new();
    for Step { from, split, to, .. } in found {
        let apart = |place: &usize| place.abs_diff(split) >= FEWEST_RUNS;
        if places.iter().all(|place| (*place <= from || *place >= to) && apart(place)) {
            places.push(split);
        }
    }
    places.sort_unstable();
    let places = certain(tested.whole, places, resolution);
    tested.without_machine.map_or_else(|| places.clone(), |sums| placed(&places, tested.whole, sums))
}

/// Significant step in a window.
struct Step {
    from: usize,
    split: usize,
    to: usize,
    statistic: f64,
}

/// Returns the most significant step of each window that has one.
fn search(sums: &Sums, resolution: f64, alarms: Alarms) -> Vec<Step> {
    let mut found = Vec::new();
    let (mut width, mut fewest, mut limit) = (0, None, f64::INFINITY);
    for (from, to) in windows(sums.len()) {
        if to - from != width {
            width = to - from;
            (fewest, limit) = (alarms.fewest(width), critical(alarms.test, width - 2));
        }
        let Some(fewest) = fewest else { continue };
        let splits = from + fewest..=to - fewest;
        let tested = splits.map(|split| (split, statistic(&sums.shift(from, split, to), resolution)));
        let largest = tested.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, statistic)| *statistic > limit);
        found.extend(largest.map(|(split, statistic)| Step { from, split, to, statistic }));
    }
    found
}

fn statistic(shift: &Shift, resolution: f64) -> f64 {
    let beyond = shift.difference.abs() - resolution.ln_1p();
    match shift.error > 0.0 {
        true => beyond / shift.error,
        false if beyond > 0.0 => f64::MAX,
        false => f64::MIN,
    }
}

/// Removes steps until each is outside the resolution with the whole parts on either side, the least significant first.
fn certain(sums: &Sums, mut places: Vec<usize>, resolution: f64) -> Vec<usize> {
    loop {
        let shifts = parts(&places, sums.len()).into_iter().map(|(from, split, to)| sums.shift(from, split, to));
        let doubtful = |shift: &Shift| !matches!(shift.verdict(resolution), Verdict::Faster | Verdict::Slower);
        let weakest = shifts
            .enumerate()
            .filter(|(_, shift)| doubtful(shift))
            .min_by(|(_, a), (_, b)| statistic(a, resolution).total_cmp(&statistic(b, resolution)));
        let Some((weakest, _)) = weakest else { return places };
        places.remove(weakest);
    }
}

/// Returns the places, each moved by at most two runs to where the difference is most significant in the same series without the
/// machine's part. A disturbed run beside a step would else hide its place. A step that is not in that series stays.
fn placed(places: &[usize], sums: &Sums, without_machine: &Sums) -> Vec<usize> {
    if without_machine.restlessness >= sums.restlessness {
        return places.to_vec();
    }
    let place = |(from, split, to): (usize, usize, usize)| {
        let own = |at: usize| without_machine.shift(from, at, to).difference;
        if own(split).abs() < sums.shift(from, split, to).difference.abs() / 2.0 {
            return split;
        }
        let weight = |at: usize| own(at).powi(2) * ((at - from) * (to - at)) as f64;
        let near = (split - NEARBY).max(from + FEWEST_RUNS)..=(split + NEARBY).min(to - FEWEST_RUNS);
        near.max_by(|a, b| weight(*a).total_cmp(&weight(*b))).unwrap_or(split)
    };
    parts(places, sums.len()).into_iter().map(place).collect()
}

/// Returns each step with the beginning of the part before it and the end of the part after it.
pub(super) fn parts(places: &[usize], length: usize) -> Vec<(usize, usize, usize)> {
    let place = |i: usize| places.get(i).copied().unwrap_or(length);
    let before = |i: usize| i.checked_sub(1).map_or(0, place);
    (0..places.len()).map(|i| (before(i), place(i), place(i + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (probability, freedom, want) in
            [(0.05, 10, 2.228), (0.001, 5, 6.869), (0.001, 30, 3.646), (0.05, 1, 12.706), (0.01, 100_000, 2.576)]
        {
            let got = critical(probability, freedom);
            assert!((got - want).abs() < 5e-4 * want, "{probability} {freedom}: {got}");
        }
    }

    #[test]
    fn windows_cover_a_series_and_each_width_reaches_its_end() {
        for length in [0, 9, 10, 11, 37, 1000] {
            let all = windows(length);
            assert_eq!(all.first(), (length >= 10).then_some(&(0, length)), "{length}");
            let widths: std::collections::BTreeSet<usize> = all.iter().map(|(from, to)| to - from).collect();
            for width in widths {
                let of_width: Vec<&Window> = all.iter().filter(|(from, to)| to - from == width).collect();
                assert_eq!((of_width[0].0, of_width[of_width.len() - 1].1), (0, length));
                assert!(of_width.windows(2).all(|pair| pair[1].0 <= pair[0].0 + width / 2), "{length} {width}");
            }
            assert!(tests(length) <= 4 * length * (length.max(2).ilog2() as usize), "{length}: {}", tests(length));
        }
    }

    #[test]
    fn more_series_need_more_runs_on_a_side() {
        let of = |series: usize, width: usize| Alarms::of(0.01, &vec![width; series]).fewest(width);
        for (series, width, want) in [
            (1, 9, None),
            (1, 10, Some(5)),
            (20, 10, None),
            (20, 16, Some(5)),
            (20, 14, None),
            (20, 15, Some(6)),
            (300, 20, Some(7)),
        ] {
            assert_eq!(of(series, width), want, "{series} series of {width}");
        }
    }

    #[test]
    fn a_step_is_found_beside_disturbed_runs_and_those_are_none() {
        let alarms = Alarms::of(0.01, &[30]);
        let noise = |i: usize| f64::from((i * 37 % 29) as u32) / 29.0 * 0.01;
        let found = |of: &dyn Fn(usize) -> f64| {
            let values: Vec<f64> = (0..30).map(|i| noise(i) + of(i)).collect();
            let sums = Sums::of(&values, &[0.001; 30]);
            steps(&Tested { whole: &sums, without_machine: None }, 0.01, alarms)
        };
        let up = |i: usize, from: usize, by: f64| if i >= from { by } else { 0.0 };
        for (name, values, want) in [
            ("nothing", &(|_| 0.0) as &dyn Fn(usize) -> f64, vec![]),
            ("a step", &|i| up(i, 18, 0.05), vec![18]),
            ("a large step before the last five", &|i| up(i, 25, 0.7), vec![25]),
            ("a step before the last four", &|i| up(i, 26, 0.7), vec![]),
            ("two disturbed runs at the end", &|i| up(i, 28, 0.5), vec![]),
            ("a step with a disturbed run", &|i| up(i, 18, 0.05) + if i == 5 { 0.4 } else { 0.0 }, vec![18]),
            ("a step up and down", &|i| up(i, 10, 0.1) - up(i, 20, 0.1), vec![10, 20]),
            ("less than the resolution", &|i| up(i, 15, 0.009), vec![]),
        ] {
            assert_eq!(found(values), want, "{name}");
        }
    }
}
