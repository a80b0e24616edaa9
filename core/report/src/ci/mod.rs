//! Results in the formats of services that keep benchmarks and tests.

mod bmf;
mod github_action;
mod junit;
mod pytorch;
mod summary;

pub use bmf::bmf;
pub use github_action::custom_smaller_is_better;
pub use junit::{junit, junit_comparison};
pub use pytorch::pytorch;
pub use summary::{comparison_summary, run_summary};

use parallax_schema::record::stats::{FEWEST, Summary};
use parallax_schema::record::{NamedRun, Record};

use crate::escape;

/// Returns the name of a case: its string, then the name of its run where there are several runs.
fn case_name(runs: &[NamedRun], run: &NamedRun, case: &str) -> String {
    match runs {
        [_] => escape(case).into_owned(),
        _ => format!("{} ({})", escape(case), escape(&run.name)),
    }
}

/// Returns the 95 % interval of a median; `None` with too few samples for one.
fn interval(summary: &Summary) -> Option<(f64, f64)> {
    (summary.n >= FEWEST).then_some((summary.low.0, summary.high.0))
}

/// Returns every timed case of the runs, in planned order, with its run and its summary.
fn timed(runs: &[NamedRun]) -> impl Iterator<Item = (&NamedRun, &Record, Summary)> {
    runs.iter().flat_map(|named| {
        let records = named.run.as_planned().into_iter();
        records.filter_map(move |record| Some((named, record, record.timing()?.summary)))
    })
}
