//! The energy counter of a mock: scripted power, and updates at a step.

use std::cell::Cell;

use parallax_schema::device::{EnergyReading, EnergySource};
use parallax_schema::units::Nanos;

/// Scripted properties of an energy counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counter {
    /// Power at rest, in watts.
    pub idle: f64,
    /// Power during executions, in watts.
    pub busy: f64,
    /// Time between two updates in nanoseconds.
    pub step: f64,
    /// Time in nanoseconds at which the counter stops.
    pub stops: f64,
    /// Power samples as a multiple of the true power; `None` for a board without them.
    pub sampled: Option<f64>,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter { idle: 70.0, busy: 500.0, step: 20e6, stops: f64::INFINITY, sampled: Some(1.0) }
    }
}

/// Device time so far, and the share of it in the latest submission.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    nanos: Cell<f64>,
    share: Cell<f64>,
}

impl Busy {
    /// Records a submission of `device` nanoseconds of executions in `host` nanoseconds.
    pub(crate) fn submitted(&self, device: f64, host: f64) {
        self.nanos.set(self.nanos.get() + device);
        self.share.set(device / host);
    }

    /// Records rest.
    pub(crate) fn rested(&self) {
        self.share.set(0.0);
    }

    /// Returns the reading of a counter at a time.
    pub(crate) fn reading(&self, counter: Counter, now: f64) -> EnergyReading {
        let now = now.min(counter.stops);
        let above = counter.busy - counter.idle;
        let at = (now / counter.step).floor() * counter.step;
        let since = (now - at) * (counter.idle + above * self.share.get());
        // A counter that stopped has one value ever after.
        let joules = match now < counter.stops {
            true => (counter.idle * now + above * self.nanos.get() - since) * 1e-9,
            false => 1.0,
        };
        EnergyReading {
            source: EnergySource::Nvml,
            joules,
            at: Nanos(at),
            step: Nanos(counter.step),
            integrated: counter.sampled.map(|share| share * joules),
        }
    }
}
