//! Updates of an energy counter and integral of the power, from readings at short intervals.

use std::collections::VecDeque;
use std::time::Duration;

use parallax_schema::device::{EnergyReading, EnergySource};
use parallax_schema::units::Nanos;

/// Number of times between updates that are kept.
const KEPT: usize = 32;

/// Update of a counter.
#[derive(Debug, Clone, Copy)]
struct Update {
    at: Duration,
    joules: f64,
    integrated: f64,
}

/// Latest update of a counter, and the power so far.
#[derive(Debug, Default)]
pub struct Trail {
    /// Last reading of the counter.
    joules: Option<f64>,
    update: Option<Update>,
    /// Times between updates.
    steps: VecDeque<Duration>,
    /// Power up to its last sample, in joules.
    integral: f64,
    /// Last sample of the power: its time and watts.
    power: Option<(Duration, f64)>,
}

impl Trail {
    /// Takes a reading of the counter, and a sample of the power if there is one.
    pub fn take(&mut self, at: Duration, joules: f64, watts: Option<f64>) {
        if let Some(watts) = watts {
            if let Some((since, before)) = self.power {
                // The mean of both samples: the trapezoid rule.
                self.integral += (before + watts) / 2.0 * (at - since).as_secs_f64();
            }
            self.power = Some((at, watts));
        }
        if self.joules.is_some_and(|last| last != joules) {
            let since_sample = self.power.map_or(0.0, |(since, watts)| watts * (at - since).as_secs_f64());
            if let Some(last) = self.update {
                self.steps.push_back(at - last.at);
                if self.steps.len() > KEPT {
                    self.steps.pop_front();
                }
            }
            self.update = Some(Update { at, joules, integrated: self.integral + since_sample });
        }
        self.joules = Some(joules);
    }

    /// Returns the reading at the latest update; `None` before the first.
    pub fn reading(&self, source: EnergySource) -> Option<EnergyReading> {
        let update = self.update?;
        let nanos = |time: Duration| Nanos::from_secs(time.as_secs_f64());
        let mut steps: Vec<Duration> = self.steps.iter().copied().collect();
        steps.sort();
        Some(EnergyReading {
            source,
            joules: update.joules,
            at: nanos(update.at),
            step: nanos(steps.get(steps.len() / 2).copied().unwrap_or_default()),
            integrated: self.power.map(|_| update.integrated),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a counter with updates every `step` milliseconds for a second, every two milliseconds, at a power of watts by time.
    fn read(step: u64, watts: fn(f64) -> f64, sampled: bool) -> (Option<EnergyReading>, Option<EnergyReading>) {
        let mut trail = Trail::default();
        let (mut joules, mut shown) = (0.0, 1000.0);
        let mut half = None;
        for ms in 0..1000u64 {
            joules += watts(ms as f64 / 1e3) * 1e-3;
            if step > 0 && ms % step == step - 1 {
                shown = 1000.0 + joules;
            }
            if ms % 2 == 0 {
                let power = (sampled && ms % 20 == 0).then(|| watts(ms as f64 / 1e3));
                trail.take(Duration::from_millis(ms), shown, power);
            }
            if ms == 500 {
                half = trail.reading(EnergySource::Nvml);
            }
        }
        (half, trail.reading(EnergySource::Nvml))
    }

    #[test]
    fn power_between_updates_has_no_error_of_the_step() {
        for step in [20, 100, 250] {
            let (Some(half), Some(end)) = read(step, |_| 400.0, true) else { panic!("{step}: no update") };
            let over = (end.at - half.at).secs();
            let (watts, sampled) = ((end.joules - half.joules) / over, end.integrated.zip(half.integrated));
            assert!((watts - 400.0).abs() < 0.01 * 400.0, "{step}: {watts}");
            let sampled = sampled.map(|(end, half)| (end - half) / over).expect("samples");
            assert!((sampled - 400.0).abs() < 1e-6, "{step}: {sampled}");
            assert!((end.step.0 * 1e-6 - step as f64).abs() <= 2.0, "{}", end.step);
        }
    }

    #[test]
    fn a_rising_power_is_integrated() {
        let (half, end) = read(20, |seconds| 100.0 + 600.0 * seconds, true);
        let (half, end) = (half.expect("an update"), end.expect("an update"));
        let (counted, sampled) = (end.joules - half.joules, end.integrated.zip(half.integrated).map(|(a, b)| a - b));
        assert!((sampled.expect("samples") / counted - 1.0).abs() < 0.02, "{counted} {sampled:?}");
    }

    #[test]
    fn a_counter_without_updates_has_no_reading() {
        assert_eq!(read(0, |_| 400.0, true).1, None);
        assert_eq!(read(20, |_| 400.0, false).1.expect("updates").integrated, None);
        assert_eq!(Trail::default().reading(EnergySource::Nvml), None);
    }
}
