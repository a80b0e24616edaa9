//! A device with its queue: submission, completion, read-back and errors.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;
use parallax_ir::device::{BackendError, Ledger};
use parallax_schema::units::Nanos;
use web_time::Instant;

use crate::device_errors::{DeviceErrors, Scopes, backend_error};
use crate::memory::TrackedBuffer;
use crate::wait::{Prompts, Unfinished, drive, yield_now};

/// Device state shared by the profiler and all its prepared cases.
pub struct Gpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub errors: Arc<DeviceErrors>,
    /// Memory of the device-wide buffers.
    pub ledger: Rc<Ledger>,
    opened: Instant,
    correlations: Cell<u32>,
    /// Whether waits prompt the queue.
    prompting: Cell<bool>,
    /// Longest native wait, if it is limited.
    limit: Cell<Option<Duration>>,
}

/// Time until an empty submission is known to be done, from which on waits prompt the queue.
const RARELY: Nanos = Nanos(20e6);

/// Waits without prompts, until it is dropped.
pub struct Unprompted<'a> {
    gpu: &'a Gpu,
    before: bool,
}

impl Drop for Unprompted<'_> {
    fn drop(&mut self) {
        self.gpu.prompting.set(self.before);
    }
}

impl Gpu {
    pub fn new(device: wgpu::Device, queue: wgpu::Queue) -> Gpu {
        let errors = DeviceErrors::new(&device);
        Gpu {
            device,
            queue,
            errors,
            ledger: Rc::default(),
            opened: Instant::now(),
            correlations: Cell::new(0),
            prompting: Cell::new(false),
            limit: Cell::new(None),
        }
    }

    /// Prompts the queue during waits from now on, if the host learns of completed work rarely.
    pub async fn prompt_if_rare(&self) -> Result<(), BackendError> {
        // The first submission has one-time costs.
        self.empty().await?;
        let took = self.empty().await?;
        self.prompting.set(took.0 > RARELY.0);
        Ok(())
    }

    /// Limits native waits from now on. The device counts as lost after a longer one.
    pub fn limit_waits(&self, limit: Duration) {
        self.limit.set(Some(limit));
    }

    /// Makes waits those of an ordinary page, until the result is dropped.
    pub fn unprompted(&self) -> Unprompted<'_> {
        Unprompted { gpu: self, before: self.prompting.replace(false) }
    }

    /// Returns the time until an empty submission is known to be done, without prompts.
    pub async fn empty(&self) -> Result<Nanos, BackendError> {
        let _unprompted = self.unprompted();
        let commands = self.device.create_command_encoder(&Default::default()).finish();
        let began = Instant::now();
        self.queue.submit([commands]);
        self.done().await?;
        Ok(Nanos(began.elapsed().as_nanos() as f64))
    }

    /// Host time since the device was opened.
    pub fn now(&self) -> Nanos {
        Nanos(self.opened.elapsed().as_nanos() as f64)
    }

    /// Returns a number that no other submission on this device has.
    pub fn correlation(&self) -> u32 {
        self.correlations.set(self.correlations.get() + 1);
        self.correlations.get()
    }

    /// Returns the error that has arrived since the last call, if any.
    pub fn incident(&self) -> Result<(), BackendError> {
        self.errors.look()
    }

    /// Makes objects on the device in an error scope.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`] for a failed allocation; other errors of the device.
    pub async fn make<T>(&self, make: impl FnOnce() -> T) -> Result<T, BackendError> {
        let scopes = Scopes::open(&self.device, &self.errors);
        let made = make();
        match scopes.close().await? {
            Some(error) => Err(backend_error(error)),
            None => Ok(made),
        }
    }

    /// Returns a pipeline of a short auxiliary kernel outside the suite.
    pub fn pipeline(&self, entry: &str, wgsl: &str, layout: Option<&wgpu::PipelineLayout>) -> wgpu::ComputePipeline {
        let (label, source) = (Some(entry), wgpu::ShaderSource::Wgsl(wgsl.into()));
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label, source });
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout,
            module: &module,
            entry_point: Some(entry),
            compilation_options: Default::default(),
            cache: None,
        })
    }

    /// Waits for all submitted work.
    pub async fn done(&self) -> Result<(), BackendError> {
        let (done, wait) = oneshot::channel();
        self.queue.on_submitted_work_done(move || {
            // The receiver is gone if the device was lost.
            let _ = done.send(());
        });
        self.answer(wait).await?;
        self.incident()
    }

    /// Submits and waits for the work.
    pub async fn finish(&self, encoder: wgpu::CommandEncoder) -> Result<(), BackendError> {
        self.queue.submit([encoder.finish()]);
        self.done().await
    }

    /// Maps a range of a readable buffer. Waits for the work that fills it.
    pub async fn mapped(&self, buffer: &wgpu::Buffer, range: Range<u64>) -> Result<wgpu::BufferView, BackendError> {
        self.open(buffer, wgpu::MapMode::Read, range.clone()).await?;
        buffer.get_mapped_range(range).map_err(|e| BackendError::Device(e.to_string()))
    }

    /// Maps a range of a buffer in the mode of its usage, and waits.
    pub async fn open(
        &self,
        buffer: &wgpu::Buffer,
        mode: wgpu::MapMode,
        range: Range<u64>,
    ) -> Result<(), BackendError> {
        let (done, wait) = oneshot::channel();
        buffer.map_async(mode, range, move |result| {
            let _ = done.send(result);
        });
        let mapped = self.answer(wait).await?;
        if mapped.is_err() {
            // A page receives a failed mapping before its cause. The device's event arrives after one more yield.
            yield_now().await;
        }
        if let Err(incident) = self.incident() {
            // The next read may use the buffer again.
            if mapped.is_ok() {
                buffer.unmap();
            }
            return Err(incident);
        }
        let way = if mode == wgpu::MapMode::Read { "reading" } else { "writing" };
        mapped.map_err(|_| BackendError::Device(format!("a buffer could not be mapped for {way}")))
    }

    /// Maps a range of a readable buffer, and copies it.
    pub async fn map(&self, buffer: &wgpu::Buffer, range: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let bytes = self.mapped(buffer, range).await?.to_vec();
        buffer.unmap();
        Ok(bytes)
    }

    /// Copies a range of a storage buffer to the host. `ledger` counts the staging buffer.
    pub async fn read(
        &self,
        ledger: &Rc<Ledger>,
        buffer: &wgpu::Buffer,
        range: Range<u64>,
    ) -> Result<Vec<u8>, BackendError> {
        let (start, end) = (range.start / 4 * 4, range.end.next_multiple_of(4));
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let scopes = Scopes::open(&self.device, &self.errors);
        let staging = TrackedBuffer::new(ledger, &self.device, "read back", end - start, usage);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, start, &staging.buffer, 0, end - start);
        self.queue.submit([encoder.finish()]);
        // The result of the scopes arrives in parallel with the mapping, without an additional round trip.
        let caught = scopes.close();
        let bytes = self.map(&staging.buffer, 0..end - start).await;
        if let Some(error) = caught.await? {
            return Err(backend_error(error));
        }
        Ok(bytes?[(range.start - start) as usize..(range.end - start) as usize].to_vec())
    }

    /// Waits for a callback.
    async fn answer<T>(&self, wait: oneshot::Receiver<T>) -> Result<T, BackendError> {
        if let Err(unfinished) = drive(&self.device, self.limit.get()) {
            if let Unfinished::TooLong(limit) = unfinished {
                self.errors.lose(format!("its work did not end within {} s", limit.as_secs_f64()));
            }
            self.errors.alive()?;
            return Err(BackendError::Device(unfinished.to_string()));
        }
        let _prompts = self.prompting.get().then(|| Prompts::new(&self.queue));
        match self.errors.unless_lost(wait).await? {
            Ok(answer) => Ok(answer),
            Err(oneshot::Canceled) => {
                self.errors.alive()?;
                Err(BackendError::Device("the device dropped a callback".to_owned()))
            }
        }
    }
}
