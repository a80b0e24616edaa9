//! Samples of a case, and the figures derived from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::columnar::Columns;
use crate::device::{Conditions, Launching, columnar, rounding};
use crate::record::stats::Summary;
use crate::spec::Cache;
use crate::units::Nanos;

/// Host, device and processor time of a stretch of work.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spent {
    /// Wall time.
    pub wall: Nanos,
    /// Of it, from handing work to the device, launches, fills and copies back, until it was known to be done.
    pub waiting: Nanos,
    /// Of it, timed kernels on the run's clock.
    pub device: Nanos,
    /// Time of this process on processors, where it can be known.
    pub cpu: Option<Nanos>,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.wall += other.wall;
        self.waiting += other.waiting;
        self.device += other.device;
        self.cpu = match (self.cpu, other.cpu) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

/// How a sample becomes the time of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Time of a batch over its executions.
    #[default]
    Batch,
    /// Time of a long batch less that of a short one, over the difference of their executions: for a clock that also
    /// sees the fixed cost of each submission.
    Slope,
}

/// One execution's time in two launch modes, whose batches alternated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Relaunched {
    /// The other mode.
    pub launch: Launching,
    /// In the usual mode, for these batches.
    pub as_usual: Summary,
    /// In the other mode.
    pub summary: Summary,
}

/// Samples with their summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// How samples came about.
    #[serde(default)]
    pub method: Method,
    /// Whether data was found in caches.
    #[serde(default)]
    pub cache: Cache,
    /// How stages reached the device; absent where it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launching>,
    /// The same stages launched in a way that may cost less, side by side; only where launching binds, and it was asked
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relaunched: Option<Relaunched>,
    /// Copies of all buffers that executions went around.
    #[serde(default = "one")]
    pub sets: u32,
    /// Executions in one sample, back to back in one submission.
    pub repeats: u32,
    /// Executions before each sample, untimed, in the same submission.
    #[serde(default)]
    pub lead: u32,
    /// Time of one execution in each sample on the run's clock, in nanoseconds, to seven digits.
    #[serde(serialize_with = "rounding::of_times")]
    pub samples: Vec<f64>,
    /// The same on the host clock, from submission to completion, divided by the executions, the lead's included.
    #[serde(serialize_with = "rounding::of_times")]
    pub host_samples: Vec<f64>,
    /// Readings of the sensors after each sample; empty where there are none.
    #[serde(default, with = "columnar", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Columns")]
    pub conditions: Vec<Conditions>,
    /// Samples that do not count, and why.
    #[serde(default, alias = "set_aside", with = "columnar", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Columns")]
    pub discarded: Vec<Discarded>,
    /// Remark on these samples, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Costs from submissions of k and of m executions.
    #[serde(default)]
    pub slope: Option<Slope>,
    /// Error that the clock's step puts on one sample, as a share of it.
    #[serde(default)]
    pub clock_error: f64,
    /// Samples thrown away while warming up.
    pub warm_up: u32,
    /// Why sampling ended.
    pub stopped: StopReason,
    /// Median, interval, quartiles: derived from `samples`.
    pub summary: Summary,
    /// Where the time of sampling went.
    #[serde(default)]
    pub spent: Spent,
}

impl Timing {
    /// Replaces the samples by later ones. The earlier samples are kept among the discarded ones, and a caveat says so.
    pub fn replace_samples(&mut self, again: Timing) {
        let earlier = std::mem::replace(self, again);
        let reason = "faster than the ceilings measured afterwards";
        let n = earlier.samples.len();
        let replaced = earlier.samples.into_iter().map(|time| Discarded { time, reason: reason.to_owned() });
        self.discarded.splice(..0, earlier.discarded.into_iter().chain(replaced));
        self.launch = earlier.launch;
        self.relaunched = earlier.relaunched;
        self.spent += earlier.spent;
        self.caveat =
            Some(format!("measured twice: the first {n} samples were {reason}, of a device that was faster then"));
    }
}

fn one() -> u32 {
    1
}

/// A sample that does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Discarded {
    /// Time of one execution, in nanoseconds.
    #[serde(serialize_with = "rounding::of_number")]
    pub time: f64,
    /// Why it does not count.
    pub reason: String,
}

/// Two batch sizes, and the line through them: the cost of one more execution, and the fixed cost of a submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slope {
    /// Executions in the short batch; the long one has the timing's `repeats`.
    pub short: u32,
    /// One more execution, on the run's clock.
    pub execution: Nanos,
    /// 95 % interval of it, low end.
    pub low: Nanos,
    /// 95 % interval of it, high end.
    pub high: Nanos,
    /// A submission of none, on the run's clock.
    pub fixed: Nanos,
    /// One more execution, on the host's clock.
    pub host_execution: Nanos,
    /// A submission of none, on the host's clock, from submission to completion.
    pub host_fixed: Nanos,
}

/// Why sampling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// The interval is narrow enough.
    Precise,
    /// The time is spent.
    Budget,
    /// The largest number of samples was reached.
    Samples,
    /// The user ended it.
    Asked,
    /// The run was killed, or lost its device or browser: the case was not checked a second time.
    Killed,
}
