//! Intervals of measures by resampling.

use parallax_ir::{Draw, splitmix64};
use parallax_schema::record::stats::quantile;

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
    (!values.is_empty()).then(|| (quantile(&values, 0.025), quantile(&values, 0.975)))
}
