//! Tests for outliers among cards, and for disturbed runs of one card.
//!
//! # Levels
//!
//! The null hypothesis is that the levels of all cards have one normal distribution. Up to a fifth of the cards may be outliers, on
//! either side. The test is the generalised extreme Studentised deviate (Rosner, Technometrics 25, 1983). The card that is farthest
//! from the mean is removed, again and again. Each distance over the standard deviation of the rest is compared with its critical
//! value. The largest number of removed cards whose last distance exceeds it are outliers. So outliers do not hide each other.
//!
//! An outlier also has to be beyond the resolution of a comparison. A difference that equal runs could have does not count, however
//! alike the other cards are.
//!
//! # Runs
//!
//! A card that is slow at times has slow runs, beside a usual level. A run is slow if it exceeds the level of its card by the
//! resolution and four standard deviations of the runs of all cards. Other load causes slow runs on any card. The number of slow runs
//! of a card is compared with the binomial distribution, at the rate of the other cards. An improbable number, as in one fleet of a
//! hundred, makes the card unsteady. The same is tested for larger excesses, up to eight times as large.

use statrs::function::beta::beta_reg;

use super::groups::median;
use crate::history::critical;

/// Smallest number of cards with a level for a test. With fewer, one outlier decides the standard deviation.
pub const FEWEST_CARDS: usize = 6;
/// Largest rate of false alarms of a whole fleet, for the levels and for the runs alike.
const ALARMS: f64 = 0.01;
/// Largest share of cards that are outliers.
const MOST: f64 = 0.2;
/// Standard deviations by which a slow run exceeds the level of its card.
const SLOW: f64 = 4.0;
/// Median absolute deviation of a standard normal variable, inverted.
const DEVIATIONS_OF_MAD: f64 = 1.4826;
/// Limits of slow runs, as factors of the smallest one. Large disturbances are rarer than small ones, so that fewer of them are
/// improbable.
const LIMITS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Smallest number of slow runs of an unsteady card.
const FEWEST_SLOW: usize = 2;

/// Outlier among values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outlier {
    /// Position of the value.
    pub position: usize,
    /// Its distance from the mean of the values that are no outliers.
    pub distance: f64,
    /// Standard deviation of these.
    pub deviation: f64,
}

/// Returns the outliers among values of which `tests` sets are tested together.
pub(super) fn outliers(values: &[f64], tests: usize) -> Vec<Outlier> {
    let count = values.len();
    if count < FEWEST_CARDS {
        return Vec::new();
    }
    let alarms = ALARMS / tests.max(1) as f64;
    let most = ((count as f64 * MOST) as usize).max(1);
    let mut rest: Vec<usize> = (0..count).collect();
    let mut taken = Vec::new();
    let mut outliers = 0;
    for _ in 0..most {
        let (mean, deviation) = mean_and_deviation(rest.iter().map(|at| values[*at]));
        let distance = |at: usize| (values[at] - mean).abs();
        let (place, farthest) = rest
            .iter()
            .copied()
            .enumerate()
            .max_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))
            .expect("values are left");
        let statistic = if deviation > 0.0 { distance(farthest) / deviation } else { 0.0 };
        let limit = largest_distance(rest.len(), alarms);
        rest.swap_remove(place);
        taken.push(farthest);
        if statistic > limit {
            outliers = taken.len();
        }
    }
    let healthy = rest.iter().chain(&taken[outliers..]).map(|at| values[*at]);
    let (mean, deviation) = mean_and_deviation(healthy);
    taken[..outliers].iter().map(|at| Outlier { position: *at, distance: values[*at] - mean, deviation }).collect()
}

/// Returns the distance from the mean, in standard deviations, that the farthest of `count` normal values exceeds with this probability.
fn largest_distance(count: usize, probability: f64) -> f64 {
    let (n, freedom) = (count as f64, count - 2);
    let t = critical(probability / n, freedom);
    (n - 1.0) * t / ((freedom as f64 + t * t) * n).sqrt()
}

/// Returns the smallest distance above the other values that would be an outlier, where `found` are outliers already.
pub(super) fn detectable(values: &[f64], found: &[Outlier], tests: usize) -> f64 {
    let healthy = |(at, _): &(usize, &f64)| found.iter().all(|outlier| outlier.position != *at);
    let (_, deviation) = mean_and_deviation(values.iter().enumerate().filter(healthy).map(|(_, value)| *value));
    largest_distance(values.len(), ALARMS / tests.max(1) as f64) * deviation
}

fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let scatter: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, (scatter / (count - 1.0).max(1.0)).sqrt())
}

/// Returns the cards of which improbably many runs are slow, each with the number of these, and the excess of the median slow run.
/// `runs` has the distances of each card's runs from its level.
pub(super) fn unsteady(runs: &[Vec<f64>], resolution: f64) -> Vec<(usize, usize, f64)> {
    let all: Vec<f64> = runs.iter().filter(|runs| runs.len() > 2).flatten().map(|distance| distance.abs()).collect();
    let Some(spread) = median(all) else { return Vec::new() };
    let least = resolution.ln_1p() + SLOW * DEVIATIONS_OF_MAD * spread;
    let mut found: Vec<(usize, usize, f64)> = Vec::new();
    for limit in LIMITS.map(|factor| factor * least) {
        for card in beyond(runs, limit, ALARMS / LIMITS.len() as f64) {
            if found.iter().all(|(known, ..)| *known != card) {
                let slow: Vec<f64> = runs[card].iter().copied().filter(|distance| *distance > least).collect();
                found.push((card, slow.len(), median(slow).unwrap_or(0.0)));
            }
        }
    }
    found.sort_by_key(|(card, ..)| *card);
    found
}

/// Returns the cards with improbably many runs beyond a limit.
fn beyond(runs: &[Vec<f64>], limit: f64, alarms: f64) -> Vec<usize> {
    let slow: Vec<usize> = runs.iter().map(|runs| runs.iter().filter(|distance| **distance > limit).count()).collect();
    let (total, total_slow) = (runs.iter().map(Vec::len).sum::<usize>(), slow.iter().sum::<usize>());
    let improbable = |card: &usize| {
        let (of_card, slow) = (runs[*card].len(), slow[*card]);
        let others = (total - of_card).max(1) as f64;
        // Without a slow run elsewhere, one in three times as many would still be likely.
        let rate = ((total_slow - slow) as f64).max(1.0 / 3.0) / others;
        slow >= FEWEST_SLOW && at_least(slow, of_card, rate.min(1.0)) < alarms / runs.len() as f64
    };
    (0..runs.len()).filter(improbable).collect()
}

/// Returns the probability of `count` or more successes in `tries` tries with this rate.
fn at_least(count: usize, tries: usize, rate: f64) -> f64 {
    match count {
        0 => 1.0,
        count if count > tries => 0.0,
        count => beta_reg(count as f64, (tries - count + 1) as f64, rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Random;

    #[test]
    fn critical_distances_are_those_of_tables() {
        // Grubbs' test, two-sided: NIST/SEMATECH e-Handbook, section 1.3.5.17, at 5 %.
        for (count, want) in [(8, 2.1266), (10, 2.2900), (20, 2.7082), (100, 3.3841)] {
            let found = largest_distance(count, 0.05);
            assert!((found - want).abs() < 2e-3, "{count}: {found}");
        }
    }

    #[test]
    fn outliers_are_found_though_they_are_several() {
        let mut random = Random(7);
        let mut values: Vec<f64> = (0..40).map(|_| 0.003 * random.normal()).collect();
        for (at, value) in [(3, 0.04), (17, 0.05), (39, -0.06)] {
            values[at] = value;
        }
        let mut places: Vec<usize> = outliers(&values, 10).iter().map(|outlier| outlier.position).collect();
        places.sort_unstable();
        assert_eq!(places, [3, 17, 39]);
        assert!(outliers(&values[..5], 1).is_empty(), "too few");
        assert!(outliers(&[1.0; 20], 1).is_empty(), "all alike");
    }

    #[test]
    fn equal_cards_give_few_alarms() {
        let mut random = Random(11);
        for count in [6, 8, 20, 100] {
            let alarms = (0..1000)
                .filter(|_| !outliers(&(0..count).map(|_| random.normal()).collect::<Vec<f64>>(), 1).is_empty());
            let alarms = alarms.count();
            // Ten are expected, with a standard deviation of three.
            assert!(alarms <= 20, "{alarms} of 1000 fleets of {count} cards");
        }
    }

    #[test]
    fn a_card_with_many_slow_runs_is_unsteady_and_chance_is_not() {
        let mut random = Random(5);
        let mut runs: Vec<Vec<f64>> = (0..50).map(|_| (0..20).map(|_| 0.002 * random.normal()).collect()).collect();
        for card in [4, 9, 33] {
            runs[card][7] = 0.2;
        }
        assert_eq!(unsteady(&runs, 0.01), []);
        (0..6).for_each(|run| runs[12][3 * run] = 0.08);
        let found = unsteady(&runs, 0.01);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].0, found[0].1), (12, 6));
        assert!((found[0].2 - 0.08).abs() < 1e-12);
    }

    #[test]
    fn tails_of_the_binomial_distribution_are_exact() {
        assert_eq!((at_least(0, 5, 0.1), at_least(6, 5, 0.1)), (1.0, 0.0));
        assert!((at_least(2, 3, 0.5) - 0.5).abs() < 1e-12 && (at_least(1, 2, 0.1) - 0.19).abs() < 1e-12);
    }
}
