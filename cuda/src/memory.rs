//! Device memory that frees itself and is counted.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys;
use parallax_core::device::{BackendError, Entry, Ledger, MemoryStats};
use parallax_core::suite::Place;
use parallax_core::units::Bytes;

use crate::driver::{
    CudaContext, cuMemAlloc_v2, cuMemFree_v2, cuMemFreeHost, cuMemHostAlloc, cuMemcpyDtoDAsync_v2, cuMemcpyDtoH_v2,
    cuMemcpyDtoHAsync_v2, cuMemcpyHtoD_v2, cuMemsetD8Async,
};
use crate::errors::Context;

/// What is held, beside what the driver says is gone from its free memory since `free_before`.
pub(crate) fn stats(ledger: &Ledger, context: &CudaContext, free_before: u64) -> MemoryStats {
    let info = context.mem_get_info().ok();
    MemoryStats {
        current: ledger.current(),
        peak: ledger.peak(),
        reserved: info.map(|(free, _)| Bytes(free_before.saturating_sub(free))),
        planned: None,
        device_used: info.map(|(free, total)| Bytes(total.saturating_sub(free))),
    }
}

/// One allocation, on the device or on the host.
pub(crate) struct Buffer {
    pointer: sys::CUdeviceptr,
    bytes: u64,
    place: Place,
    context: Arc<CudaContext>,
    /// Held as long as this lives: what counts it in a ledger, and the allocation that it is a part of.
    _entry: Option<Entry>,
    whole: Option<Rc<Buffer>>,
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
        let mut pointer = 0;
        // SAFETY: the context is current; the pointer is owned by the returned value and freed once, by its drop.
        unsafe { cuMemAlloc_v2(&mut pointer, bytes as usize) }.doing(doing)?;
        let entry = ledger.enter(bytes);
        let (place, context) = (Place::Device, context.clone());
        Ok(Buffer { pointer, bytes, place, context, _entry: Some(entry), whole: None })
    }

    /// A part of an allocation on the device. Parts may overlap: whose turn it is, is the caller's business.
    pub(crate) fn part(whole: &Rc<Buffer>, offset: u64, bytes: u64) -> Buffer {
        assert!(offset + bytes <= whole.bytes, "a part lies inside the whole");
        let (pointer, place, context) = (whole.pointer + offset, whole.place, whole.context.clone());
        Buffer { pointer, bytes, place, context, _entry: None, whole: Some(whole.clone()) }
    }

    /// Allocate where the workload wants it. Host memory is zero, and is not counted: the ledger is the device's.
    pub(crate) fn at(
        place: Place,
        context: &Arc<CudaContext>,
        ledger: &Rc<Ledger>,
        name: &str,
        bytes: u64,
    ) -> Result<Buffer, BackendError> {
        let doing = || format!("allocating {} of host memory for `{name}`", Bytes(bytes));
        let pointer = match place {
            Place::Device | Place::EachRank => return Buffer::new(context, ledger, name, bytes),
            Place::HostPinned => {
                context.bind_to_thread().doing(doing)?;
                let mut pointer = std::ptr::null_mut();
                // SAFETY: the context is current; the memory is owned by the returned value and freed once, by its drop.
                unsafe { cuMemHostAlloc(&mut pointer, bytes as usize, 0) }.doing(doing)?;
                // SAFETY: the allocation is so many bytes long. Fresh memory holds nothing that Rust may read.
                unsafe { pointer.cast::<u8>().write_bytes(0, bytes as usize) };
                pointer.cast::<u8>()
            }
            Place::HostPageable => {
                // SAFETY: the layout has a size.
                let pointer = unsafe { std::alloc::alloc_zeroed(pageable(bytes)) };
                if pointer.is_null() {
                    return Err(BackendError::OutOfMemory(doing()));
                }
                pointer
            }
        };
        let pointer = pointer.expose_provenance() as sys::CUdeviceptr;
        Ok(Buffer { pointer, bytes, place, context: context.clone(), _entry: None, whole: None })
    }

    /// Where it is.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The host address of memory that is the host's.
    fn host(&self) -> Option<*mut u8> {
        self.place.is_host().then(|| std::ptr::with_exposed_provenance_mut(self.pointer as usize))
    }

    /// The address: the device's, or for host memory the host's, under which the device knows pinned memory too.
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
        if let Some(host) = self.host() {
            // SAFETY: the range was checked; nothing on the device uses the memory while inputs are written.
            unsafe { host.add(offset as usize).copy_from_nonoverlapping(data.as_ptr(), data.len()) };
            return Ok(());
        }
        // SAFETY: the range was checked, and the call returns after `data` has been read.
        unsafe { cuMemcpyHtoD_v2(self.pointer + offset, data.as_ptr().cast(), data.len()) }
            .doing(|| "copying inputs to the device".into())
    }

    /// Copy a range to the host. The caller has waited for the work that writes it.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, BackendError> {
        if range.start > range.end || range.end > self.bytes {
            return Err(BackendError::Device(format!(
                "bytes {}..{} of a buffer of {} were asked for",
                range.start, range.end, self.bytes
            )));
        }
        if let Some(host) = self.host() {
            // SAFETY: the range was checked, all of the memory was written when it was allocated, and the caller has
            // waited for the work that uses it.
            let data = unsafe { std::slice::from_raw_parts(host, self.bytes as usize) };
            return Ok(data[range.start as usize..range.end as usize].to_vec());
        }
        let mut data = vec![0u8; (range.end - range.start) as usize];
        if !data.is_empty() {
            // SAFETY: the range was checked, and the call returns after `data` has been written.
            unsafe { cuMemcpyDtoH_v2(data.as_mut_ptr().cast(), self.pointer + range.start, data.len()) }
                .doing(|| "reading results back".into())?;
        }
        Ok(data)
    }

    /// Copy the first bytes to the host, in stream order; nothing, where this is the host's memory.
    pub(crate) fn fetch(&self, first: &mut [u8], stream: sys::CUstream) -> Result<(), BackendError> {
        let bytes = first.len().min(self.bytes as usize);
        if self.place.is_host() || bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range lies inside of both, and the driver has written memory that is not pinned when the call returns.
        unsafe { cuMemcpyDtoHAsync_v2(first.as_mut_ptr().cast(), self.pointer, bytes, stream) }
            .doing(|| "fetching the first bytes of a result".into())
    }

    /// Copy all of another buffer of the same size, in stream order.
    pub(crate) fn copy_from(&self, other: &Buffer, stream: sys::CUstream) -> Result<(), BackendError> {
        assert_eq!((self.bytes, self.place), (other.bytes, other.place), "copies are of the same size, in one place");
        if let (Some(to), Some(from)) = (self.host(), other.host()) {
            // SAFETY: two allocations of so many bytes, all written; nothing on the device uses them before the caller
            // has copied what it wants.
            unsafe { to.copy_from_nonoverlapping(from, self.bytes as usize) };
            return Ok(());
        }
        // SAFETY: both pointers are alive, and the caller waits for the stream before a buffer can be dropped.
        unsafe { cuMemcpyDtoDAsync_v2(self.pointer, other.pointer, self.bytes as usize, stream) }
            .doing(|| "copying inputs on the device".into())
    }

    /// Set every byte to that of a word of four equal bytes, in stream order.
    pub(crate) fn poison(&self, word: u32, stream: sys::CUstream) -> Result<(), BackendError> {
        let [byte, ..] = word.to_le_bytes();
        if let Some(host) = self.host() {
            // SAFETY: so many bytes; nothing is in flight when buffers are poisoned.
            unsafe { host.write_bytes(byte, self.bytes as usize) };
            return Ok(());
        }
        // SAFETY: the pointer is alive, and the caller waits for the stream before the buffer can be dropped.
        unsafe { cuMemsetD8Async(self.pointer, byte, self.bytes as usize, stream) }
            .doing(|| "poisoning a buffer".into())
    }
}

/// The layout of ordinary host memory, aligned as caches and vectors like it.
fn pageable(bytes: u64) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align((bytes as usize).max(1), 64).expect("fewer bytes than addresses")
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.whole.is_some() {
            return;
        }
        match (self.place, self.host()) {
            (Place::HostPageable, Some(host)) => {
                // SAFETY: allocated by `at` with this layout, and freed only here; all work was waited for.
                unsafe { std::alloc::dealloc(host, pageable(self.bytes)) };
                return;
            }
            (_, Some(host)) => {
                if self.context.bind_to_thread().is_ok() {
                    // SAFETY: allocated by `at`, and freed only here; all work was waited for.
                    let _ = unsafe { cuMemFreeHost(host.cast()) };
                }
                return;
            }
            (_, None) => {}
        }
        // A lost device makes both calls fail; its memory is gone then anyway.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `new` and freed only here; freeing waits for work that uses it.
            let _ = unsafe { cuMemFree_v2(self.pointer) };
        }
    }
}
