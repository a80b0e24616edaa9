//! Activities of a run, and the wall time of each.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Activity of the measuring loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Tests of the clocks before the first case.
    Clocks,
    /// Ceilings of the device.
    Ceilings,
    /// Inputs and reference results.
    References,
    /// Compilation, allocation and uploads.
    Preparation,
    /// First execution, and comparison of the outputs, before and after the samples.
    Checks,
    /// Size of the batches.
    Sizing,
    /// Reference kernel between the samples.
    ReferenceKernel,
    /// Samples.
    Samples,
    /// Calls.
    Calls,
    /// Traces.
    Traces,
    /// Comparison of launch methods.
    Launches,
    /// Everything else.
    Rest,
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Activity::Clocks => "clocks",
            Activity::Ceilings => "ceilings",
            Activity::References => "references",
            Activity::Preparation => "preparation",
            Activity::Checks => "checks",
            Activity::Sizing => "sizing",
            Activity::ReferenceKernel => "reference kernel",
            Activity::Samples => "samples",
            Activity::Calls => "calls",
            Activity::Traces => "traces",
            Activity::Launches => "launch methods",
            Activity::Rest => "rest",
        })
    }
}

/// Wall time of each activity.
pub type Activities = BTreeMap<Activity, Nanos>;

/// Returns the activities in words, the longest first, each with whole tenths of a second: `samples 40.1 s, preparation 35.0 s`.
/// Shorter ones are left out.
pub fn longest_first(activities: &Activities) -> String {
    let mut listed: Vec<_> = activities.iter().filter(|(_, time)| time.secs() >= SHORTEST).collect();
    listed.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    listed.iter().map(|(activity, time)| format!("{activity} {:.1} s", time.secs())).collect::<Vec<_>>().join(", ")
}

/// Seconds below which an activity is not listed.
const SHORTEST: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_listed_by_length() {
        let times = [(Activity::Samples, 2.0), (Activity::ReferenceKernel, 3.04), (Activity::Calls, 0.01)];
        let activities: Activities = times.map(|(activity, time)| (activity, Nanos::from_secs(time))).into();
        assert_eq!(longest_first(&activities), "reference kernel 3.0 s, samples 2.0 s");
        let json = serde_json::to_string(&activities).expect("serializable");
        assert_eq!(json, r#"{"reference_kernel":3040000000.0,"samples":2000000000.0,"calls":10000000.0}"#);
        assert_eq!(serde_json::from_str::<Activities>(&json).expect("valid"), activities);
    }
}
