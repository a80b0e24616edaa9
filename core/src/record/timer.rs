//! What the self-test of clocks found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::stats::Summary;
use crate::units::{Nanos, percent};

/// What the self-test found. The clock's step and the share of empty and backward stamps are in the run's clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TimerTest {
    /// Submitting nothing until it is known to be done, on the host clock.
    pub completion: Option<Summary>,
    /// Bringing a few bytes back to the host, on the host clock.
    pub readback: Option<Summary>,
    /// The device's clock held against the host's on a long kernel.
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

/// The self-test in one line, with the error that clocks put on a figure.
pub fn sentence(test: &TimerTest) -> String {
    let mut parts = Vec::new();
    if let Some(c) = test.completion {
        parts.push(format!("an empty submission is known to be done after {}", c.median));
    }
    if let Some(r) = test.readback {
        parts.push(format!("a few bytes are read back in {}", r.median));
    }
    if let (Some(check), None) = (test.cross_check, &test.demoted) {
        let apart = (check.device.0 - check.host.0).abs() / check.host.0.abs().max(1.0);
        parts.push(format!("device and host clock agree within {}", percent(apart)));
    }
    parts.join("; ")
}
