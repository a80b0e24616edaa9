//! Which cases are held against each other: by their variant, or the fastest of a problem.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Cache;
use crate::record::{Record, Run};
use crate::suite::problem_of;

/// What the tax holds against what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pairing {
    /// The same variant: like with like.
    #[default]
    Same,
    /// Each run's fastest variant of a problem: best with best.
    Best,
}

/// The cases of a problem that ran as asked.
pub(super) fn as_asked<'r>(run: &'r Run, problem: &str) -> impl Iterator<Item = &'r Record> {
    run.records.iter().filter(move |record| problem_of(&record.case) == problem && record.actual.is_none())
}

/// Whether a run has come to every case that it planned of a problem. Of some of them, the fastest may be missing.
pub(super) fn complete(run: &Run, problem: &str) -> bool {
    let reached = |case: &String| run.records.iter().any(|record| record.case == *case);
    run.planned.iter().filter(|case| problem_of(case) == problem).all(reached)
}

/// The fastest of them with caches in a state, if the run came to all of them.
pub(super) fn fastest<'r>(run: &'r Run, problem: &str, cache: Option<Cache>) -> Option<&'r Record> {
    if !complete(run, problem) {
        return None;
    }
    let time = |r: &Record| r.timing().map_or(f64::INFINITY, |t| t.summary.median.0);
    as_asked(run, problem)
        .filter(|record| record.timing().is_some_and(|t| Some(t.cache) == cache))
        .min_by(|a, b| time(a).total_cmp(&time(b)))
}
