//! Who holds how much device memory: every buffer counts towards one account.

use std::cell::Cell;
use std::rc::Rc;

/// The bytes of a buffer that holds so many: kernels may take the last elements as a vector too.
pub fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(16).max(16)
}

/// The memory of one case, or of what serves the device as a whole.
#[derive(Default)]
pub struct Account {
    held: Cell<u64>,
    peak: Cell<u64>,
}

impl Account {
    /// Bytes held now.
    pub fn held(&self) -> u64 {
        self.held.get()
    }

    /// Most bytes held at any time.
    pub fn peak(&self) -> u64 {
        self.peak.get()
    }

    /// A new buffer on this account, of the padded size.
    ///
    /// An allocation that fails is seen by the error scope around this call, never here.
    pub fn buffer(self: &Rc<Self>, device: &wgpu::Device, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Held {
        let size = padded(bytes);
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        let buffer = device.create_buffer(&descriptor);
        self.held.set(self.held.get() + size);
        self.peak.set(self.peak.get().max(self.held.get()));
        Held { buffer, account: self.clone() }
    }
}

/// A buffer that counts towards an account, and is freed at once when dropped.
pub struct Held {
    /// The buffer.
    pub buffer: wgpu::Buffer,
    account: Rc<Account>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.held.set(self.account.held.get() - self.buffer.size());
        self.buffer.destroy();
    }
}
