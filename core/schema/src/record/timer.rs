//! Results of the self-test of clocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::stats::Summary;
use crate::record::{Waited, completion_step};
use crate::units::{Nanos, percent};

/// Results of the self-test. The clock's step and the share of empty and backward stamps are in the run's clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TimerTest {
    /// Submitting nothing until it is known to be done, on the host clock.
    pub completion: Option<Summary>,
    /// Period at which the host looks for completed work, if it is long: an empty submission after a pause is known sooner by the
    /// pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_period: Option<Nanos>,
    /// Bringing a few bytes back to the host, on the host clock.
    pub readback: Option<Summary>,
    /// Work of rising length, each called alone: when it is known to be done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Waited>,
    /// The device's clock compared with the host's on a long kernel.
    pub cross_check: Option<CrossCheck>,
    /// Why the device's clock is not believed, if it is not.
    pub demoted: Option<String>,
}

/// Two clocks on the same work: the difference of a long and a short batch, which is free of any fixed cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossCheck {
    /// On the device's clock.
    pub device: Nanos,
    /// On the host's clock.
    pub host: Nanos,
    /// How far the two may be apart, given the steps of both and the jitter of completion.
    pub allowed: Nanos,
}

/// Returns the self-test in one line, with the error that clocks add to a figure.
pub fn sentence(test: &TimerTest) -> String {
    let mut parts = Vec::new();
    // A host that computes by itself submits no work, and waits for none.
    if let Some(c) = test.completion.filter(|c| c.median.0 > 0.0) {
        parts.push(format!("waiting for an empty submission takes {}", c.median));
    }
    if let Some(period) = test.completion_period {
        parts.push(format!("completed work is looked for every {period}"));
    }
    if let Some(r) = test.readback {
        parts.push(format!("reading a few bytes back takes {}", r.median));
    }
    if let Some(step) = completion_step(&test.waits) {
        parts.push(step.sentence());
    }
    if let (Some(check), None) = (test.cross_check, &test.demoted) {
        let apart = (check.device.0 - check.host.0).abs() / check.host.0.abs().max(1.0);
        parts.push(format!("device and host clock agree within {}", percent(apart)));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_self_test_is_told_as_far_as_there_is_something_to_tell() {
        let takes = |time: f64| Summary::of(&[time; 9]);
        let check = CrossCheck { device: Nanos(1001.0), host: Nanos(1000.0), allowed: Nanos(9.0) };
        for (completion, cross_check, want) in [
            (
                takes(1400.0),
                Some(check),
                "waiting for an empty submission takes 1.40 µs; reading a few bytes back takes 7.00 µs; device and host \
                 clock agree within 0.10 %",
            ),
            (takes(0.0), None, "reading a few bytes back takes 7.00 µs"),
            (None, None, "reading a few bytes back takes 7.00 µs"),
        ] {
            let test = TimerTest { completion, readback: takes(7000.0), cross_check, ..TimerTest::default() };
            assert_eq!(sentence(&test), want);
        }
        assert_eq!(sentence(&TimerTest::default()), "");
    }
}
