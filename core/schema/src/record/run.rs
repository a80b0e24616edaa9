//! One run: device, environment, and the outcome of each planned case.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::roofline::Ceilings;
use super::{Activities, Model, Record, Route, Spent, TimerTest};
use crate::device::columnar::Columns;
use crate::device::{BrowserMode, ClockInfo, Conditions, DeviceInfo, columnar, rounding};
use crate::spec::Spec;
use crate::units::Nanos;

/// Name of the schema, first in every file.
pub const SCHEMA: &str = "parallax.run";

/// Version of the schema; raised when a reader of the old one would misunderstand.
pub const VERSION: u32 = 3;

/// Path of the published schema below a site.
pub const SCHEMA_PATH: &str = "schema/run.v3.schema.json";

/// Address of the published schema: its `$id`.
pub const SCHEMA_ID: &str = "https://parallax-gpu.github.io/parallax/schema/run.v3.schema.json";

/// Mark behind the commit of a tree with changes.
pub const DIRTY: &str = "-dirty";

/// Run under the name that tables and pages show.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedRun {
    /// Name: the stem of its file, or a target.
    pub name: String,
    /// The run.
    pub run: Run,
}

impl NamedRun {
    /// Returns a run under a name.
    pub fn new(name: impl Into<String>, run: Run) -> NamedRun {
        NamedRun { name: name.into(), run }
    }
}

/// One run: a device, an environment and a record of each planned case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The version of the file that it was read from, or [`VERSION`]. A written file always has the newest form.
    #[serde(serialize_with = "newest")]
    pub version: u32,
    /// Program that wrote it.
    pub suite: Suite,
    /// Target of the cases: cpu, wgpu, cuda or browser.
    pub target: String,
    /// How far a browser let it, where one did; older recordings do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<BrowserMode>,
    /// When it began, in seconds since 1970 (UTC).
    pub started: u64,
    /// The devices, at least one; a group of GPUs that work as one is one of them, with ranks.
    #[serde(alias = "device", deserialize_with = "one_or_several")]
    #[schemars(length(min = 1))]
    pub devices: Vec<DeviceInfo>,
    /// Operating system and browser, as far as known.
    pub environment: BTreeMap<String, String>,
    /// The clock of the samples.
    pub clock: ClockInfo,
    /// Requested settings.
    pub spec: Spec,
    /// Model whose operations the cases stand for, if the run is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Canonical strings of all planned cases, skips included.
    pub planned: Vec<String>,
    /// Self-tests of clocks and device before the first case.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// The reference kernel between rounds: how the device's own speed went during the run.
    #[serde(default, with = "columnar")]
    #[schemars(with = "Columns")]
    pub drift: Vec<Drift>,
    /// Records, in the order in which cases ended. A planned case without a record was not reached.
    pub records: Vec<Record>,
    /// Cases on their way: each as far as it is known, with the samples of every round. Those of a run that was killed are
    /// records once its file is read.
    #[serde(skip)]
    pub sampling: Vec<Record>,
    /// Why the run ended early, if it did; while it goes on, that its file is not closed.
    pub interrupted: Option<String>,
    /// Where the run's own time went.
    #[serde(default)]
    pub spent: Spent,
    /// Wall time of each activity of the measuring loop, in nanoseconds.
    #[serde(default, skip_serializing_if = "Activities::is_empty")]
    pub activities: Activities,
}

fn newest<S: Serializer>(_: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(VERSION)
}

/// Reads a list of devices, or the single device of files before version 3.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DeviceInfo>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Devices {
        Several(Vec<DeviceInfo>),
        One(Box<DeviceInfo>),
    }
    match Devices::deserialize(deserializer)? {
        Devices::Several(devices) if devices.is_empty() => Err(D::Error::custom("a run has at least one device")),
        Devices::Several(devices) => Ok(devices),
        Devices::One(device) => Ok(vec![*device]),
    }
}

/// Self-tests of clocks and device before the first case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// The clock that takes the samples, after the self-test had its say.
    pub clock: ClockInfo,
    /// The self-test.
    pub timer: TimerTest,
    /// Best rates of the device.
    pub ceilings: Ceilings,
}

/// One look at the device between rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// When, on the profiler's host clock; to the nanosecond.
    #[serde(serialize_with = "rounding::whole_time")]
    pub at: Nanos,
    /// Time of one execution of the reference kernel, to seven digits.
    #[serde(rename = "canary", serialize_with = "rounding::of_time")]
    pub reference_kernel: Nanos,
    /// Readings of the sensors.
    #[serde(default)]
    pub conditions: Conditions,
}

/// The program that wrote a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// Version of the suite.
    pub version: String,
    /// Commit that it was built from; with `-dirty` and a digest of the changes when the tree had some; empty when unknown.
    pub commit: String,
}

impl Run {
    /// Returns a run without records on a device that is open elsewhere, from the device's description and the names of the plan.
    pub fn begin_on(
        target: &str,
        suite: Suite,
        (device, clock): (&DeviceInfo, &ClockInfo),
        spec: &Spec,
        planned: Vec<String>,
    ) -> Run {
        Run {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            suite,
            target: target.to_owned(),
            reach: None,
            started: 0,
            devices: vec![device.clone()],
            environment: BTreeMap::new(),
            clock: clock.clone(),
            spec: spec.clone(),
            model: None,
            planned,
            baseline: None,
            drift: Vec::new(),
            records: Vec::new(),
            sampling: Vec::new(),
            interrupted: None,
            spent: Spent::default(),
            activities: Activities::default(),
        }
    }

    /// Returns the device of all records that name no other.
    pub fn device(&self) -> &DeviceInfo {
        self.devices.first().expect("a run has at least one device")
    }

    /// Returns the device of a record.
    pub fn device_of(&self, record: &Record) -> &DeviceInfo {
        self.devices.get(record.device as usize).unwrap_or_else(|| self.device())
    }

    /// Returns records in planned order, which keeps variants together; they are stored in the order of measurement.
    pub fn as_planned(&self) -> Vec<&Record> {
        let place: std::collections::HashMap<&str, usize> =
            self.planned.iter().enumerate().map(|(i, case)| (case.as_str(), i)).collect();
        let mut records: Vec<&Record> = self.records.iter().collect();
        records.sort_by_key(|r| place.get(r.case.as_str()).copied().unwrap_or(usize::MAX));
        records
    }

    /// Removes the cases that `keep` refuses, from the plan and from the records.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.records.retain(|record| keep(&record.case));
        self.planned.retain(|case| keep(case));
    }

    /// Returns planned cases without a record.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let done: std::collections::HashSet<&str> = self.records.iter().map(|r| r.case.as_str()).collect();
        self.planned.iter().map(String::as_str).filter(move |case| !done.contains(case))
    }
}

/// Key of the environment with name and version of the browser, as the browser states them.
pub const BROWSER_VERSION: &str = "browser_version";

/// Keys of the environment with facts about the host.
pub mod host {
    /// Name of the processor.
    pub const PROCESSOR: &str = "processor";
    /// Number of processors that the run could use.
    pub const PROCESSORS: &str = "processors";
    /// Memory of the machine, in bytes.
    pub const MEMORY: &str = "memory_bytes";
    /// Name of the machine.
    pub const NAME: &str = "host";
    /// Kind of the container.
    pub const CONTAINER: &str = "container";
    /// Scheduler or service with the identity of the job.
    pub const JOB: &str = "job";
    /// Rank of the process in its job.
    pub const RANK: &str = "rank";
}

/// Key of the environment with the checks that kernels keep on a native target.
pub const WGSL_CHECKS: &str = "wgsl_checks";

/// Key of the environment with the precision of compiled arithmetic on CUDA; absent for precise arithmetic.
pub const CUDA_ARITHMETIC: &str = "cuda_arithmetic";

/// Returns a target with its browser mode, where one is known.
pub fn way(target: &str, reach: Option<BrowserMode>) -> String {
    Route { reach, ..Route::default() }.titled(target)
}

/// Returns the published JSON Schema of the files that this program writes. Older files are read too; their schema is published
/// beside it.
pub fn json_schema() -> serde_json::Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(Run)).expect("a schema is JSON");
    schema["title"] = "Parallax run".into();
    let keywords = schema.as_object_mut().expect("a schema of a structure is an object");
    keywords.shift_insert(1, "$id".to_owned(), SCHEMA_ID.into());
    schema["properties"]["schema"]["const"] = SCHEMA.into();
    schema["properties"]["version"]["const"] = VERSION.into();
    schema
}
