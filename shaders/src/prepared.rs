//! A case on a wgpu device.

use std::ops::Range;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_core::device::{
    BackendError, Batch, Compiled, Launch, Launching, Ledger, MemoryStats, Prepared, Rotation, Sample, Trace,
};
use parallax_core::suite::Dialect;
use parallax_core::units::{Bytes, Nanos};
use web_time::Instant;

use crate::buffers::Buffers;
use crate::gpu::Gpu;
use crate::launch::{Pass, Step, batch};
use crate::mapped;
use crate::poison::{Fill, Poison};
use crate::timing::Timestamps;
use crate::trace::trace;

/// Compiled, allocated, filled.
pub struct WgpuCase {
    pub gpu: Rc<Gpu>,
    pub timestamps: Option<Rc<Timestamps>>,
    pub compiled: Compiled,
    pub ledger: Rc<Ledger>,
    pub buffers: Buffers,
    pub steps: Vec<Step>,
    pub poison: Rc<Poison>,
    /// What is poisoned.
    pub fills: Vec<Fill>,
    pub rotation: Rotation,
    pub launching: Launching,
}

impl WgpuCase {
    /// Put back what executions change, before any clock starts.
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

    fn launches(&self) -> Vec<Launch> {
        self.steps.iter().map(Step::launch).collect()
    }

    fn launching(&self) -> Option<Launching> {
        Some(self.launching)
    }

    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        if !Launching::choices(Dialect::Wgsl).contains(&launching) {
            return Err(BackendError::Unsupported(format!("WebGPU has no way `{}` to launch", launching.name())));
        }
        self.launching = launching;
        Ok(())
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
        // One round trip either way: mapping the stamps waits for the work too.
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
            planned: None,
            device_used: None,
        }
    }
}
