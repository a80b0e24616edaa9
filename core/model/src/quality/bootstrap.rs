//! Intervals of measures by resampling.

use parallax_ir::{Draw, splitmix64};

/// Returns the 95 % percentile interval of a measure over `items` items, from `rounds` resamples with replacement.
///
/// The measure gets positions of items, and returns none where a resample has no value: such resamples are left out. Formula: Efron,
/// "Bootstrap Methods" (1979). Returns none if no resample has a value.
pub fn bootstrap(
    items: usize,
    rounds: usize,
    seed: u64,
    measure: impl Fn(&[usize]) -> Option<f64>,
) -> Option<(f64, f64)> {
    let mut sample = vec![0; items];
    let mut values = Vec::new();
    for round in 0..rounds {
        let stream = splitmix64(seed ^ splitmix64(round as u64 + 1));
        for (slot, index) in sample.iter_mut().zip(0..) {
            *slot = Draw::new(stream, index).below(items as u64) as usize;
        }
        values.extend(measure(&sample));
    }
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get((share * (values.len() - 1) as f64).round() as usize).copied();
    match values.is_empty() {
        true => None,
        false => Some((at(0.025)?, at(0.975)?)),
    }
}
