//! Records of PyTorch's OSS benchmark database, version 3.
//!
//! The fields are those of its table, `clickhouse_db_schema/oss_ci_benchmark_v3/schema.sql` in
//! <https://github.com/pytorch/test-infra>. The uploader of that project adds repository, branch and workflow.

use std::collections::BTreeMap;

use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Better, NamedRun, Record, Run};
use serde::Serialize;

use super::{interval, timed};
use crate::escape;

/// Further facts by name. The database holds strings.
type ExtraInfo = BTreeMap<&'static str, String>;

/// One metric of one case.
#[derive(Serialize)]
struct Entry {
    timestamp: u64,
    schema_version: &'static str,
    name: &'static str,
    runners: [Runner; 1],
    benchmark: Benchmark,
    model: Model,
    dependencies: BTreeMap<&'static str, Dependency>,
    metric: Metric,
}

#[derive(Serialize)]
struct Runner {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    gpu_info: String,
    gpu_count: u32,
    avail_gpu_mem_in_gb: u64,
    extra_info: ExtraInfo,
}

#[derive(Serialize)]
struct Benchmark {
    name: &'static str,
    mode: &'static str,
    dtype: &'static str,
    extra_info: ExtraInfo,
}

#[derive(Serialize)]
struct Model {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    backend: String,
    origins: [&'static str; 1],
}

#[derive(Serialize)]
struct Dependency {
    repo: &'static str,
    sha: String,
    version: String,
}

#[derive(Serialize)]
struct Metric {
    name: String,
    benchmark_values: [f64; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    target_value: Option<f64>,
    extra_info: ExtraInfo,
}

/// Name of the benchmark and of its origin.
const NAME: &str = "parallax";
/// Bytes of a gigabyte, as the database's uploader counts them.
const GIGABYTE: u64 = 1 << 30;

/// Returns the timed cases and the scores of runs as a JSON list of records, one per metric. The target of a time is the shortest time
/// that the ceilings allow.
pub fn pytorch(runs: &[NamedRun]) -> String {
    let times = timed(runs).flat_map(|(named, record, summary)| {
        time_metrics(record, &summary).into_iter().map(move |metric| entry(&named.run, record, metric))
    });
    let records = runs.iter().flat_map(|named| named.run.as_planned().into_iter().map(move |record| (named, record)));
    let scores = records.flat_map(|(named, record)| {
        score_metrics(record).into_iter().map(move |metric| entry(&named.run, record, metric))
    });
    let entries: Vec<Entry> = times.chain(scores).collect();
    serde_json::to_string_pretty(&entries).expect("names and numbers are JSON") + "\n"
}

/// Returns the metrics of a time: the median, operations and items per second.
fn time_metrics(record: &Record, summary: &Summary) -> Vec<Metric> {
    let floor = record.measured().and_then(|measured| measured.analysis.as_ref()).map(|analysis| analysis.floor.0);
    let mut about = ExtraInfo::from([("samples", summary.n.to_string())]);
    about.extend(interval(summary).into_iter().flat_map(|(low, high)| interval_info(low, high)));
    let metric = |name: String, value| Metric {
        name,
        benchmark_values: [value],
        target_value: None,
        extra_info: ExtraInfo::new(),
    };
    let mut metrics = vec![Metric {
        target_value: floor,
        extra_info: about,
        ..metric("median_time_ns".to_owned(), summary.median.0)
    }];
    if record.cost.flops.0 > 0 {
        metrics.push(metric("flops_per_s".to_owned(), record.cost.flops.per(summary.median)));
    }
    if let Some(items) = &record.items {
        metrics.push(metric(format!("{}_per_s", escape(&items.name)), items.per_second(summary.median)));
    }
    metrics
}

fn score_metrics(record: &Record) -> Vec<Metric> {
    let metric = |score: &parallax_schema::record::Score| {
        let better = match score.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
        };
        let mut extra_info = ExtraInfo::from([("better", better.to_owned()), ("items", score.items.to_string())]);
        extra_info.extend(interval_info(score.low, score.high));
        Metric {
            name: escape(&score.name).into_owned(),
            benchmark_values: [score.value],
            target_value: None,
            extra_info,
        }
    };
    record.scores().iter().map(metric).collect()
}

fn interval_info(low: f64, high: f64) -> [(&'static str, String); 2] {
    [("interval_low", low.to_string()), ("interval_high", high.to_string())]
}

fn entry(run: &Run, record: &Record, metric: Metric) -> Entry {
    let parts = &record.parts;
    let device = run.device_of(record);
    let emulated = device.kind.is_emulated();
    let memory = device.caps.memory.filter(|_| !emulated).map_or(0, |bytes| bytes.0 / GIGABYTE);
    let text = |text: &str| escape(text).into_owned();
    let problem = parallax_schema::case::problem_of(&record.case);
    Entry {
        timestamp: run.started,
        schema_version: "v3",
        name: NAME,
        runners: [Runner {
            name: text(&run.called()),
            kind: text(&device.name),
            gpu_info: if emulated { String::new() } else { text(&device.name) },
            gpu_count: if emulated { 0 } else { device.ranks },
            avail_gpu_mem_in_gb: memory,
            extra_info: ExtraInfo::from([("api", text(&device.api)), ("driver", text(&device.driver))]),
        }],
        benchmark: Benchmark {
            name: NAME,
            mode: if parts.direction == "fwd" { "inference" } else { "training" },
            dtype: parts.dtype.name(),
            extra_info: ExtraInfo::from([
                ("target", text(&run.target)),
                ("direction", text(&parts.direction)),
                ("problem", text(problem)),
                ("clock", run.clock.clock.label().to_owned()),
            ]),
        },
        model: Model {
            name: text(&record.case),
            kind: text(&parts.workload),
            backend: text(record.actual.as_ref().map_or(&parts.variant, |actual| &actual.variant)),
            origins: [NAME],
        },
        dependencies: BTreeMap::from([(
            NAME,
            Dependency {
                repo: env!("CARGO_PKG_REPOSITORY"),
                sha: text(&run.suite.commit),
                version: text(&run.suite.version),
            },
        )]),
        metric,
    }
}
