//! One call: the waiting time of a host that submits an execution alone, on an idle device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::rounding;
use crate::record::stats::Summary;
use crate::units::Nanos;

/// A case called time and again, each time alone, on the host's clock, from beginning to record it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneCall {
    /// Until it is known to be done, in nanoseconds, to seven digits.
    #[serde(serialize_with = "rounding::of_times")]
    pub done: Vec<f64>,
    /// Until the first bytes of its result are in the host's memory. Not the same calls.
    #[serde(serialize_with = "rounding::of_times")]
    pub result: Vec<f64>,
}

impl OneCall {
    /// Summary of the times until the end is known.
    pub fn done(&self) -> Option<Summary> {
        Summary::of(&self.done)
    }

    /// Summary of the times until the first bytes of the result are on the host.
    pub fn result(&self) -> Option<Summary> {
        Summary::of(&self.result)
    }
}

/// Work of one length, called alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// Time for which it occupies the device.
    pub device: Nanos,
    /// From beginning to record it until it is known to be done.
    pub done: Summary,
}

/// A step of the waiting time: slightly longer work completes much later for the host, because the API polls rarely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompletionStep {
    /// The longest work with early completion.
    pub within: Nanos,
    /// Completion time of that work.
    pub soon: Nanos,
    /// The shortest work with late completion.
    pub beyond: Nanos,
    /// Completion time of that work: the earliest of the late ones.
    pub late: Nanos,
}

/// Smallest step that is reported.
const SMALLEST: Nanos = Nanos(200e3);
/// Smallest ratio of a step to the readings' own spread.
const CLEAR: f64 = 3.0;

/// Returns the largest step in a sweep over lengths of work, if one is significant. The step is the additional completion time
/// that the additional length does not explain.
pub fn completion_step(sweep: &[Waited]) -> Option<CompletionStep> {
    let jump = |pair: &[Waited]| (pair[1].done.median - pair[0].done.median) - (pair[1].device - pair[0].device);
    let largest = sweep.windows(2).max_by(|a, b| jump(a).0.total_cmp(&jump(b).0))?;
    let spread = |waited: &Waited| waited.done.q3.0 - waited.done.q1.0;
    let noise = largest.iter().map(spread).fold(0.0, f64::max);
    (jump(largest).0 > SMALLEST.0.max(CLEAR * noise)).then(|| CompletionStep {
        within: largest[0].device,
        soon: largest[0].done.median,
        beyond: largest[1].device,
        late: largest[1].done.median,
    })
}

impl CompletionStep {
    /// Returns the step as one sentence.
    pub fn sentence(&self) -> String {
        let CompletionStep { within, soon, beyond, late } = self;
        match within.0 > 0.0 {
            true => format!("work of {within} is known to be done after {soon}, work of {beyond} only after {late}"),
            false => {
                format!("an empty submission is known to be done after {soon}, work of {beyond} only after {late}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(device: f64, done: [f64; 3]) -> Waited {
        Waited { device: Nanos(device), done: Summary::of(&done).expect("samples") }
    }

    /// Figures of a browser that polls once at about 0.1 ms and then 2.4 ms later.
    #[test]
    fn a_step_is_found_where_waiting_jumps_and_nowhere_else() {
        let sweep = [
            waited(0.0, [115e3, 120e3, 130e3]),
            waited(15e3, [140e3, 150e3, 160e3]),
            waited(60e3, [2.4e6, 2.5e6, 2.7e6]),
            waited(460e3, [2.5e6, 2.6e6, 2.8e6]),
            waited(5.5e6, [7.7e6, 8.0e6, 8.4e6]),
        ];
        let step = completion_step(&sweep).expect("a step");
        assert_eq!((step.within, step.beyond), (Nanos(15e3), Nanos(60e3)));
        let said = step.sentence();
        assert_eq!(said, "work of 15.0 µs is known to be done after 150 µs, work of 60.0 µs only after 2.50 ms");
        let at_once = completion_step(&[sweep[0], sweep[2]]).expect("a step").sentence();
        assert!(at_once.starts_with("an empty submission is known"), "{at_once}");

        let plain = |device: f64| waited(device, [device + 9e3, device + 10e3, device + 12e3]);
        assert_eq!(completion_step(&[0.0, 1e4, 1e5, 1e6, 1e7].map(plain)), None);
        let noisy = [waited(0.0, [1e5, 2e5, 1e6]), waited(1e5, [3e5, 1.2e6, 3e6])];
        assert_eq!(completion_step(&noisy), None, "within the spread");
        assert_eq!(completion_step(&[]), None);
    }
}
