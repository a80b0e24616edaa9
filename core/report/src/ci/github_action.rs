//! JSON of github-action-benchmark's tool `customSmallerIsBetter`: a list of times.
//!
//! The fields are those of `BenchmarkResult` in
//! <https://github.com/benchmark-action/github-action-benchmark/blob/master/src/extract.ts>.

use parallax_schema::record::stats::Summary;
use parallax_schema::record::{NamedRun, Record};
use parallax_schema::units::percent;
use serde::Serialize;

use super::{case_name, interval, timed};
use crate::{device_line, escape};

/// A time of a case.
#[derive(Serialize)]
struct BenchmarkResult {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// Returns the timed cases of runs as JSON for `customSmallerIsBetter`. The value is the median in nanoseconds, and the range is half
/// the width of its 95 % interval.
pub fn custom_smaller_is_better(runs: &[NamedRun]) -> String {
    let result = |(named, record, summary): (&NamedRun, &Record, Summary)| {
        let ends = interval(&summary);
        let mut extra = vec![escape(&device_line(&named.run)).into_owned(), format!("{} samples", summary.n)];
        extra.extend(ends.map(|(low, high)| format!("95 % interval: {low} to {high} ns")));
        let analysis = record.measured().and_then(|measured| measured.analysis.as_ref());
        extra.extend(analysis.map(|a| format!("{} of the {} ceiling", percent(a.utilisation), a.bound.name())));
        BenchmarkResult {
            name: case_name(runs, named, &record.case),
            unit: "ns",
            value: summary.median.0,
            range: ends.map(|(low, high)| format!("± {}", (high - low) / 2.0)),
            extra: extra.join("\n"),
        }
    };
    let results: Vec<BenchmarkResult> = timed(runs).map(result).collect();
    serde_json::to_string_pretty(&results).expect("names and numbers are JSON") + "\n"
}
