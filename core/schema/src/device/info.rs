//! Descriptions of a device, its clock and its sensors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::identity::Identity;
use crate::device::{Caps, rounding};
use crate::units::Nanos;

/// Name of a limit that a probe finds on a device that ends the loops of a kernel early: total iterations of all loops.
pub const LOOP_TURNS: &str = "loopTurns";

/// Name of a device whose interface reports none.
pub const UNNAMED: &str = "unnamed GPU";

/// Device and its interface, as recorded with every run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// Name from the driver; in browsers often only vendor and architecture.
    pub name: String,
    /// Vendor, if known.
    pub vendor: String,
    /// Kind of processor: discrete, integrated, software, cpu or other.
    pub kind: DeviceKind,
    /// Interface and version: `Vulkan`, `WebGPU`, `CUDA 13.0`, `host`.
    pub api: String,
    /// Driver name and version, if known.
    pub driver: String,
    /// Identity of the card, as far as the interface reports it.
    #[serde(default, skip_serializing_if = "Identity::is_unknown")]
    pub identity: Identity,
    /// Number of GPUs that work as this one device.
    #[serde(default = "one")]
    pub ranks: u32,
    /// Capabilities for planning.
    pub caps: Caps,
    /// Every limit that the interface reports, under its own name, and `loopTurns` on a device that ends loops early (found by a
    /// probe).
    pub limits: BTreeMap<String, u64>,
    /// Every enabled optional feature, under the interface's own name.
    pub features: Vec<String>,
}

fn one() -> u32 {
    1
}

/// Kind of processor of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// GPU with its own memory.
    Discrete,
    /// GPU that shares the host's memory.
    Integrated,
    /// GPU that is part of a virtual machine.
    Virtual,
    /// GPU interface emulated on the host's processor.
    Software,
    /// The host's processor.
    Cpu,
    /// Not reported.
    Unknown,
}

impl DeviceKind {
    /// Whether the device is the host's processor or is emulated on it: slow, and shared with all other work of the host.
    pub fn is_emulated(self) -> bool {
        matches!(self, DeviceKind::Software | DeviceKind::Cpu)
    }

    /// Returns the kind in words.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Discrete => "GPU with its own memory",
            DeviceKind::Integrated => "GPU in the host's memory",
            DeviceKind::Virtual => "virtual GPU",
            DeviceKind::Software => "software",
            DeviceKind::Cpu => "processor",
            DeviceKind::Unknown => "device of an unknown kind",
        }
    }
}

/// Clock of a measured time.
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
    /// Returns a short name for tables.
    pub fn label(self) -> &'static str {
        match self {
            Clock::GpuTimestamps => "gpu",
            Clock::CudaEvents => "events",
            Clock::Host => "host",
        }
    }
}

/// Clock of a run, with its measured properties.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockInfo {
    /// Clock of the samples.
    pub clock: Clock,
    /// Smallest step of the clock, measured at start.
    pub step: Nanos,
    /// Smallest step of the host clock, measured at start.
    pub host_step: Nanos,
    /// Share of timestamp pairs around real work with a difference of zero.
    #[serde(default)]
    pub zero_share: f64,
    /// Share of timestamp pairs with a negative difference.
    #[serde(default)]
    pub negative_share: f64,
    /// Variation of one launch's share of a time between runs, independent of each run's own interval. Zero if none was observed.
    #[serde(default)]
    pub launch_jitter: Nanos,
    /// Reason for the choice of this clock over a better one, if any.
    pub note: Option<String>,
}

/// Reasons for reduced clocks, in NVML's words, that a healthy card under load does not have. The power cap is usual.
pub const UNHEALTHY: [&str; 4] =
    ["hw slowdown", "sw thermal slowdown", "hw thermal slowdown", "hw power brake slowdown"];

/// Readings of the sensors, just after a sample. Unreadable fields are absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Conditions {
    /// Clock of the multiprocessors, in MHz.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounding::of_reading")]
    pub sm_clock_mhz: Option<f64>,
    /// Clock of the device memory, in MHz.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounding::of_reading")]
    pub memory_clock_mhz: Option<f64>,
    /// Temperature of the chip, in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounding::of_reading")]
    pub temperature_c: Option<f64>,
    /// Power of the board, in watts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounding::of_reading")]
    pub power_w: Option<f64>,
    /// Reasons for reduced clocks, in the driver's words; empty at full clocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<String>,
    /// Whether the page was out of sight at some time since the last reading, so that the browser may have slowed it down.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

impl Conditions {
    /// Whether there is no reading.
    pub fn say_nothing(&self) -> bool {
        *self == Conditions::default()
    }
}
