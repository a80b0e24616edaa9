//! The one serialised schema: a run and its records.
//!
//! Everything measured is kept raw; everything derived can be recomputed. Skipped and failed cases are records too.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Case, DType, Problem};
use crate::profiler::{ClockInfo, Compiled, DeviceInfo, MemoryStats, Trace};
use crate::spec::Spec;
use crate::stats::Summary;
use crate::stop::Stopped;
use crate::units::Nanos;
use crate::workload::Cost;

/// Name of the schema, first in every file.
pub const SCHEMA: &str = "parallax.run";
/// Version of the schema; raised when a reader of the old one would misunderstand.
pub const VERSION: u32 = 1;

/// One run: a device, an environment and what happened to each planned case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// What wrote it.
    pub suite: Suite,
    /// What ran the cases: cpu, wgpu, cuda or browser.
    pub target: String,
    /// When it began, in seconds since 1970 (UTC).
    pub started: u64,
    /// The device.
    pub device: DeviceInfo,
    /// Operating system and browser, as far as known.
    pub environment: BTreeMap<String, String>,
    /// The clock of the samples.
    pub clock: ClockInfo,
    /// What was asked for.
    pub spec: Spec,
    /// Canonical strings of all planned cases, skips included.
    pub planned: Vec<String>,
    /// What happened, in the order in which cases ended. A planned case without a record was not reached.
    pub records: Vec<Record>,
    /// Why the run ended early, if it did.
    pub interrupted: Option<String>,
}

/// The program that wrote a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// Version of the suite.
    pub version: String,
    /// Commit that it was built from, with `-dirty` when the tree had changes; empty when unknown.
    pub commit: String,
}

/// What is known after one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Canonical string of the case as asked for: the key for comparing.
    pub case: String,
    /// Its parts, so that readers need no parser.
    pub parts: Parts,
    /// The variant that ran and why, where it is not the one asked for.
    pub actual: Option<ActualVariant>,
    /// The least work that the problem needs.
    pub cost: Cost,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The parts of a case string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Operation.
    pub workload: String,
    /// `fwd` or `bwd`.
    pub direction: String,
    /// Extents in elements, defaults filled in.
    pub shape: BTreeMap<String, u64>,
    /// Options chosen, such as `causal` or `nhwc`.
    pub options: Vec<String>,
    /// Element type.
    pub dtype: DType,
    /// Variant asked for.
    pub variant: String,
}

/// A variant that ran in place of the one asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActualVariant {
    /// Its name.
    pub variant: String,
    /// Why it ran.
    pub reason: String,
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// Right, and timed unless only verified.
    Ok(Box<Measured>),
    /// Ran and gave wrong results; there are no times.
    Wrong {
        /// The first comparison that failed.
        check: CheckResult,
    },
    /// Did not run, as planned.
    Skipped {
        /// Why not.
        reason: String,
    },
    /// Was to run and could not.
    Failed {
        /// What happened.
        reason: String,
    },
}

/// Everything measured about a case that gave right results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Compilation.
    pub compiled: Compiled,
    /// The comparison with the reference before the first sample; the one after the last sample agreed too.
    pub check: CheckResult,
    /// Times, absent after `verify`.
    pub timing: Option<Timing>,
    /// Device memory.
    pub memory: MemoryStats,
    /// One execution in detail.
    pub trace: Option<Trace>,
    /// What the host did for this case and when, on the profiler's host clock.
    pub phases: Vec<Phase>,
}

/// Samples and what they say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// Executions in one sample, back to back in one submission.
    pub repeats: u32,
    /// Time of one execution in each sample on the run's clock, in nanoseconds.
    pub samples: Vec<f64>,
    /// The same on the host clock, from submission to completion, divided by the executions.
    pub host_samples: Vec<f64>,
    /// Samples thrown away while warming up.
    pub warm_up: u32,
    /// Why sampling ended.
    pub stopped: Stopped,
    /// Median, interval, quartiles: derived from `samples`.
    pub summary: Summary,
}

/// A stretch of host time spent on a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// prepare, check, warm-up and sampling, trace, recheck.
    pub name: String,
    /// Begin.
    pub start: Nanos,
    /// End.
    pub end: Nanos,
}

/// Outputs against the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckResult {
    /// Whether every compared element was within its bound and every element was written.
    pub right: bool,
    /// Elements compared with the f64 reference.
    pub compared: u64,
    /// Elements of the outputs; all of them were read and checked for having been written.
    pub elements: u64,
    /// Largest absolute error met.
    pub worst_error: f64,
    /// Bound that applied to the element with the largest error relative to its bound.
    pub bound: f64,
    /// Largest error relative to its bound; at most 1 when right.
    pub worst_ratio: f64,
    /// The first element that is wrong.
    pub mismatch: Option<Mismatch>,
}

/// One wrong element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mismatch {
    /// Name of the output.
    pub output: String,
    /// Position in it, in elements.
    pub index: u64,
    /// What the device gave; absent when it is not a number.
    pub got: Option<f64>,
    /// What is right.
    pub want: f64,
}

impl Parts {
    /// Of a case.
    pub fn of(case: &Case) -> Parts {
        let Problem { workload, direction, shape, dtype } = &case.problem;
        Parts {
            workload: workload.name.to_owned(),
            direction: direction.name().to_owned(),
            shape: shape.extents().iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            options: shape.words().map(str::to_owned).collect(),
            dtype: *dtype,
            variant: case.variant.to_owned(),
        }
    }
}

impl Record {
    /// The measured part, if the case was right.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Ok(measured) => Some(measured),
            _ => None,
        }
    }

    /// The timing, if there is one.
    pub fn timing(&self) -> Option<&Timing> {
        self.measured()?.timing.as_ref()
    }

    /// One word for tables.
    pub fn verdict(&self) -> &'static str {
        match self.outcome {
            Outcome::Ok(_) => "right",
            Outcome::Wrong { .. } => "WRONG",
            Outcome::Skipped { .. } => "skipped",
            Outcome::Failed { .. } => "FAILED",
        }
    }
}

/// A file that is no run this program can read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not JSON, or not of the schema.
    #[error("not a Parallax run: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Some other JSON.
    #[error("not a Parallax run: its schema is `{0}`, not `{SCHEMA}`")]
    Schema(String),
    /// Written by a newer program.
    #[error("written by a newer version: its schema version is {0}, this program reads up to {VERSION}; update it")]
    Newer(u64),
}

impl Run {
    /// Parse a run, telling a newer or foreign file from a broken one.
    pub fn parse(text: &str) -> Result<Run, ReadError> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        let schema = value.get("schema").and_then(|s| s.as_str()).unwrap_or("absent");
        if schema != SCHEMA {
            return Err(ReadError::Schema(schema.to_owned()));
        }
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version > u64::from(VERSION) => return Err(ReadError::Newer(version)),
            _ => {}
        }
        Ok(serde_json::from_value(value)?)
    }

    /// Planned cases without a record.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let done: std::collections::HashSet<&str> = self.records.iter().map(|r| r.case.as_str()).collect();
        self.planned.iter().map(String::as_str).filter(move |case| !done.contains(case))
    }
}

/// The published JSON Schema of [`Run`].
pub fn json_schema() -> serde_json::Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(Run)).expect("a schema is JSON");
    schema["title"] = "Parallax run".into();
    schema["properties"]["schema"]["const"] = SCHEMA.into();
    schema["properties"]["version"]["const"] = VERSION.into();
    schema
}
