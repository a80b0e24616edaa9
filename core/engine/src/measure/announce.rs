//! Announcement of cases to the device, which may compile them ahead.

use parallax_ir::Case;
use parallax_ir::device::{Coming, Profiler};
use parallax_schema::spec::Cache;

use crate::plan::Planned;

/// Returns the number of cases at the end of the queue that a group takes if there is memory for all. These are whole problems
/// until there are `enough` cases, and at most `most` cases.
pub(super) fn next_group(queue: &[&Planned], enough: usize, most: usize) -> usize {
    let problem = |planned: &Planned| planned.case.problem.to_string();
    let whole = queue.chunk_by(|a, b| problem(a) == problem(b)).rev();
    let mut cases = 0;
    for variants in whole {
        if cases >= enough {
            break;
        }
        cases += variants.len();
    }
    cases.min(most)
}

/// Announces cases in the order of the run, of which the first `next` are prepared before any measurement.
pub(super) async fn prefetch<'q>(
    cases: impl Iterator<Item = &'q &'q Planned>,
    next: usize,
    cache: Cache,
    profiler: &mut dyn Profiler,
) {
    let cases: Vec<Case> = cases.map(|planned| planned.runs()).collect();
    let (next, later) = cases.split_at(next);
    profiler.prefetch(&Coming { next, later, cache }).await;
}
