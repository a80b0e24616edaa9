//! Device memory that frees itself and is counted.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};
use parallax_core::device::{BackendError, MemoryStats};
use parallax_core::units::Bytes;

use crate::errors::Context;

/// Counts the bytes that one case holds.
#[derive(Default)]
pub(crate) struct Ledger {
    current: Cell<u64>,
    peak: Cell<u64>,
}

impl Ledger {
    fn add(&self, bytes: u64) {
        self.current.set(self.current.get() + bytes);
        self.peak.set(self.peak.get().max(self.current.get()));
    }

    fn remove(&self, bytes: u64) {
        self.current.set(self.current.get() - bytes);
    }

    /// What is held, beside what the driver says is gone from its free memory since `free_before`.
    pub(crate) fn stats(&self, context: &CudaContext, free_before: u64) -> MemoryStats {
        let info = context.mem_get_info().ok().map(|(free, total)| (free as u64, total as u64));
        MemoryStats {
            current: Bytes(self.current.get()),
            peak: Bytes(self.peak.get()),
            reserved: info.map(|(free, _)| Bytes(free_before.saturating_sub(free))),
            device_used: info.map(|(free, total)| Bytes(total.saturating_sub(free))),
        }
    }
}

/// One allocation.
pub(crate) struct Buffer {
    pointer: sys::CUdeviceptr,
    bytes: u64,
    context: Arc<CudaContext>,
    ledger: Rc<Ledger>,
}

impl Buffer {
    /// Allocate; the contents are undefined.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        ledger: &Rc<Ledger>,
        name: &str,
        bytes: u64,
    ) -> Result<Buffer, BackendError> {
        let doing = || format!("allocating {} for `{name}`", Bytes(bytes));
        context.bind_to_thread().doing(doing)?;
        // SAFETY: the context is current; the pointer is owned by the returned value and freed once, by its drop.
        let pointer = unsafe { result::malloc_sync(bytes as usize) }.doing(doing)?;
        ledger.add(bytes);
        Ok(Buffer { pointer, bytes, context: context.clone(), ledger: ledger.clone() })
    }

    /// The device address.
    pub(crate) fn pointer(&self) -> sys::CUdeviceptr {
        self.pointer
    }

    /// Size.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copy host bytes to `offset`.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackendError> {
        assert!(offset + data.len() as u64 <= self.bytes, "the copy must lie inside the buffer");
        // SAFETY: the range was checked, and the call returns after `data` has been read.
        unsafe { result::memcpy_htod_sync(self.pointer + offset, data) }.doing(|| "copying inputs to the device".into())
    }

    /// Copy a range to the host. The caller has waited for the work that writes it.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, BackendError> {
        if range.start > range.end || range.end > self.bytes {
            return Err(BackendError::Device(format!(
                "bytes {}..{} of a buffer of {} were asked for",
                range.start, range.end, self.bytes
            )));
        }
        let mut data = vec![0u8; (range.end - range.start) as usize];
        if !data.is_empty() {
            // SAFETY: the range was checked, and the call returns after `data` has been written.
            unsafe { result::memcpy_dtoh_sync(&mut data, self.pointer + range.start) }
                .doing(|| "reading results back".into())?;
        }
        Ok(data)
    }

    /// Copy all of another buffer of the same size, in stream order.
    pub(crate) fn copy_from(&self, other: &Buffer, stream: sys::CUstream) -> Result<(), BackendError> {
        assert_eq!(self.bytes, other.bytes, "copies are of the same size");
        // SAFETY: both pointers are alive, and the caller waits for the stream before a buffer can be dropped.
        unsafe { result::memcpy_dtod_async(self.pointer, other.pointer, self.bytes as usize, stream) }
            .doing(|| "copying inputs on the device".into())
    }

    /// Set every byte to that of a word of four equal bytes, in stream order.
    pub(crate) fn poison(&self, word: u32, stream: sys::CUstream) -> Result<(), BackendError> {
        let [byte, ..] = word.to_le_bytes();
        // SAFETY: the pointer is alive, and the caller waits for the stream before the buffer can be dropped.
        unsafe { result::memset_d8_async(self.pointer, byte, self.bytes as usize, stream) }
            .doing(|| "poisoning a buffer".into())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.ledger.remove(self.bytes);
        // A lost device makes both calls fail; its memory is gone then anyway.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `new` and freed only here; freeing waits for work that uses it.
            let _ = unsafe { result::free_sync(self.pointer) };
        }
    }
}
