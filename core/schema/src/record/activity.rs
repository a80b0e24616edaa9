//! Activities of a run, and the wall time of each.

use std::collections::BTreeMap;
use std::fmt;

use crate::units::Nanos;

/// Activity of the measuring loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// Idle power, and steady stretches beside an energy counter.
    Energy,
    /// Executions beside hardware counters.
    Counters,
    /// Everything else.
    Rest,
}

impl fmt::Display for Activity {
    /// Writes the name in a run file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Activity::Clocks => "clocks",
            Activity::Ceilings => "ceilings",
            Activity::References => "references",
            Activity::Preparation => "preparation",
            Activity::Checks => "checks",
            Activity::Sizing => "sizing",
            Activity::ReferenceKernel => "reference_kernel",
            Activity::Samples => "samples",
            Activity::Calls => "calls",
            Activity::Traces => "traces",
            Activity::Launches => "launches",
            Activity::Energy => "energy",
            Activity::Counters => "counters",
            Activity::Rest => "rest",
        })
    }
}

/// Wall time of each activity in nanoseconds, by name. A file of a later version may have other names.
pub type Activities = BTreeMap<String, f64>;

/// Returns the activities in words, the longest first, in tenths of a second: `samples 40.1 s, reference kernel 3.0 s`. Shorter
/// ones are left out.
pub fn longest_first(activities: &Activities) -> String {
    let seconds = |(name, time): (&String, &f64)| (Nanos(*time).secs(), name.replace('_', " "));
    let mut listed: Vec<(f64, String)> = activities.iter().map(seconds).filter(|(time, _)| *time >= SHORTEST).collect();
    listed.sort_by(|a, b| b.0.total_cmp(&a.0));
    listed.iter().map(|(time, name)| format!("{name} {time:.1} s")).collect::<Vec<_>>().join(", ")
}

/// Seconds below which an activity is not listed.
const SHORTEST: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_listed_by_length() {
        let times = [(Activity::Samples, 2e9), (Activity::ReferenceKernel, 3.04e9), (Activity::Calls, 1e7)];
        let activities: Activities = times.map(|(activity, time)| (activity.to_string(), time)).into();
        assert_eq!(longest_first(&activities), "reference kernel 3.0 s, samples 2.0 s");
    }
}
