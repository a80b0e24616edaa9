//! The one serialised schema: a run and its records.
//!
//! Everything measured is kept raw; everything derived can be recomputed. Skipped and failed cases are records too.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Case, DType, Problem};
use crate::plan::Plan;
use crate::profiler::{ClockInfo, Compiled, Conditions, DeviceInfo, Launch, MemoryStats, Profiler, Trace};
use crate::roofline::{Analysis, Ceilings};
use crate::spec::{Cache, Spec};
use crate::stats::Summary;
use crate::stop::Stopped;
use crate::timer::TimerTest;
use crate::units::Nanos;
use crate::workload::Cost;

/// Name of the schema, first in every file.
pub const SCHEMA: &str = "parallax.run";
/// Version of the schema; raised when a reader of the old one would misunderstand.
pub const VERSION: u32 = 2;

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
    /// What was found out about clocks and device before the first case.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// The canary between rounds: how the device's own speed went during the run.
    #[serde(default)]
    pub drift: Vec<Drift>,
    /// What happened, in the order in which cases ended. A planned case without a record was not reached.
    pub records: Vec<Record>,
    /// Why the run ended early, if it did.
    pub interrupted: Option<String>,
    /// Where the run's own time went.
    #[serde(default)]
    pub spent: Spent,
}

/// What was found out about clocks and device before the first case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// The clock that takes the samples, after the self-test had its say.
    pub clock: ClockInfo,
    /// The self-test.
    pub timer: TimerTest,
    /// What the device can do at best.
    pub ceilings: Ceilings,
}

/// One look at the device between rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// When, on the profiler's host clock.
    pub at: Nanos,
    /// Time of one execution of the canary kernel.
    pub canary: Nanos,
    /// What the sensors said.
    #[serde(default)]
    pub conditions: Conditions,
}

/// Host, device and processor time of a stretch of work.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spent {
    /// Wall time.
    pub wall: Nanos,
    /// Of it, from handing work to the device, launches, fills and copies back, until it was known to be done.
    pub waiting: Nanos,
    /// Of it, timed kernels on the run's clock.
    pub device: Nanos,
    /// Time of this process on processors, where it can be known.
    pub cpu: Option<Nanos>,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.wall += other.wall;
        self.waiting += other.waiting;
        self.device += other.device;
        self.cpu = match (self.cpu, other.cpu) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
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
    /// Gave right results, and a time that cannot be believed; there is no figure.
    Refused {
        /// What kind of refusal.
        kind: Refusal,
        /// The figures that led to it.
        reason: String,
        /// The comparison with the reference.
        check: CheckResult,
    },
    /// Was to run and could not.
    Failed {
        /// What happened.
        reason: String,
    },
}

/// Why a time is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Refusal {
    /// The clock's error is too large a part of the longest sample that can be taken.
    Unresolvable,
    /// It is shorter than the ceilings of the device allow.
    Impossible,
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
    /// What was launched.
    #[serde(default)]
    pub launches: Vec<Launch>,
    /// The case under the roofline, where ceilings and a time are known.
    #[serde(default)]
    pub analysis: Option<Analysis>,
    /// Executions in detail, as many as the schedule kept; a run file keeps the first 200 spans, its trace all.
    pub trace: Option<Trace>,
    /// What the host did for this case and when, on the profiler's host clock.
    pub phases: Vec<Phase>,
}

/// How a sample becomes the time of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Time of a batch over its executions.
    #[default]
    Batch,
    /// Time of a long batch less that of a short one, over the difference of their executions: for a clock that also
    /// sees the fixed cost of each submission.
    Slope,
}

/// Samples and what they say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// How samples came about.
    #[serde(default)]
    pub method: Method,
    /// Whether data was found in caches.
    #[serde(default)]
    pub cache: Cache,
    /// Copies of all buffers that executions went around.
    #[serde(default = "one")]
    pub sets: u32,
    /// Executions in one sample, back to back in one submission.
    pub repeats: u32,
    /// Executions before each sample, untimed, in the same submission.
    #[serde(default)]
    pub lead: u32,
    /// Time of one execution in each sample on the run's clock, in nanoseconds.
    pub samples: Vec<f64>,
    /// The same on the host clock, from submission to completion, divided by the executions, the lead's included.
    pub host_samples: Vec<f64>,
    /// What the sensors said after each sample; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Conditions>,
    /// Samples that do not count, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<SetAside>,
    /// What to bear in mind with these samples, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// What k and m executions in a submission tell apart.
    #[serde(default)]
    pub slope: Option<Slope>,
    /// Error that the clock's step puts on one sample, as a share of it.
    #[serde(default)]
    pub clock_error: f64,
    /// Samples thrown away while warming up.
    pub warm_up: u32,
    /// Why sampling ended.
    pub stopped: Stopped,
    /// Median, interval, quartiles: derived from `samples`.
    pub summary: Summary,
    /// Where the time of sampling went.
    #[serde(default)]
    pub spent: Spent,
}

fn one() -> u32 {
    1
}

/// A sample that does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetAside {
    /// Time of one execution, in nanoseconds.
    pub time: f64,
    /// Why it does not count.
    pub reason: String,
}

/// Two sizes of batch, and the line through them: what one more execution costs, and what a submission costs anyway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slope {
    /// Executions in the short batch; the long one has the timing's `repeats`.
    pub short: u32,
    /// One more execution, on the run's clock.
    pub execution: Nanos,
    /// 95 % interval of it, low end.
    pub low: Nanos,
    /// 95 % interval of it, high end.
    pub high: Nanos,
    /// A submission of none, on the run's clock.
    pub fixed: Nanos,
    /// One more execution, on the host's clock.
    pub host_execution: Nanos,
    /// A submission of none, on the host's clock, from submission to completion.
    pub host_fixed: Nanos,
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
            Outcome::Refused { kind: Refusal::Unresolvable, .. } => "unresolved",
            Outcome::Refused { kind: Refusal::Impossible, .. } => "impossible",
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
    /// A run without records, of a plan on an open device.
    pub fn begin(target: &str, suite: Suite, profiler: &dyn Profiler, spec: &Spec, plan: &Plan) -> Run {
        let skips = plan.skips.iter().map(|s| s.case.to_string());
        Run {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            suite,
            target: target.to_owned(),
            started: 0,
            device: profiler.device().clone(),
            environment: BTreeMap::new(),
            clock: profiler.clock().clone(),
            spec: spec.clone(),
            planned: skips.chain(plan.cases.iter().map(|c| c.case.to_string())).collect(),
            baseline: None,
            drift: Vec::new(),
            records: Vec::new(),
            interrupted: None,
            spent: Spent::default(),
        }
    }

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

    /// Clocks are tested and ceilings measured: from here on the clock is the one that passed.
    pub fn begun(&mut self, baseline: Baseline) {
        self.clock = baseline.clock.clone();
        self.baseline = Some(baseline);
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
    schema["properties"]["version"]["minimum"] = 1.into();
    schema["properties"]["version"]["maximum"] = VERSION.into();
    schema
}
