//! Device memory with ownership and accounting.

use std::rc::Rc;

use parallax_ir::device::{Entry, Ledger};

/// Bytes of input generated and uploaded at a time. The limit bounds host memory and the time between yields.
pub const UPLOAD: u64 = 4 << 20;

/// Returns the padded size of a buffer. Kernels may access the last elements as a vector.
pub fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(16).max(16)
}

/// A buffer counted by a ledger, and freed at its drop.
pub struct TrackedBuffer {
    /// The buffer.
    pub buffer: wgpu::Buffer,
    _entry: Entry,
}

impl TrackedBuffer {
    /// Creates a buffer of the padded size.
    ///
    /// The error scope around this call receives a failed allocation.
    pub fn new(
        ledger: &Rc<Ledger>,
        device: &wgpu::Device,
        label: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> TrackedBuffer {
        let size = padded(bytes);
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        TrackedBuffer { buffer: device.create_buffer(&descriptor), _entry: ledger.enter(size) }
    }
}

impl Drop for TrackedBuffer {
    fn drop(&mut self) {
        self.buffer.destroy();
    }
}
