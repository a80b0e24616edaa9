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
    /// WGSL only: a subgroup can multiply 16×16 matrices of f16 and accumulate in f32 (cooperative matrices).
    #[serde(default)]
    pub coop_matrix: bool,
    /// There are units that multiply matrices of 16-bit floats, whether or not a kernel here reaches them.
    #[serde(default)]
    pub matrix_units: bool,
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

impl DeviceKind {
    /// Whether it is emulated on the host's processor, or is it: slow, and shared with everything else that runs there.
    pub fn is_emulated(self) -> bool {
        matches!(self, DeviceKind::Software | DeviceKind::Cpu)
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

/// What one call of [`Prepared::measure`] executes, back to back in one submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Executions before the clock starts. They bring the caches into the state that the timed ones leave them in, and
    /// keep the device busy while the host hands over the rest.
    pub lead: u32,
    /// Executions that are timed.
    pub repeats: u32,
}

impl Batch {
    /// So many timed executions and nothing before them.
    pub fn of(repeats: u32) -> Batch {
        Batch { lead: 0, repeats }
    }
}

/// One timed batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Time of the timed executions on the device's clock; where there is none, the same as `host`.
    pub time: Nanos,
    /// Time of the whole submission on the host clock, from submission to completion, the lead included.
    pub host: Nanos,
}

/// What the sensors say, just after a sample. Fields are absent where nothing can be read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Conditions {
    /// Clock of the multiprocessors, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<f64>,
    /// Clock of the device memory, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<f64>,
    /// Temperature of the chip, in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
    /// Power drawn by the board, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Why the device holds its clocks down, in the driver's words; empty when it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<String>,
    /// The page was out of sight at some time since the last look, so the browser may have slowed it down.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

/// Where a span ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    /// The host: encoding, submission, waiting.
    #[default]
    Host,
    /// The device.
    Gpu,
}

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// A kernel on the device.
    #[default]
    Kernel,
    /// A call into the interface: encode, submit, launch.
    Runtime,
    /// Waiting for the device.
    Wait,
    /// A copy on the device, or to or from it.
    Memcpy,
    /// A fill on the device.
    Memset,
    /// A mark around others, such as one iteration of the schedule.
    Annotation,
}

/// One interval of a traced execution, in nanoseconds since the profiler was opened.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Span {
    /// What ran: the stage's entry point, or what the host did.
    pub name: String,
    /// The driver's name for a kernel, where it is another than `name`: which one a library chose to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// What it is.
    pub kind: SpanKind,
    /// Where it ran.
    pub track: Track,
    /// Begin, on the host clock.
    pub start: Nanos,
    /// End, on the host clock.
    pub end: Nanos,
    /// Joins the host span that submitted work with the device spans that carried it out.
    pub correlation: Option<u32>,
    /// Bytes moved, for copies and fills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// The host's call stack at this point, innermost frame first, where it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// Where device spans come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceSource {
    /// Activity records of CUPTI: begin and end of each kernel as the hardware saw them.
    Cupti,
    /// Events between kernels: a span includes the gap before its kernel.
    Events,
    /// Timestamps at pass boundaries, one pass per kernel.
    Timestamps,
    /// The host's clock around each kernel.
    Host,
}

/// One execution in detail.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Host and device spans; spans of one track do not overlap.
    pub spans: Vec<Span>,
    /// How far the device track may be shifted against the host track.
    pub alignment_error: Option<Nanos>,
    /// Where the device spans come from.
    #[serde(default)]
    pub source: Option<TraceSource>,
}

/// One kernel launch of a prepared case, as far as the interface tells.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Launch {
    /// Entry point.
    pub entry: String,
    /// Workgroups (blocks).
    pub grid: [u32; 3],
    /// Threads of a workgroup (block).
    pub block: [u32; 3],
    /// Registers of one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Workgroup (shared) memory of one workgroup, static and dynamic.
    pub shared: Bytes,
    /// Bytes of one thread that did not fit into registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spilled: Option<Bytes>,
    /// Share of the device's thread slots that are filled while the kernel runs: by the launch's limits (registers,
    /// shared memory, block size) and by how evenly its grid fills the multiprocessors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
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
    /// In use on the whole device, by anyone, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_used: Option<Bytes>,
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
    /// Where the time went: WGSL module and pipeline, or NVRTC and module load; then the first launch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// The same text compiled a second time, as a repeat visit would find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Nanos>,
}

/// One step on the way from text to a kernel that has run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What was done.
    pub name: String,
    /// How long it took.
    pub time: Nanos,
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

/// Which way a transfer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// Host to device.
    Upload,
    /// Device to host, until the host can read it.
    Download,
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

    /// Time that this process has spent on processors so far, all threads together, where it can be known.
    fn cpu_time(&self) -> Option<Nanos> {
        None
    }

    /// What the sensors say. Nothing, where there are none.
    fn conditions(&mut self) -> Conditions {
        Conditions::default()
    }

    /// Let others run: in a page, the event loop; elsewhere nothing. Long host work calls it every few milliseconds.
    async fn breathe(&self);

    /// Host time from handing the device nothing to do until that is done: the fixed cost of any submission.
    async fn empty(&mut self) -> Result<Nanos, BackendError>;

    /// Host time of moving so many bytes; `None` where the device computes in the host's own memory.
    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError>;

    /// These cases are going to be prepared: what can be made ready on other processors is, now. Says nothing of what
    /// fails; preparing the case will.
    async fn expect(&mut self, cases: &[Case]);

    /// Compile a case, allocate its buffers and upload its inputs. Dropping the result frees everything.
    ///
    /// `sets` copies of every buffer are made, all with the same inputs, and executions go around them: with enough
    /// sets to exceed the caches, each execution finds its data in device memory only. One set leaves data where it is.
    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError>;
}

/// A case on a device.
#[async_trait(?Send)]
pub trait Prepared {
    /// What compiling it took.
    fn compiled(&self) -> &Compiled;

    /// Its kernel launches, in order.
    fn launches(&self) -> Vec<Launch>;

    /// Fill outputs and scratch of every set with NaN (all bits set), so that an element nobody writes is seen.
    async fn poison(&mut self) -> Result<(), BackendError>;

    /// Run the case so many times back to back in one submission, and time that. Each execution takes the buffer set
    /// after the last one's, across calls.
    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError>;

    /// Run the case once, with every stage seen; with the host's call stacks if asked for.
    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError>;

    /// Bytes of one buffer of the set that the last execution used, after all work so far.
    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError>;

    /// Device memory held by this case, and its peak.
    fn memory(&self) -> MemoryStats;
}
