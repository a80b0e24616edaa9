//! A device with its queue and its error state: submit, wait, read back, and say what went wrong.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use futures_channel::oneshot;
use parallax_core::profiler::{BackendError, MemoryStats};
use parallax_core::units::{Bytes, Nanos};
use web_time::Instant;

use crate::wait::drive;

/// Errors that arrive outside any call.
#[derive(Default)]
pub struct Incidents {
    /// Why the device was lost.
    pub lost: Mutex<Option<String>>,
    /// The first error no scope caught.
    pub uncaptured: Mutex<Option<BackendError>>,
}

/// Shared by the profiler and everything prepared on it.
pub struct Gpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub incidents: Arc<Incidents>,
    pub opened: Instant,
    held: Rc<Cell<u64>>,
    peak: Cell<u64>,
}

/// A buffer that counts towards the memory held, and is freed at once when dropped.
pub struct Held {
    pub buffer: wgpu::Buffer,
    held: Rc<Cell<u64>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.held.set(self.held.get() - self.buffer.size());
        self.buffer.destroy();
    }
}

/// What a `wgpu` error means to a record.
pub fn backend_error(error: wgpu::Error) -> BackendError {
    match error {
        wgpu::Error::OutOfMemory { source } => BackendError::OutOfMemory(source.to_string()),
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            BackendError::Device(description)
        }
    }
}

impl Gpu {
    pub fn new(device: wgpu::Device, queue: wgpu::Queue) -> Gpu {
        let incidents = Arc::new(Incidents::default());
        let seen = incidents.clone();
        device.set_device_lost_callback(move |reason, message| {
            // Destroying a device on purpose is no incident.
            if reason != wgpu::DeviceLostReason::Destroyed {
                *seen.lost.lock().expect("no panic while held") = Some(format!("{reason:?}: {message}"));
            }
        });
        let seen = incidents.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            seen.uncaptured.lock().expect("no panic while held").get_or_insert(backend_error(error));
        }));
        Gpu { device, queue, incidents, opened: Instant::now(), held: Rc::default(), peak: Cell::new(0) }
    }

    /// Host time since the device was opened.
    pub fn now(&self) -> Nanos {
        Nanos(self.opened.elapsed().as_nanos() as f64)
    }

    /// The error that has arrived since the last look, if any.
    pub fn incident(&self) -> Result<(), BackendError> {
        if let Some(why) = self.incidents.lost.lock().expect("no panic while held").clone() {
            return Err(BackendError::Lost(why));
        }
        match self.incidents.uncaptured.lock().expect("no panic while held").take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// A new buffer; sizes are rounded up to four bytes, as storage bindings must be.
    pub fn buffer(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Held {
        let size = bytes.next_multiple_of(4).max(4);
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        self.held.set(self.held.get() + size);
        self.peak.set(self.peak.get().max(self.held.get()));
        Held { buffer, held: self.held.clone() }
    }

    /// Start a new peak.
    pub fn reset_peak(&self) {
        self.peak.set(self.held.get());
    }

    /// Memory held by our buffers, and reserved by the allocator below where it tells.
    pub fn memory(&self) -> MemoryStats {
        MemoryStats {
            current: Bytes(self.held.get()),
            peak: Bytes(self.peak.get()),
            reserved: self.device.generate_allocator_report().map(|r| Bytes(r.total_reserved_bytes)),
        }
    }

    /// Submit and wait until the work is done.
    pub async fn finish(&self, encoder: wgpu::CommandEncoder) -> Result<(), BackendError> {
        self.queue.submit([encoder.finish()]);
        let (done, wait) = oneshot::channel();
        self.queue.on_submitted_work_done(move || {
            // The receiver lives until the end of this function.
            let _ = done.send(());
        });
        drive(&self.device).map_err(BackendError::Device)?;
        let _ = wait.await;
        self.incident()
    }

    /// Map a buffer that was made for reading, and copy a range of it.
    pub async fn map(&self, buffer: &wgpu::Buffer, range: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let (done, wait) = oneshot::channel();
        buffer.map_async(wgpu::MapMode::Read, range.clone(), move |result| {
            let _ = done.send(result);
        });
        drive(&self.device).map_err(BackendError::Device)?;
        let mapped = wait.await;
        self.incident()?;
        match mapped {
            Ok(Ok(())) => {}
            _ => return Err(BackendError::Device("a buffer could not be mapped for reading".to_owned())),
        }
        let bytes = buffer.get_mapped_range(range).map_err(|e| BackendError::Device(e.to_string()))?.to_vec();
        buffer.unmap();
        Ok(bytes)
    }

    /// Copy a range of a storage buffer to the host.
    pub async fn read(&self, buffer: &wgpu::Buffer, range: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let (start, end) = (range.start / 4 * 4, range.end.next_multiple_of(4));
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = self.buffer("read back", end - start, usage);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, start, &staging.buffer, 0, end - start);
        self.queue.submit([encoder.finish()]);
        let bytes = self.map(&staging.buffer, 0..end - start).await?;
        Ok(bytes[(range.start - start) as usize..(range.end - start) as usize].to_vec())
    }
}
