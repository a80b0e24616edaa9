//! Compilation, launches and memory of a case, as a profiler reports them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

/// Launch of one stage of a prepared case, as far as the interface reports it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Launch {
    /// Label of the stage. Empty in files from before stages had one; the entry point then takes its place.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Entry point, or the name of the operation in a stage without one.
    pub entry: String,
    /// Number of workgroups (blocks) per axis.
    pub grid: [u32; 3],
    /// Number of threads of a workgroup (block) per axis.
    pub block: [u32; 3],
    /// Registers per thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Workgroup (shared) memory of one workgroup, static and dynamic.
    pub shared: Bytes,
    /// Bytes per thread that spilled from registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spilled: Option<Bytes>,
    /// Share of the device's thread slots that are filled while the kernel runs. It depends on the launch's limits (registers,
    /// shared memory, block size) and on the balance of its grid over the multiprocessors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
}

impl Launch {
    /// Returns the stage's label, as in its spans.
    pub fn label(&self) -> &str {
        if self.label.is_empty() { &self.entry } else { &self.label }
    }
}

/// Device memory of the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemoryStats {
    /// Current size.
    pub current: Bytes,
    /// Largest size since the case was prepared.
    pub peak: Bytes,
    /// Size reserved from the driver; absent if the driver does not report it.
    pub reserved: Option<Bytes>,
    /// Largest size that the plan expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Bytes>,
    /// Size in use on the whole device, by all processes; absent if the driver does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_used: Option<Bytes>,
    /// Largest size of the program in the host's memory, or of a page's program; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_peak: Option<Bytes>,
}

/// Cost and result of compiling a case.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Compiled {
    /// Time from kernel source to launchable kernels.
    pub time: Nanos,
    /// Whether the kernels came from a cache.
    pub cached: bool,
    /// Hash of the final kernel source; empty for a case without one.
    pub text_hash: String,
    /// Options in effect.
    pub options: Vec<String>,
    /// Parts of the time: WGSL module and pipeline, or NVRTC and module load; then the first launch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Time of a second compilation of the same kernel source, as on a repeat visit. Present in timed cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Nanos>,
}

/// One step from kernel source to the first run of the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Name of the step.
    pub name: String,
    /// Duration of the step.
    pub time: Nanos,
}

impl Step {
    /// Returns the steps with equal names added up, in the order of first occurrence.
    pub fn summed<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Vec<Step> {
        let mut all: Vec<Step> = Vec::new();
        for step in steps {
            match all.iter_mut().find(|known| known.name == step.name) {
                Some(known) => known.time += step.time,
                None => all.push(step.clone()),
            }
        }
        all
    }
}
