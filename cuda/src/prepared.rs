//! A case on the device: execution, timing and read-back.

use std::any::Any;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use parallax_ir::device::{Awaited, BackendError, Batch, Contents, Ledger, POISON, Prepared, Rotation, Sample};
use parallax_ir::{BufferSpec, Inputs, Place, QueueCommand, Role};
use parallax_schema::case::DType;
use parallax_schema::device::{Compiled, Launch, Launching, MemoryStats, Trace};
use parallax_schema::record::CounterFigures;
use parallax_schema::units::Nanos;

use crate::counters::count;
use crate::driver::{CudaContext, CudaEvent, CudaStream};
use crate::errors::Context;
use crate::events::{elapsed, since};
use crate::graph::Graph;
use crate::launch::{BoundStage, Module};
use crate::memory::{Buffer, stats};
use crate::nvtx;
use crate::occupancy::Multiprocessors;
use crate::prepare::fill;
use crate::streams::Streams;
use crate::trace::trace;

/// A set of buffers in the workload's order; `None` for scratch that no stage uses.
pub(crate) type Set = Vec<Option<Buffer>>;

/// Bytes that represent a result in the measurement of read-back.
pub(crate) const RESULT: usize = 16;

/// A case on the device. All its members free themselves.
pub(crate) struct PreparedCase {
    /// Canonical string of the case.
    pub(crate) name: String,
    /// Mode of launching the stages.
    pub(crate) launching: Launching,
    /// Graph of one execution on each set of buffers, made on request.
    pub(crate) graphs: Vec<Graph>,
    /// Launches of the set-up, on each set of buffers.
    pub(crate) setup: Vec<Vec<BoundStage>>,
    /// Positions of the buffers that the set-up accesses.
    pub(crate) of_setup: Vec<usize>,
    /// Launches of one execution, on each set of buffers.
    pub(crate) executions: Vec<Vec<BoundStage>>,
    pub(crate) rotation: Rotation,
    pub(crate) specs: Vec<BufferSpec>,
    pub(crate) dtype: DType,
    pub(crate) begin: CudaEvent,
    pub(crate) end: CudaEvent,
    pub(crate) sets: Vec<Set>,
    /// Buffers that executions modify, before the first one: position and contents.
    pub(crate) first: Vec<(usize, Buffer)>,
    /// Workspace of the library's GEMMs, where the case calls the library.
    pub(crate) _workspace: Option<Buffer>,
    pub(crate) _modules: Vec<Module>,
    pub(crate) compiled: Compiled,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    /// `stream` and the additional streams.
    pub(crate) streams: Streams,
    pub(crate) opened: Instant,
    pub(crate) ledger: Rc<Ledger>,
    pub(crate) free_before: u64,
    pub(crate) multiprocessors: Multiprocessors,
}

impl PreparedCase {
    pub(crate) fn bind(&self) -> Result<(), BackendError> {
        self.context.bind_to_thread().doing(|| "binding the device to this thread".into())
    }

    /// Records an event on the stream.
    pub(crate) fn record(&self, event: &CudaEvent) -> Result<(), BackendError> {
        event.record(&self.stream).doing(|| "recording an event".into())
    }

    /// Launches of one execution on a set.
    pub(crate) fn steps(&self, set: usize) -> &[BoundStage] {
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

    /// Queues the stages of one execution on a set, one by one, each on its stream.
    pub(crate) fn queue(&self, set: usize) -> Result<(), BackendError> {
        let steps = self.steps(set);
        self.streams.queue(|stage, stream| steps[stage].launch(stream))
    }

    /// Issues some commands of one execution on a set, which follow those before them.
    pub(crate) fn obey(&self, set: usize, orders: &[QueueCommand]) -> Result<(), BackendError> {
        let steps = self.steps(set);
        self.streams.obey(orders, |stage, stream| steps[stage].launch(stream))
    }

    /// Captures one execution on a set as an executable graph.
    pub(crate) fn capture(&self, set: usize) -> Result<Graph, BackendError> {
        Graph::capture(&self.context, &self.stream, || self.queue(set))
    }

    /// Makes a graph for every set, unless they exist.
    fn make_graphs(&mut self) -> Result<(), BackendError> {
        if self.graphs.is_empty() {
            self.bind()?;
            // One ordinary execution first loads everything that loads at its first launch.
            let warmed = self.queue(0);
            self.wait().and(warmed)?;
            self.graphs = (0..self.executions.len()).map(|set| self.capture(set)).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Queues a batch. The lead stands before the first event. While the device works on it, the host queues the timed launches.
    /// They are then contiguous on the device, independent of the host's time per launch.
    fn launch_all(&mut self, Batch { lead, repeats }: Batch) -> Result<(), BackendError> {
        self.execute(lead)?;
        self.record(&self.begin)?;
        self.execute(repeats)?;
        self.record(&self.end)
    }

    /// Waits for all work on every stream. Errors inside kernels appear here.
    pub(crate) fn wait(&self) -> Result<(), BackendError> {
        let labels = || self.steps(0).iter().map(|step| &*step.label).collect::<Vec<_>>().join(", ");
        self.streams.wait().doing(|| format!("running {}", labels()))
    }

    /// Copies the first bytes of the last execution's result to the host, in stream order. Results that the stages themselves copy
    /// to the host are there when the stages complete.
    pub(crate) fn fetch(&self, first: &mut [u8; RESULT]) -> Result<(), BackendError> {
        let buffers = self.specs.iter().zip(&self.sets[self.rotation.last()]);
        let mut computed = buffers.filter(|(spec, _)| matches!(spec.role, Role::Output { .. } | Role::InOut { .. }));
        match computed.find_map(|(_, buffer)| buffer.as_ref()) {
            Some(buffer) => buffer.fetch(first, self.stream.cu_stream()),
            None => Ok(()),
        }
    }

    /// Restores, in every set, the buffers that executions modify, in stream order.
    fn restore(&self) -> Result<(), BackendError> {
        for (index, first) in &self.first {
            for buffer in self.sets.iter().filter_map(|set| set[*index].as_ref()) {
                buffer.copy_from(first, self.stream.cu_stream())?;
            }
        }
        Ok(())
    }

    /// Runs the set-up once on every set, on poisoned buffers, and waits for it.
    pub(crate) fn set_up(&self) -> Result<(), BackendError> {
        let run = || {
            for (spec, buffer) in self.sets.iter().flat_map(|set| self.specs.iter().zip(set)) {
                if let (Role::Setup { .. }, Some(buffer)) = (spec.role, buffer) {
                    buffer.poison(POISON, self.stream.cu_stream())?;
                }
            }
            self.setup.iter().flatten().try_for_each(|step| step.launch(&self.stream))
        };
        let launched = run();
        // Wait also after a failed launch: no work may be in flight when the buffers are dropped.
        self.wait().and(launched)
    }

    /// Restores the buffers, and waits, before a clock starts.
    pub(crate) fn restored(&self) -> Result<(), BackendError> {
        if self.first.is_empty() {
            return Ok(());
        }
        let restored = self.restore();
        // Wait also after a failed copy: no work may be in flight when the buffers are dropped.
        self.wait().and(restored)
    }

    /// Returns the buffer of a position in the set of the last execution.
    fn last(&self, buffer: usize) -> Result<&Buffer, BackendError> {
        let held = self.sets[self.rotation.last()].get(buffer).and_then(Option::as_ref);
        held.ok_or_else(|| BackendError::Device(format!("buffer {buffer} is not on the device")))
    }

    /// Replaces an input of every set, in stream order.
    fn replace(&self, index: usize, contents: Contents<'_>) -> Result<(), BackendError> {
        let stream = self.stream.cu_stream();
        let inputs = self.sets.iter().filter_map(|set| set.get(index)?.as_ref());
        match contents {
            Contents::Bytes(bytes) => inputs.into_iter().try_for_each(|input| input.replace(bytes, stream)),
            Contents::Buffer(case, from) => {
                let case: &dyn Any = case;
                let on_stream = |case: &&PreparedCase| Arc::ptr_eq(&case.stream, &self.stream);
                let case = case.downcast_ref::<PreparedCase>().filter(on_stream);
                let of_another = || BackendError::Device("a buffer of another device cannot be copied".to_owned());
                let from = case.ok_or_else(of_another)?.last(from)?;
                inputs.into_iter().try_for_each(|input| {
                    input.takes(from.bytes())?;
                    input.copy_from(from, stream)
                })
            }
        }
    }

    /// Poisons outputs and scratch of every set, restores the buffers that executions modify, and waits.
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
        // Without a device the driver returns no attributes, and the description omits them.
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
            other => return Err(BackendError::Unsupported(format!("CUDA has no launch mode `{}`", other.name()))),
        }
        self.launching = launching;
        Ok(())
    }

    async fn refill(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        self.bind()?;
        self.wait()?;
        fill(&self.context, &self.stream, &self.specs, &self.sets, (inputs, self.dtype))?;
        let kept = self.first.iter().try_for_each(|(index, first)| match &self.sets[0][*index] {
            Some(buffer) => first.copy_from(buffer, self.stream.cu_stream()),
            None => Ok(()),
        });
        // Wait also after a failed copy: no work may be in flight when the buffers are dropped.
        self.wait().and(kept)?;
        self.set_up()
    }

    fn enqueues(&self) -> bool {
        let on_device = self.specs.iter().all(|spec| spec.place == Place::Device);
        on_device && self.first.is_empty()
    }

    async fn enqueue(&mut self, inputs: &[(usize, Contents<'_>)]) -> Result<(), BackendError> {
        if !self.enqueues() {
            return Err(BackendError::Unsupported("this case needs all its inputs at once".to_owned()));
        }
        let _range = nvtx::range(&self.name);
        self.bind()?;
        inputs.iter().try_for_each(|(index, contents)| self.replace(*index, *contents))?;
        if inputs.iter().any(|(index, _)| self.of_setup.contains(index)) {
            self.setup.iter().flatten().try_for_each(|step| step.launch(&self.stream))?;
        }
        self.execute(1)
    }

    fn now(&self) -> Nanos {
        since(self.opened)
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        self.poison_all(word)
    }

    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError> {
        let _range = nvtx::range(&self.name);
        self.bind()?;
        self.restored()?;
        let begin = Instant::now();
        let launched = self.launch_all(batch);
        // Wait also after a failed launch: no work may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        launched?;
        waited?;
        Ok(Sample { time: elapsed(&self.begin, &self.end)?, host })
    }

    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError> {
        let _range = nvtx::range(&self.name);
        self.bind()?;
        self.restored()?;
        let mut first = [0u8; RESULT];
        let begin = Instant::now();
        let called = self.execute(executions).and_then(|()| match until {
            Awaited::Done => Ok(()),
            Awaited::Result => self.fetch(&mut first),
        });
        // Wait also after a failed launch: no work may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        called?;
        waited?;
        Ok(host)
    }

    async fn count(&mut self) -> Result<CounterFigures, BackendError> {
        let _range = nvtx::range(&self.name);
        self.bind()?;
        count(self)
    }

    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError> {
        let _range = nvtx::range(&self.name);
        self.bind()?;
        self.restored()?;
        trace(self, stacks)
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        self.bind()?;
        self.wait()?;
        self.last(buffer)?.read(bytes)
    }

    fn memory(&self) -> MemoryStats {
        stats(&self.ledger, &self.context, self.free_before)
    }
}

impl Drop for PreparedCase {
    fn drop(&mut self) {
        // Work that nothing has waited for may still use the buffers and the kernels. A lost device has none.
        let _ = self.bind().and_then(|()| self.wait());
    }
}
