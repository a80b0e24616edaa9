//! Device memory that frees itself and is counted.

use std::rc::Rc;

use parallax_core::device::{Entry, Ledger};

/// Bytes of input made and uploaded at a time, which bounds host memory and the time without a breath.
pub const UPLOAD: u64 = 4 << 20;

/// The bytes of a buffer that holds so many: kernels may take the last elements as a vector too.
pub fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(16).max(16)
}

/// A buffer that is counted, and freed at once when dropped.
pub struct Held {
    /// The buffer.
    pub buffer: wgpu::Buffer,
    _entry: Entry,
}

impl Held {
    /// A new buffer of the padded size.
    ///
    /// An allocation that fails is seen by the error scope around this call, never here.
    pub fn new(ledger: &Rc<Ledger>, device: &wgpu::Device, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Held {
        let size = padded(bytes);
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        Held { buffer: device.create_buffer(&descriptor), _entry: ledger.enter(size) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.buffer.destroy();
    }
}
