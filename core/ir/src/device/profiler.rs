//! The contract of a backend.
//!
//! A profiler describes its device, prepares a case, takes one timed sample on request, traces one execution, and reads
//! results back. It has no measuring loop, computes no statistics, prints nothing and knows no file. Those tasks belong to
//! [`parallax_engine::measure::runner`] and to the two edges (command line and page).
//!
//! The traits are asynchronous without `Send`, because GPU objects in a browser belong to one thread.

use std::any::Any;
use std::ops::Range;

use async_trait::async_trait;
use parallax_schema::case::{DType, Tuning};
use parallax_schema::device::{
    ClockInfo, Compiled, Conditions, DeviceInfo, Dialect, EnergyReading, Launch, Launching, MemoryStats, Trace,
};
use parallax_schema::record::CounterFigures;
use parallax_schema::spec::Cache;
use parallax_schema::units::Nanos;

use crate::{Case, Inputs, KernelSources, Program, Untranslated, settled};

/// Executions of one call of [`Prepared::measure`], back to back in one submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Number of untimed executions before the clock starts. They bring the caches into the state that timed executions leave.
    /// They also keep the device busy while the host submits the rest.
    pub lead: u32,
    /// Number of timed executions.
    pub repeats: u32,
}

impl Batch {
    /// Returns a batch of `repeats` timed executions without a lead.
    pub fn new(repeats: u32) -> Batch {
        Batch { lead: 0, repeats }
    }
}

/// Event that ends the host's wait for an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The host's knowledge of completion.
    Done,
    /// The first bytes of the result in the host's memory.
    Result,
}

/// Times of one batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Time of the timed executions on the device's clock; equal to `host` on a device without a clock.
    pub time: Nanos,
    /// Time of the whole submission on the host clock, from submission to completion, the lead included.
    pub host: Nanos,
}

/// Error of a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The device does not support this case.
    #[error("not supported here: {0}")]
    Unsupported(String),
    /// The launch planner has no launch for this case. This is no mistake, but is known only at this point.
    #[error("not run: {0}")]
    Refused(String),
    /// The compiler rejected the kernel source.
    #[error("{file} does not compile: {log}")]
    Compile {
        /// Name of the kernel source.
        file: String,
        /// Message of the compiler.
        log: String,
    },
    /// An allocation failed.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// The device is gone; nothing prepared on it can be used.
    #[error("device lost: {0}")]
    Lost(String),
    /// Any other error of the interface.
    #[error("{0}")]
    Device(String),
}

impl BackendError {
    /// Returns the error of a failed translation of `file`.
    pub fn untranslated(file: String, why: Untranslated) -> BackendError {
        match why {
            Untranslated::Failed(log) => BackendError::Compile { file, log },
            Untranslated::Refused(why) => BackendError::Refused(why),
        }
    }
}

/// Returns a program with the launches that its plan left open, and the blueprints that they follow.
///
/// # Errors
/// A kernel without a launch or without a kernel source.
pub fn settle(
    texts: &KernelSources,
    program: Program,
    dtype: DType,
    dialect: Dialect,
) -> Result<(Program, Vec<String>), BackendError> {
    settled(texts, program, dtype, dialect).map_err(|why| BackendError::untranslated("CubeK".to_owned(), why))
}

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// Host to device.
    Upload,
    /// Device to host, until the host can read it.
    Download,
}

/// Access to a device: it prepares cases.
#[async_trait(?Send)]
pub trait Profiler {
    /// Returns the device.
    fn device(&self) -> &DeviceInfo;

    /// Sets the values of tunables for cases prepared from now on: [`Caps::tuning`](parallax_schema::device::Caps::tuning).
    fn set_tuning(&mut self, tuning: Tuning);

    /// Returns the clock of this profiler's samples.
    fn clock(&self) -> &ClockInfo;

    /// Returns the host time since the profiler was opened.
    fn now(&self) -> Nanos;

    /// Returns the processor time of this process so far, summed over all threads; `None` where it is unknown.
    fn cpu_time(&self) -> Option<Nanos> {
        None
    }

    /// Returns the time for which this process has stood still so far: stopped by a signal, or asleep with its machine. It never
    /// falls. It is zero where it cannot be known.
    fn stood_still(&self) -> Nanos {
        Nanos(0.0)
    }

    /// Returns the readings of the sensors; empty without sensors.
    fn conditions(&mut self) -> Conditions {
        Conditions::default()
    }

    /// Returns the reading of the device's energy counter after a pause of `after`, in which the host sleeps.
    ///
    /// # Errors
    /// The reason of the absence of a counter.
    async fn energy(&mut self, after: Nanos) -> Result<EnergyReading, String> {
        let _ = after;
        Err(NO_COUNTER.to_owned())
    }

    /// Yields to other tasks: in a page to the event loop, elsewhere not at all. Long host work calls it every few milliseconds.
    async fn yield_now(&self);

    /// Returns the host time of an empty submission, from submission to completion: the fixed cost of any submission.
    async fn empty(&mut self) -> Result<Nanos, BackendError>;

    /// Returns the host time of a transfer of `bytes` bytes; `None` if the device computes in the host's own memory.
    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError>;

    /// Announces cases that will be prepared. Work that other processors can do in advance starts now. It reports no failure;
    /// preparing the case does.
    async fn prefetch(&mut self, coming: &Coming<'_>);

    /// Compiles a case, allocates its buffers, uploads its inputs, and runs the set-up of its operation specification once on each
    /// set. Dropping the result frees everything.
    ///
    /// `sets` copies of every buffer are made, all with the same inputs, and executions rotate through them. With enough sets to
    /// exceed the caches, each execution finds its data in device memory only. With one set, data stays in place.
    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError>;
}

/// Cases that will be prepared, in the order of the run.
#[derive(Debug, Clone, Copy)]
pub struct Coming<'c> {
    /// Cases before any measurement.
    pub next: &'c [Case],
    /// Cases after some measurement.
    pub later: &'c [Case],
    /// State of the caches, which decides on the number of buffer sets.
    pub cache: Cache,
}

/// Reason of the absence of energy where nothing reads a counter.
pub const NO_COUNTER: &str = "no energy counter is read here";

/// Reason of the absence of hardware counters where nothing reads them.
pub const NO_COUNTERS: &str = "hardware counters are read on CUDA only";

/// Word with every bit set: NaN in every floating-point type.
pub const POISON: u32 = u32::MAX;

/// Second poison word, of four equal bytes. Integers of any width show which of the two words poisoned them.
pub const OTHER_POISON: u32 = 0x5A5A_5A5A;

/// New contents of an input.
#[derive(Clone, Copy)]
pub enum Contents<'a> {
    /// Little-endian elements in the storage type of the input.
    Bytes(&'a [u8]),
    /// Buffer of another case on the same device, as the last execution of that case left it.
    Buffer(&'a dyn Prepared, usize),
}

/// A case prepared on a device.
#[async_trait(?Send)]
pub trait Prepared: Any {
    /// Returns the cost and result of compiling it.
    fn compiled(&self) -> &Compiled;

    /// Compiles the same kernel source once more, as on a repeat visit, for [`Compiled::repeat`]. It does nothing
    /// if preparing did so because it takes next to no time, or if nothing is compiled.
    async fn compile_again(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Returns its kernel launches, in order.
    fn launches(&self) -> Vec<Launch>;

    /// Returns the launch mode of its stages; `None` if plain calls are the only mode.
    fn launching(&self) -> Option<Launching> {
        None
    }

    /// Sets the launch mode of its stages from now on. Earlier measurements keep theirs.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`]: this backend, or this case on it, lacks the launch mode.
    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        Err(BackendError::Unsupported(format!("there is no launch mode `{}` here", launching.name())))
    }

    /// Replaces the inputs of every set by others of the same problem, and runs the set-up again. Nothing is compiled or allocated.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`]: this backend, or this case on it, keeps the inputs of its preparation.
    async fn refill(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        let _ = inputs;
        Err(BackendError::Unsupported("inputs of a prepared case cannot change here".to_owned()))
    }

    /// Whether [`Prepared::enqueue`] executes this case. A case whose executions change inputs is filled again instead.
    fn enqueues(&self) -> bool {
        false
    }

    /// Replaces some inputs, by position in the buffer list, and executes the case once without a clock. The set-up runs again if it
    /// uses one of them. The results may be pending when it returns. Later work on the device sees them, and [`Prepared::read_back`] waits for them.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`]: [`Prepared::enqueues`] is false. [`BackendError::Device`]: contents of another length or device.
    async fn enqueue(&mut self, inputs: &[(usize, Contents<'_>)]) -> Result<(), BackendError> {
        let _ = inputs;
        Err(BackendError::Unsupported("inputs of a prepared case cannot change one by one here".to_owned()))
    }

    /// Returns the host time since the profiler was opened, on the same clock as [`Profiler::now`].
    fn now(&self) -> Nanos;

    /// Fills outputs and scratch of every set with a 32-bit word, so that unwritten elements are detected. It restores the contents
    /// that executions change. Results of the set-up stay.
    async fn poison(&mut self, word: u32) -> Result<(), BackendError>;

    /// Runs the batch back to back in one submission, and times it. Each execution takes the buffer set after the previous one's,
    /// across calls. Before the clock starts, buffers of role [`crate::Role::InOut`] get their first contents back.
    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError>;

    /// Returns the host time of a call on an idle device, from the start of recording to the awaited event. The executions are
    /// submitted at once, without any command that serves measuring. They take buffer sets as those of [`Prepared::measure`] do.
    /// Buffers that they change get their first contents back before the call.
    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError>;

    /// Returns hardware counters of every stage, from executions of their own. Before each, buffers that executions change get their
    /// first contents back, and an execution brings the caches into the state of timed executions.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`]: this backend reads no counters, or the driver refuses, with the reason.
    async fn count(&mut self) -> Result<CounterFigures, BackendError> {
        Err(BackendError::Unsupported(NO_COUNTERS.to_owned()))
    }

    /// Runs the case once and traces every stage; `stacks` adds the host's call stacks.
    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError>;

    /// Returns bytes of one buffer of the set of the last execution, after all submitted work.
    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError>;

    /// Returns the device memory of this case, and its peak.
    fn memory(&self) -> MemoryStats;
}
