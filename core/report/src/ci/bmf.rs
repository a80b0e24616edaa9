//! Bencher Metric Format, for <https://bencher.dev>: metrics by benchmark and measure.
//!
//! `latency` (ns) and `throughput` (operations per second) are Bencher's own measures. `items-per-second` is a measure that Bencher
//! creates at the first upload.

use std::collections::BTreeMap;

use parallax_schema::record::NamedRun;
use parallax_schema::record::stats::Summary;
use parallax_schema::units::Nanos;
use serde::Serialize;

use super::{case_name, interval, timed};

/// A value with its interval.
#[derive(Serialize)]
struct Metric {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

impl Metric {
    /// Returns the metric of a time.
    fn of_time(summary: &Summary) -> Metric {
        let ends = interval(summary);
        Metric {
            value: summary.median.0,
            lower_value: ends.map(|(low, _)| low),
            upper_value: ends.map(|(_, high)| high),
        }
    }

    /// Returns the metric of a rate, which is highest at the shortest time.
    fn of_rate(summary: &Summary, rate: impl Fn(Nanos) -> f64) -> Metric {
        let ends = interval(summary).map(|(low, high)| (rate(Nanos(high)), rate(Nanos(low))));
        Metric {
            value: rate(summary.median),
            lower_value: ends.map(|(low, _)| low),
            upper_value: ends.map(|(_, high)| high),
        }
    }
}

/// Returns the timed cases of runs as JSON in Bencher Metric Format.
pub fn bmf(runs: &[NamedRun]) -> String {
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, Metric>> = BTreeMap::new();
    for (named, record, summary) in timed(runs) {
        let measures = benchmarks.entry(case_name(runs, named, &record.case)).or_default();
        measures.insert("latency", Metric::of_time(&summary));
        if record.cost.flops.0 > 0 {
            measures.insert("throughput", Metric::of_rate(&summary, |time| record.cost.flops.per(time)));
        }
        if let Some(items) = &record.items {
            measures.insert("items-per-second", Metric::of_rate(&summary, |time| items.per_second(time)));
        }
    }
    serde_json::to_string_pretty(&benchmarks).expect("names and numbers are JSON") + "\n"
}
