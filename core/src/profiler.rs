//! The whole contract of a backend.
//!
//! A profiler describes its device, prepares a case, takes one timed sample when asked, traces one execution, and
//! reads results back. It never loops until satisfied, computes statistics, prints, or knows a file: that is the work
//! of [`crate::runner`] and of the two edges (command line and page).
//!
//! The traits are asynchronous without `Send`, because GPU objects in a browser belong to one thread.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Case, DType};
use crate::input::Inputs;
use crate::units::{Bytes, Nanos};

/// The language in which a kernel is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// WebGPU Shading Language.
    Wgsl,
    /// CUDA C++.
    Cuda,
    /// A library of the device's vendor.
    Vendor,
    /// The plain host implementation.
    Cpu,
}

/// What plans need to know of a device: capabilities that decide which cases can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caps {
    /// The language that the device's kernels are written in.
    pub dialect: Dialect,
    /// Element types that it computes with.
    pub dtypes: Vec<DType>,
    /// Smallest and largest subgroup (CUDA: warp), where kernels may use subgroup operations.
    pub subgroup: Option<(u32, u32)>,
    /// Workgroup (shared) memory per workgroup.
    pub shared_bytes: u32,
    /// Threads per workgroup.
    pub max_invocations: u32,
    /// Threads per workgroup and dimension.
    pub max_workgroup: [u32; 3],
    /// Workgroups per dimension of a launch.
    pub max_grid: [u32; 3],
    /// Largest buffer that a kernel can bind.
    pub max_binding: Bytes,
    /// Device memory in total, where known.
    pub memory: Option<Bytes>,
    /// CUDA compute capability (major, minor).
    pub compute_capability: Option<(u32, u32)>,
    /// Multiprocessors (CUDA) or host threads (CPU), where known.
    pub units: Option<u32>,
}

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
    /// What plans need.
    pub caps: Caps,
    /// Every limit that the interface reports, under its own name.
    pub limits: BTreeMap<String, u64>,
    /// Every optional feature that is on, under the interface's own name.
    pub features: Vec<String>,
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
    /// Why this clock and not a better one, where there is something to say.
    pub note: Option<String>,
}

/// One timed batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Time of the whole batch on the run's clock.
    pub time: Nanos,
    /// Time of the whole batch on the host clock, from submission to completion.
    pub host: Nanos,
}

/// Where a span ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    /// The host: encoding, submission, waiting.
    Host,
    /// The device.
    Gpu,
}

/// One interval of a traced execution, in nanoseconds since the profiler was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// What ran: the stage's entry point, or what the host did.
    pub name: String,
    /// Where it ran.
    pub track: Track,
    /// Begin, on the host clock.
    pub start: Nanos,
    /// End, on the host clock.
    pub end: Nanos,
    /// Joins the host span that submitted work with the device spans that carried it out.
    pub correlation: Option<u32>,
}

/// One execution in detail.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Host and device spans; spans of one track do not overlap.
    pub spans: Vec<Span>,
    /// How far the device track may be shifted against the host track.
    pub alignment_error: Option<Nanos>,
}

/// Device memory held by the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemoryStats {
    /// Held now.
    pub current: Bytes,
    /// Most held since the case was prepared.
    pub peak: Bytes,
    /// Reserved from the driver, where it tells.
    pub reserved: Option<Bytes>,
}

/// What compiling a case took and produced.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Compiled {
    /// Text to launchable kernels.
    pub time: Nanos,
    /// Whether the kernels came from a cache.
    pub cached: bool,
    /// Hash of the final kernel text, or empty where there is none.
    pub text_hash: String,
    /// Options that were in effect.
    pub options: Vec<String>,
}

/// What went wrong on a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The device cannot do this case.
    #[error("not supported here: {0}")]
    Unsupported(String),
    /// Kernel text was rejected.
    #[error("{file} does not compile: {log}")]
    Compile {
        /// Name of the kernel text.
        file: String,
        /// What the compiler said.
        log: String,
    },
    /// An allocation failed.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// The device is gone; nothing prepared on it can be used.
    #[error("device lost: {0}")]
    Lost(String),
    /// The interface reported something else.
    #[error("{0}")]
    Device(String),
}

/// Opens a device and prepares cases on it.
#[async_trait(?Send)]
pub trait Profiler {
    /// The device.
    fn device(&self) -> &DeviceInfo;

    /// The clock that takes this profiler's samples.
    fn clock(&self) -> &ClockInfo;

    /// Host time since the profiler was opened.
    fn now(&self) -> Nanos;

    /// Let others run: in a page, the event loop; elsewhere nothing. Long host work calls it every few milliseconds.
    async fn breathe(&self);

    /// Compile a case, allocate its buffers and upload its inputs. Dropping the result frees everything.
    async fn prepare(&mut self, case: &Case, inputs: &Inputs) -> Result<Box<dyn Prepared>, BackendError>;
}

/// A case on a device.
#[async_trait(?Send)]
pub trait Prepared {
    /// What compiling it took.
    fn compiled(&self) -> &Compiled;

    /// Fill outputs and scratch with NaN (all bits set), so that an element nobody writes is seen.
    async fn poison(&mut self) -> Result<(), BackendError>;

    /// Run the case `repeats` times back to back in one submission, and time that.
    async fn measure(&mut self, repeats: u32) -> Result<Sample, BackendError>;

    /// Run the case once, with every stage seen.
    async fn trace(&mut self) -> Result<Trace, BackendError>;

    /// Bytes of one buffer, after all work so far.
    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError>;

    /// Device memory held.
    fn memory(&self) -> MemoryStats;
}
