//! Choice of the compared cases: by their variant, or the fastest of a problem.

use parallax_schema::case::problem_of;
use parallax_schema::record::{Record, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kernels that the tax compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pairing {
    /// The same variant: like with like.
    #[default]
    Same,
    /// Each run's fastest variant of a problem: best with best.
    Best,
}

/// Returns the cases of a problem that ran without a fallback.
pub(super) fn as_asked<'r>(run: &'r Run, problem: &str) -> impl Iterator<Item = &'r Record> {
    run.records.iter().filter(move |record| problem_of(&record.case) == problem && record.actual.is_none())
}

/// Returns the fastest record among those that `taken` accepts. `None` if the run did not reach every planned case of the problem:
/// the fastest may be missing.
pub fn fastest<'r>(run: &'r Run, problem: &str, taken: impl Fn(&Record) -> bool) -> Option<&'r Record> {
    let reached = |case: &String| run.records.iter().any(|record| record.case == *case);
    if !run.planned.iter().filter(|case| problem_of(case) == problem).all(reached) {
        return None;
    }
    let time = |record: &'r Record| Some((record.timing()?.summary.median.0, record));
    let timed = as_asked(run, problem).filter(|record| taken(record)).filter_map(time);
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, record)| record)
}
