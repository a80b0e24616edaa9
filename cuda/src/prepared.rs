//! A case on the device: runs it, times it, reads it back.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use parallax_core::device::{
    Awaited, BackendError, Batch, Compiled, Launch, Launching, Ledger, MemoryStats, POISON, Prepared, Rotation, Sample,
    Trace,
};
use parallax_core::suite::{BufferSpec, Role};
use parallax_core::units::Nanos;

use crate::driver::{CudaContext, CudaEvent, CudaStream};
use crate::errors::Context;
use crate::events::{elapsed, since};
use crate::graph::Graph;
use crate::launch::{Module, Step};
use crate::memory::{Buffer, stats};
use crate::occupancy::Multiprocessors;
use crate::streams::Streams;
use crate::trace::trace;

/// One set of buffers in the workload's order; `None` for scratch that no stage uses.
pub(crate) type Set = Vec<Option<Buffer>>;

/// Bytes that stand for a result where the time until it is on the host is asked for.
const RESULT: usize = 16;

/// A case on the device. Everything in it frees itself.
pub(crate) struct PreparedCase {
    /// How stages reach the device.
    pub(crate) launching: Launching,
    /// One execution on each set of buffers as a graph, once that was asked for.
    pub(crate) graphs: Vec<Graph>,
    /// The launches of one execution, on each set of buffers.
    pub(crate) executions: Vec<Vec<Step>>,
    pub(crate) rotation: Rotation,
    pub(crate) specs: Vec<BufferSpec>,
    pub(crate) begin: CudaEvent,
    pub(crate) end: CudaEvent,
    pub(crate) sets: Vec<Set>,
    /// What executions change, as it was before the first one: position and contents.
    pub(crate) first: Vec<(usize, Buffer)>,
    /// What the library multiplies in, where it is called.
    pub(crate) _workspace: Option<Buffer>,
    pub(crate) _modules: Vec<Module>,
    pub(crate) compiled: Compiled,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    /// That stream and those beside it.
    pub(crate) streams: Streams,
    pub(crate) opened: Instant,
    pub(crate) ledger: Rc<Ledger>,
    pub(crate) free_before: u64,
    pub(crate) multiprocessors: Multiprocessors,
}

impl PreparedCase {
    fn bind(&self) -> Result<(), BackendError> {
        self.context.bind_to_thread().doing(|| "binding the device to this thread".into())
    }

    /// Put an event on the stream.
    pub(crate) fn record(&self, event: &CudaEvent) -> Result<(), BackendError> {
        event.record(&self.stream).doing(|| "recording an event".into())
    }

    /// The launches of one execution on a set.
    pub(crate) fn steps(&self, set: usize) -> &[Step] {
        &self.executions[set]
    }

    fn execute(&mut self, times: u32) -> Result<(), BackendError> {
        for _ in 0..times {
            let set = self.rotation.take();
            match self.launching {
                Launching::Graph => self.graphs[set].launch(&self.stream)?,
                _ => self.queue(set)?,
            }
        }
        Ok(())
    }

    /// Queue the stages of one execution on a set, one by one, each on its stream.
    pub(crate) fn queue(&self, set: usize) -> Result<(), BackendError> {
        let steps = self.steps(set);
        self.streams.queue(|stage, stream| steps[stage].launch(stream))
    }

    /// One execution on a set as a graph, ready to be launched.
    pub(crate) fn capture(&self, set: usize) -> Result<Graph, BackendError> {
        Graph::capture(&self.context, &self.stream, || self.queue(set))
    }

    /// A graph for every set, unless they are there.
    fn make_graphs(&mut self) -> Result<(), BackendError> {
        if self.graphs.is_empty() {
            self.bind()?;
            // Once as ever, so that whatever loads at its first launch is there.
            let warmed = self.queue(0);
            self.wait().and(warmed)?;
            self.graphs = (0..self.executions.len()).map(|set| self.capture(set)).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// The lead stands before the first event: while the device works on it, the host queues what is timed, so that the
    /// timed launches lie back to back on the device, however long the host takes for one.
    fn launch_all(&mut self, Batch { lead, repeats }: Batch) -> Result<(), BackendError> {
        self.execute(lead)?;
        self.record(&self.begin)?;
        self.execute(repeats)?;
        self.record(&self.end)
    }

    /// Wait for everything on every stream; this is where errors inside of kernels come to light.
    pub(crate) fn wait(&self) -> Result<(), BackendError> {
        let labels = || self.steps(0).iter().map(|step| &*step.label).collect::<Vec<_>>().join(", ");
        self.streams.wait().doing(|| format!("running {}", labels()))
    }

    /// Copy the first bytes of what the last execution computed to the host, in stream order. What the stages bring to the
    /// host by themselves is there when they are done.
    fn fetch(&self, first: &mut [u8; RESULT]) -> Result<(), BackendError> {
        let buffers = self.specs.iter().zip(&self.sets[self.rotation.last()]);
        let mut computed = buffers.filter(|(spec, _)| matches!(spec.role, Role::Output { .. } | Role::InOut { .. }));
        match computed.find_map(|(_, buffer)| buffer.as_ref()) {
            Some(buffer) => buffer.fetch(first, self.stream.cu_stream()),
            None => Ok(()),
        }
    }

    /// Put back, in every set, what executions change; in stream order.
    fn restore(&self) -> Result<(), BackendError> {
        for (index, first) in &self.first {
            for buffer in self.sets.iter().filter_map(|set| set[*index].as_ref()) {
                buffer.copy_from(first, self.stream.cu_stream())?;
            }
        }
        Ok(())
    }

    /// Run the set-up once on every set, on poisoned buffers, and wait for that.
    pub(crate) fn set_up(&self, stages: &[Vec<Step>]) -> Result<(), BackendError> {
        let run = || {
            for (spec, buffer) in self.sets.iter().flat_map(|set| self.specs.iter().zip(set)) {
                if let (Role::Setup { .. }, Some(buffer)) = (spec.role, buffer) {
                    buffer.poison(POISON, self.stream.cu_stream())?;
                }
            }
            stages.iter().flatten().try_for_each(|step| step.launch(&self.stream))
        };
        let launched = run();
        // Wait also after a failed launch: nothing may be in flight when the buffers are dropped.
        self.wait().and(launched)
    }

    /// The same before a clock starts.
    fn restored(&self) -> Result<(), BackendError> {
        if self.first.is_empty() {
            return Ok(());
        }
        let restored = self.restore();
        // Wait also after a copy that failed: nothing may be in flight when the buffers are dropped.
        self.wait().and(restored)
    }

    /// Poison outputs and scratch of every set, put back what executions change, and wait for that.
    pub(crate) fn poison_all(&self, word: u32) -> Result<(), BackendError> {
        self.bind()?;
        for (spec, buffer) in self.sets.iter().flat_map(|set| self.specs.iter().zip(set)) {
            if let Some(buffer) = buffer.as_ref().filter(|_| spec.role.poisoned()) {
                buffer.poison(word, self.stream.cu_stream())?;
            }
        }
        let restored = self.restore();
        self.wait().and(restored)
    }
}

#[async_trait(?Send)]
impl Prepared for PreparedCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    fn launches(&self) -> Vec<Launch> {
        // Without a device the driver answers no question, and the answers are left out one by one.
        let _ = self.bind();
        self.steps(0).iter().map(|step| step.describe(self.multiprocessors)).collect()
    }

    fn launching(&self) -> Option<Launching> {
        Some(self.launching)
    }

    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        match launching {
            Launching::Stream => {}
            Launching::Graph => self.make_graphs()?,
            other => return Err(BackendError::Unsupported(format!("CUDA has no way `{}` to launch", other.name()))),
        }
        self.launching = launching;
        Ok(())
    }

    fn now(&self) -> Nanos {
        since(self.opened)
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        self.poison_all(word)
    }

    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError> {
        self.bind()?;
        self.restored()?;
        let begin = Instant::now();
        let launched = self.launch_all(batch);
        // Wait also after a failed launch: nothing may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        launched?;
        waited?;
        Ok(Sample { time: elapsed(&self.begin, &self.end)?, host })
    }

    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError> {
        self.bind()?;
        self.restored()?;
        let mut first = [0u8; RESULT];
        let begin = Instant::now();
        let called = self.execute(executions).and_then(|()| match until {
            Awaited::Done => Ok(()),
            Awaited::Result => self.fetch(&mut first),
        });
        // Wait also after a failed launch: nothing may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        called?;
        waited?;
        Ok(host)
    }

    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError> {
        self.bind()?;
        self.restored()?;
        trace(self, stacks)
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        self.bind()?;
        self.wait()?;
        let held = self.sets[self.rotation.last()].get(buffer).and_then(Option::as_ref);
        held.ok_or_else(|| BackendError::Device(format!("buffer {buffer} is not on the device")))?.read(bytes)
    }

    fn memory(&self) -> MemoryStats {
        stats(&self.ledger, &self.context, self.free_before)
    }
}
