//! A case on a wgpu device.

use std::any::Any;
use std::ops::Range;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_ir::device::{Awaited, BackendError, Batch, Contents, Ledger, Prepared, Rotation, Sample};
use parallax_ir::{Case, Inputs};
use parallax_schema::device::{Compiled, Dialect, Launch, Launching, MemoryStats, Trace};
use parallax_schema::units::{Bytes, Nanos};
use web_time::Instant;

use crate::buffers::Buffers;
use crate::compile::ProgramSource;
use crate::gpu::Gpu;
use crate::launch::{BoundStage, Pass, batch};
use crate::mapped;
use crate::memory::TrackedBuffer;
use crate::poison::{Fill, Poison};
use crate::timing::Timestamps;
use crate::trace::trace;

/// Bytes that represent a result in the measurement of read-back.
const RESULT: u64 = 16;

/// A prepared case: compiled, allocated, filled.
pub struct WgpuCase {
    pub gpu: Rc<Gpu>,
    pub timestamps: Option<Rc<Timestamps>>,
    pub compiled: Compiled,
    pub source: ProgramSource,
    pub ledger: Rc<Ledger>,
    pub buffers: Buffers,
    pub steps: Vec<BoundStage>,
    pub poison: Rc<Poison>,
    /// Fills that poison the buffers.
    pub fills: Vec<Fill>,
    pub rotation: Rotation,
    pub launching: Launching,
    /// The case and its set-up, for other inputs; `None` for kernel sources of the caller.
    pub origin: Option<Origin>,
}

/// Case of a preparation, with the stages of its set-up.
pub struct Origin {
    pub case: Case,
    pub setup: Vec<BoundStage>,
    /// Positions of the buffers that the set-up accesses.
    pub of_setup: Vec<usize>,
}

impl Origin {
    /// Whether the results of the set-up depend on one of these inputs.
    fn depends(&self, inputs: &[(usize, Contents<'_>)]) -> bool {
        inputs.iter().any(|(index, _)| self.of_setup.contains(index))
    }
}

/// Read-back of the first bytes of a result.
enum Fetched<'a> {
    /// The stages copy the result to the host.
    Brought(&'a wgpu::Buffer),
    /// An additional copy to a mappable buffer.
    PassCopy { from: &'a wgpu::Buffer, staging: TrackedBuffer, bytes: u64 },
}

impl Fetched<'_> {
    fn mapped(&self) -> &wgpu::Buffer {
        match self {
            Fetched::Brought(buffer) => buffer,
            Fetched::PassCopy { staging, .. } => &staging.buffer,
        }
    }

    fn bytes(&self) -> u64 {
        self.mapped().size().min(RESULT)
    }
}

impl WgpuCase {
    /// Returns the read-back of the result of the last of `executions` executions.
    fn result(&self, executions: u32) -> Fetched<'_> {
        use wgpu::BufferUsages as U;
        let set = self.rotation.ahead(u64::from(executions).saturating_sub(1));
        if let Some(buffer) = self.buffers.brought(set) {
            return Fetched::Brought(buffer);
        }
        let from = self.buffers.written_last(set);
        let bytes = from.size().min(RESULT);
        let staging = TrackedBuffer::new(&self.ledger, &self.gpu.device, "result", bytes, U::MAP_READ | U::COPY_DST);
        Fetched::PassCopy { from, staging, bytes }
    }

    /// Restores the buffers that executions modify, before a clock starts.
    async fn restore(&self) -> Result<(), BackendError> {
        if !self.buffers.changes() {
            return Ok(());
        }
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        self.buffers.restore(&mut encoder);
        self.gpu.finish(encoder).await
    }
}

#[async_trait(?Send)]
impl Prepared for WgpuCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    async fn compile_again(&mut self) -> Result<(), BackendError> {
        self.compiled.repeat = Some(self.source.compile_again(&self.gpu).await?);
        Ok(())
    }

    fn launches(&self) -> Vec<Launch> {
        self.steps.iter().map(BoundStage::launch).collect()
    }

    fn launching(&self) -> Option<Launching> {
        Some(self.launching)
    }

    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        if !Launching::choices(Dialect::Wgsl).contains(&launching) {
            return Err(BackendError::Unsupported(format!("WebGPU has no launch mode `{}`", launching.name())));
        }
        self.launching = launching;
        Ok(())
    }

    async fn refill(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        let unknown = || BackendError::Unsupported("a kernel source of the caller keeps its contents".to_owned());
        let Origin { case, setup, .. } = self.origin.as_ref().ok_or_else(unknown)?;
        self.buffers.fill(&self.gpu, case, inputs).await?;
        if setup.is_empty() {
            return Ok(());
        }
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        self.buffers.encode_setup(&mut encoder, setup);
        self.gpu.finish(encoder).await
    }

    fn enqueues(&self) -> bool {
        self.origin.is_some() && !self.buffers.changes()
    }

    async fn enqueue(&mut self, inputs: &[(usize, Contents<'_>)]) -> Result<(), BackendError> {
        if !self.enqueues() {
            return Err(BackendError::Unsupported("this case needs all its inputs at once".to_owned()));
        }
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        for (index, contents) in inputs {
            match contents {
                Contents::Bytes(bytes) => self.buffers.write(&self.gpu, *index, bytes)?,
                Contents::Buffer(case, from) => {
                    let case: &dyn Any = *case;
                    let of_another = || BackendError::Device("a buffer of another device cannot be copied".to_owned());
                    let case = case.downcast_ref::<WgpuCase>().filter(|case| Rc::ptr_eq(&case.gpu, &self.gpu));
                    let case = case.ok_or_else(of_another)?;
                    let from = case.buffers.get(case.rotation.last(), *from)?;
                    self.buffers.copy_from(&mut encoder, *index, from)?;
                }
            }
        }
        if let Some(origin) = self.origin.as_ref().filter(|origin| origin.depends(inputs)) {
            self.buffers.encode_setup(&mut encoder, &origin.setup);
        }
        let work = (&self.steps[..], self.launching);
        let executed = batch(&self.gpu, work, self.rotation, Batch::new(1), None, |set| self.buffers.written_last(set));
        self.rotation.advance(1);
        self.gpu.queue.submit([encoder.finish()].into_iter().chain(executed));
        self.gpu.incident()
    }

    fn now(&self) -> Nanos {
        self.gpu.now()
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        self.poison.set(&self.gpu, word);
        self.buffers.poison_host(&self.gpu, word, |role| role.poisoned());
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        let mut pass = Pass::begin(&mut encoder, Some("poison"), None);
        self.fills.iter().for_each(|fill| fill.encode(&mut pass));
        drop(pass);
        self.buffers.restore(&mut encoder);
        self.gpu.finish(encoder).await
    }

    async fn measure(&mut self, asked: Batch) -> Result<Sample, BackendError> {
        self.restore().await?;
        let timestamps = self.timestamps.as_deref();
        let commands = batch(&self.gpu, (&self.steps, self.launching), self.rotation, asked, timestamps, |set| {
            self.buffers.written_last(set)
        });
        self.rotation.advance(u64::from(asked.lead) + u64::from(asked.repeats));
        let submitted = Instant::now();
        self.gpu.queue.submit(commands);
        // One round trip in both cases: the mapping of the timestamps waits for the work too.
        let time = match timestamps {
            Some(timestamps) => Some(timestamps.read(&self.gpu, 2).await?[1]),
            None => {
                self.gpu.done().await?;
                None
            }
        };
        let host = submitted.elapsed().as_nanos() as f64;
        Ok(Sample { time: Nanos(time.unwrap_or(host)), host: Nanos(host) })
    }

    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError> {
        self.restore().await?;
        let result = (until == Awaited::Result).then(|| self.result(executions));
        // A call is that of an ordinary page.
        let _unprompted = self.gpu.unprompted();
        let begun = Instant::now();
        let work = (&self.steps[..], self.launching);
        let mut commands =
            batch(&self.gpu, work, self.rotation, Batch::new(executions), None, |set| self.buffers.written_last(set));
        if let Some(Fetched::PassCopy { from, staging, bytes }) = &result {
            let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(from, 0, &staging.buffer, 0, *bytes);
            commands.push(encoder.finish());
        }
        self.gpu.queue.submit(commands);
        match &result {
            None => self.gpu.done().await?,
            Some(fetched) => drop(self.gpu.map(fetched.mapped(), 0..fetched.bytes()).await?),
        }
        let host = begun.elapsed().as_nanos() as f64;
        self.rotation.advance(u64::from(executions));
        Ok(Nanos(host))
    }

    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError> {
        self.restore().await?;
        let set = self.rotation.ahead(0);
        self.rotation.advance(1);
        trace(&self.gpu, self.timestamps.as_deref(), &self.steps, set, stacks).await
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let buffer = self.buffers.get(self.rotation.last(), buffer)?;
        match mapped::is_read(buffer) {
            true => mapped::read(&self.gpu, buffer, bytes).await,
            false => self.gpu.read(&self.ledger, buffer, bytes).await,
        }
    }

    fn memory(&self) -> MemoryStats {
        MemoryStats {
            current: self.ledger.current(),
            peak: self.ledger.peak(),
            reserved: self.gpu.device.generate_allocator_report().map(|r| Bytes(r.total_reserved_bytes)),
            ..MemoryStats::default()
        }
    }
}
