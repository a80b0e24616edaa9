//! Mode, end and resume state of a session.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::record::{Baseline, Run, Timing};

/// Work per case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Check it once.
    Verify,
    /// Check it, time it, check it again.
    Measure,
    /// As [`Mode::Measure`]; a case that is bound by launching is also timed side by side in a cheaper launch method.
    Profile,
}

/// End of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEnd {
    /// Every planned case has a record.
    Complete,
    /// The receiver asked for the stop.
    Stopped,
    /// The device was lost during the named case, and its record reports the loss; the profiler cannot be used again.
    DeviceLost(String),
}

/// Results of an earlier part of the same run, to continue with a fresh profiler after a lost device.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ResumeState {
    /// Strings of the cases that have a record.
    pub finished: BTreeSet<String>,
    /// Baseline that was measured before the first case.
    pub baseline: Option<Baseline>,
    /// Timings of unfinished cases.
    pub sampled: BTreeMap<String, Timing>,
}

impl ResumeState {
    /// Returns the state of an incomplete run.
    pub fn from_run(run: &Run) -> ResumeState {
        let sampled = run.sampling.iter().filter_map(|r| Some((r.case.clone(), r.timing()?.clone())));
        ResumeState {
            finished: run.records.iter().map(|r| r.case.clone()).collect(),
            baseline: run.baseline.clone(),
            sampled: sampled.collect(),
        }
    }
}
