//! What a device, its clock and its sensors say of themselves.

use std::collections::BTreeMap;

use crate::device::digits;
use crate::device::identity::Identity;
use crate::suite::Caps;
use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limit that a probe finds, of a device that ends the loops of a kernel: turns of all of them together, after which it does so.
pub const LOOP_TURNS: &str = "loopTurns";

/// A device and how it was reached, as recorded with every run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// Name given by the driver; in browsers often only vendor and architecture.
    pub name: String,
    /// Vendor, where known.
    pub vendor: String,
    /// What kind of processor: discrete, integrated, software, cpu or other.
    pub kind: DeviceKind,
    /// Interface and version: `Vulkan`, `WebGPU`, `CUDA 13.0`, `host`.
    pub api: String,
    /// Driver name and version, where known.
    pub driver: String,
    /// Which card it is, as far as the interface tells.
    #[serde(default, skip_serializing_if = "Identity::is_unknown")]
    pub identity: Identity,
    /// How many GPUs work as this one device.
    #[serde(default = "one")]
    pub ranks: u32,
    /// What plans need.
    pub caps: Caps,
    /// Every limit that the interface reports, under its own name, and `loopTurns` where a probe finds that loops end early.
    pub limits: BTreeMap<String, u64>,
    /// Every optional feature that is on, under the interface's own name.
    pub features: Vec<String>,
}

fn one() -> u32 {
    1
}

/// What kind of processor a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU that is part of a virtual machine.
    Virtual,
    /// A GPU interface emulated on the host's processor.
    Software,
    /// The host's processor.
    Cpu,
    /// Not told.
    Unknown,
}

impl DeviceKind {
    /// Whether it is emulated on the host's processor, or is it: slow, and shared with everything else that runs there.
    pub fn is_emulated(self) -> bool {
        matches!(self, DeviceKind::Software | DeviceKind::Cpu)
    }

    /// What it is, in words.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Discrete => "GPU with its own memory",
            DeviceKind::Integrated => "GPU in the host's memory",
            DeviceKind::Virtual => "virtual GPU",
            DeviceKind::Software => "software",
            DeviceKind::Cpu => "processor",
            DeviceKind::Unknown => "device of a kind that is not told",
        }
    }
}

/// Which clock took a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// GPU timestamps at the boundaries of a compute pass.
    GpuTimestamps,
    /// CUDA events on the stream.
    CudaEvents,
    /// The host's monotonic clock, from submission to completion.
    Host,
}

impl Clock {
    /// A short name for tables.
    pub fn label(self) -> &'static str {
        match self {
            Clock::GpuTimestamps => "gpu",
            Clock::CudaEvents => "events",
            Clock::Host => "host",
        }
    }
}

/// The clock of a run and what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockInfo {
    /// Which clock takes the samples.
    pub clock: Clock,
    /// Its smallest step, measured at start.
    pub step: Nanos,
    /// The host clock's smallest step, measured at start.
    pub host_step: Nanos,
    /// Share of stamp pairs around real work that showed no time at all.
    #[serde(default)]
    pub zero_share: f64,
    /// Share of stamp pairs that ran backwards.
    #[serde(default)]
    pub negative_share: f64,
    /// How far one launch's share of a time differs from run to run, whatever each run's own interval says; zero where
    /// nothing of the kind has been seen.
    #[serde(default)]
    pub launch_jitter: Nanos,
    /// Why this clock and not a better one, where there is something to say.
    pub note: Option<String>,
}

/// What the sensors say, just after a sample. Fields are absent where nothing can be read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Conditions {
    /// Clock of the multiprocessors, in MHz.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "digits::of_reading")]
    pub sm_clock_mhz: Option<f64>,
    /// Clock of the device memory, in MHz.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "digits::of_reading")]
    pub memory_clock_mhz: Option<f64>,
    /// Temperature of the chip, in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "digits::of_reading")]
    pub temperature_c: Option<f64>,
    /// Power drawn by the board, in watts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "digits::of_reading")]
    pub power_w: Option<f64>,
    /// Why the device holds its clocks down, in the driver's words; empty when it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<String>,
    /// The page was out of sight at some time since the last look, so the browser may have slowed it down.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

impl Conditions {
    /// Whether there is nothing to be read here.
    pub fn say_nothing(&self) -> bool {
        *self == Conditions::default()
    }
}
