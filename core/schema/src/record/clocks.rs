//! Clocks of the device while it executed the samples of a case.

use super::timing::Timing;
use crate::device::Conditions;

/// Begin of the reason for which a sample with reduced clocks is discarded.
pub const THROTTLED: &str = "throttled: ";

/// Clocks and power after the samples of a case. Sensors that a device lacks are absent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clocks {
    /// Clock of the multiprocessors, in MHz.
    pub sm_mhz: Option<Range>,
    /// Clock of the device memory, in MHz.
    pub memory_mhz: Option<Range>,
    /// Power of the board, in watts.
    pub power_w: Option<Range>,
    /// Share of all samples, discarded ones included, after which the driver had reasons for reduced clocks.
    pub throttled: f64,
}

/// Range of a sensor's readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Lowest reading.
    pub low: f64,
    /// Median reading; of an even number, the lower one.
    pub median: f64,
    /// Highest reading.
    pub high: f64,
}

impl Range {
    fn of(readings: impl Iterator<Item = f64>) -> Option<Range> {
        let mut sorted: Vec<f64> = readings.collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        Some(Range { low, median: sorted[(sorted.len() - 1) / 2], high })
    }
}

impl Timing {
    /// Returns the clocks after the samples; `None` without sensors.
    pub fn clocks(&self) -> Option<Clocks> {
        let of = |reading: fn(&Conditions) -> Option<f64>| Range::of(self.conditions.iter().filter_map(reading));
        let slowed = self.conditions.iter().filter(|conditions| !conditions.throttle.is_empty()).count();
        let discarded = self.discarded.iter().filter(|discarded| discarded.reason.starts_with(THROTTLED)).count();
        let clocks = Clocks {
            sm_mhz: of(|conditions| conditions.sm_clock_mhz),
            memory_mhz: of(|conditions| conditions.memory_clock_mhz),
            power_w: of(|conditions| conditions.power_w),
            throttled: (slowed + discarded) as f64 / (self.samples.len() + self.discarded.len()).max(1) as f64,
        };
        let known = [clocks.sm_mhz, clocks.memory_mhz, clocks.power_w].iter().any(Option::is_some);
        known.then_some(clocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Discarded;
    use crate::testing::{spread, timing};

    #[test]
    fn clocks_are_those_after_the_samples() {
        let mut timing = timing(&spread(100.0, 0.01, 4));
        assert_eq!(timing.clocks(), None);
        let at = |mhz: f64, throttle: &[&str]| Conditions {
            sm_clock_mhz: Some(mhz),
            throttle: throttle.iter().map(|reason| (*reason).to_owned()).collect(),
            ..Conditions::default()
        };
        timing.conditions =
            vec![at(1980.0, &[]), at(1410.0, &["sw power cap"]), at(1755.0, &[]), Conditions::default()];
        timing.discarded = vec![Discarded { time: 1.0, reason: format!("{THROTTLED}hw slowdown") }];
        let clocks = timing.clocks().expect("a sensor");
        assert_eq!(clocks.sm_mhz, Some(Range { low: 1410.0, median: 1755.0, high: 1980.0 }));
        assert_eq!((clocks.memory_mhz, clocks.power_w, clocks.throttled), (None, None, 0.4));
    }
}
