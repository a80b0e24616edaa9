//! Samples of runs: one row per sample.

use parallax_schema::record::{NamedRun, Record, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One sample of a case in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampleRow {
    /// Canonical string of the case.
    pub case: String,
    /// Name of the run.
    pub run: String,
    /// Target of the run.
    pub target: String,
    /// Name of the device.
    pub device: String,
    /// Seconds since 1970 (UTC) at the begin of the run.
    pub started: u64,
    /// Number of the sample, from 0.
    pub sample: u32,
    /// Time of one execution on the run's clock.
    pub ns: f64,
    /// The same on the host's clock, from submission to completion.
    pub host_ns: Option<f64>,
}

/// Returns a row for every valid sample of every run.
pub fn samples(runs: &[NamedRun]) -> Vec<SampleRow> {
    let of_record = |name: &str, run: &Run, record: &Record| -> Vec<SampleRow> {
        let Some(timing) = record.timing() else { return Vec::new() };
        let row = |(sample, ns): (u32, &f64)| SampleRow {
            case: record.case.clone(),
            run: name.to_owned(),
            target: run.target.clone(),
            device: run.device_of(record).name.clone(),
            started: run.started,
            sample,
            ns: *ns,
            host_ns: timing.host_samples.get(sample as usize).copied(),
        };
        (0..).zip(&timing.samples).map(row).collect()
    };
    let of_run = |NamedRun { name, run }: &NamedRun| -> Vec<SampleRow> {
        run.records.iter().flat_map(|record| of_record(name, run, record)).collect()
    };
    runs.iter().flat_map(of_run).collect()
}
