//! The whole contract of a backend.
//!
//! A profiler describes its device, prepares a case, takes one timed sample when asked, traces one execution, and
//! reads results back. It never loops until satisfied, computes statistics, prints, or knows a file: that is the work
//! of [`crate::measure::runner`] and of the two edges (command line and page).
//!
//! The traits are asynchronous without `Send`, because GPU objects in a browser belong to one thread.

use std::ops::Range;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClockInfo, Conditions, DeviceInfo, Launching, Trace};
use crate::suite::{Case, DType, Dialect, Inputs, KernelSources, Program, Translated, Tuning, Untranslated, settled};
use crate::units::{Bytes, Nanos};

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

/// What a host waits for that has called for an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// To know that it is done.
    Done,
    /// The first bytes of its result in the host's memory.
    Result,
}

/// One timed batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Time of the timed executions on the device's clock; where there is none, the same as `host`.
    pub time: Nanos,
    /// Time of the whole submission on the host clock, from submission to completion, the lead included.
    pub host: Nanos,
}

/// One stage of a prepared case as it is launched, as far as the interface tells.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Launch {
    /// The stage's name. Empty in files from before stages had one: then it is the entry point.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Entry point, or what the work is called where it has none.
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

impl Launch {
    /// The stage's name, as its spans carry it.
    pub fn label(&self) -> &str {
        if self.label.is_empty() { &self.entry } else { &self.label }
    }
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
    /// What the plan expected to be held at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Bytes>,
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
    /// The same text compiled a second time, as a repeat visit would find it: where a case was timed.
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

impl Step {
    /// What was done for a text that is made of something else.
    pub fn made(translated: &Translated) -> Vec<Step> {
        translated.steps.iter().map(|(name, time)| Step { name: name.clone(), time: *time }).collect()
    }

    /// Steps of the same name as one, in the order in which their names come first.
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

/// What went wrong on a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The device cannot do this case.
    #[error("not supported here: {0}")]
    Unsupported(String),
    /// What plans the launch has none for this case: not a mistake, but known only here.
    #[error("not run: {0}")]
    Refused(String),
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

impl BackendError {
    /// Why a kernel text has not been made.
    pub fn untranslated(file: String, why: Untranslated) -> BackendError {
        match why {
            Untranslated::Failed(log) => BackendError::Compile { file, log },
            Untranslated::Refused(why) => BackendError::Refused(why),
        }
    }
}

/// A program with the launches that its plan left open, and what they were chosen by.
///
/// # Errors
/// When one of them has none, or no text.
pub fn settle(
    texts: &KernelSources,
    program: Program,
    dtype: DType,
    dialect: Dialect,
) -> Result<(Program, Vec<String>), BackendError> {
    settled(texts, program, dtype, dialect).map_err(|why| BackendError::untranslated("CubeK".to_owned(), why))
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

    /// From now on cases are prepared with these values for what their variants leave open: [`crate::suite::Caps::tuning`].
    fn set_tuning(&mut self, tuning: Tuning);

    /// The clock that takes this profiler's samples.
    fn clock(&self) -> &ClockInfo;

    /// Host time since the profiler was opened.
    fn now(&self) -> Nanos;

    /// Time that this process has spent on processors so far, all threads together, where it can be known.
    fn cpu_time(&self) -> Option<Nanos> {
        None
    }

    /// How long this process has stood still so far: stopped by a signal, or asleep with its machine. It never falls; zero where
    /// it cannot be known.
    fn stood_still(&self) -> Nanos {
        Nanos(0.0)
    }

    /// What the sensors say. Nothing, where there are none.
    fn conditions(&mut self) -> Conditions {
        Conditions::default()
    }

    /// Let others run: in a page, the event loop; elsewhere nothing. Long host work calls it every few milliseconds.
    async fn yield_now(&self);

    /// Host time from handing the device nothing to do until that is done: the fixed cost of any submission.
    async fn empty(&mut self) -> Result<Nanos, BackendError>;

    /// Host time of moving so many bytes; `None` where the device computes in the host's own memory.
    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError>;

    /// These cases are going to be prepared: what can be made ready on other processors is, now. Says nothing of what
    /// fails; preparing the case will.
    async fn expect(&mut self, cases: &[Case]);

    /// Compile a case, allocate its buffers, upload its inputs, and run the form's set-up once on each set. Dropping the
    /// result frees everything.
    ///
    /// `sets` copies of every buffer are made, all with the same inputs, and executions go around them: with enough
    /// sets to exceed the caches, each execution finds its data in device memory only. One set leaves data where it is.
    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError>;
}

/// Every bit set: NaN in every floating-point type.
pub const POISON: u32 = u32::MAX;

/// Another word of four equal bytes, so that integers of any width show which of the two poisoned them.
pub const OTHER_POISON: u32 = 0x5A5A_5A5A;

/// A case on a device.
#[async_trait(?Send)]
pub trait Prepared {
    /// What compiling it took.
    fn compiled(&self) -> &Compiled;

    /// Compile the same text once more, as a repeat visit would find it, for [`Compiled::repeat`]. Nothing where preparing did so,
    /// because it takes next to no time, or where nothing is compiled.
    async fn compile_again(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Its kernel launches, in order.
    fn launches(&self) -> Vec<Launch>;

    /// How its stages reach the device; `None` where there is only one way, plain calls.
    fn launching(&self) -> Option<Launching> {
        None
    }

    /// From now on, let its stages reach the device so. What was measured before stays as it was.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] when this backend, or this case on it, cannot be launched so.
    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        Err(BackendError::Unsupported(format!("there is no way `{}` to launch here", launching.name())))
    }

    /// Host time since the profiler was opened, on the same clock as [`Profiler::now`].
    fn now(&self) -> Nanos;

    /// Fill outputs and scratch of every set with a word of 32 bits, so that an element that nobody writes is seen, and
    /// put back what executions change. What the set-up wrote stays.
    async fn poison(&mut self, word: u32) -> Result<(), BackendError>;

    /// Run the case so many times back to back in one submission, and time that. Each execution takes the buffer set
    /// after the last one's, across calls. Before the clock starts, buffers of role [`crate::suite::Role::InOut`] get
    /// their first contents back.
    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError>;

    /// Host time of a call on an idle device: from beginning to record so many executions, submitted at once, until what is
    /// awaited. Nothing that serves measuring is submitted with them. The executions take buffer sets as those of
    /// [`Prepared::measure`] do, and what they change has its first contents back before.
    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError>;

    /// Run the case once, with every stage seen; with the host's call stacks if asked for.
    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError>;

    /// Bytes of one buffer of the set that the last execution used, after all work so far.
    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError>;

    /// Device memory held by this case, and its peak.
    fn memory(&self) -> MemoryStats;
}
