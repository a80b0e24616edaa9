//! Device memory with ownership and accounting.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys;
use parallax_ir::Place;
use parallax_ir::device::{BackendError, Entry, Ledger};
use parallax_schema::device::MemoryStats;
use parallax_schema::units::Bytes;

use crate::driver::{
    CudaContext, cuMemAlloc_v2, cuMemFree_v2, cuMemFreeHost, cuMemHostAlloc, cuMemcpyDtoDAsync_v2, cuMemcpyDtoH_v2,
    cuMemcpyDtoHAsync_v2, cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, cuMemsetD8Async,
};
use crate::errors::Context;

/// Returns the memory statistics. `reserved` is the decrease of the driver's free memory since `free_before`.
pub(crate) fn stats(ledger: &Ledger, context: &CudaContext, free_before: u64) -> MemoryStats {
    let info = context.mem_get_info().ok();
    MemoryStats {
        current: ledger.current(),
        peak: ledger.peak(),
        reserved: info.map(|(free, _)| Bytes(free_before.saturating_sub(free))),
        device_used: info.map(|(free, total)| Bytes(total.saturating_sub(free))),
        ..MemoryStats::default()
    }
}

/// An allocation on the device or on the host.
pub(crate) struct Buffer {
    pointer: sys::CUdeviceptr,
    bytes: u64,
    place: Place,
    context: Arc<CudaContext>,
    /// Owned for its drop: the entry in a ledger, and the allocation that this is a part of.
    _entry: Option<Entry>,
    whole: Option<Rc<Buffer>>,
}

impl Buffer {
    /// Allocates device memory; the contents are undefined.
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

    /// Returns a part of a device allocation. Parts may overlap; the caller orders their uses.
    pub(crate) fn part(whole: &Rc<Buffer>, offset: u64, bytes: u64) -> Buffer {
        assert!(offset + bytes <= whole.bytes, "a part lies inside the whole");
        let (pointer, place, context) = (whole.pointer + offset, whole.place, whole.context.clone());
        Buffer { pointer, bytes, place, context, _entry: None, whole: Some(whole.clone()) }
    }

    /// Allocates in the memory that the workload requests. Host memory is zeroed. It is not counted, because the ledger is the
    /// device's.
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
                // SAFETY: the allocation is `bytes` long. Fresh memory holds no bytes that Rust may read.
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

    /// Memory of the allocation.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Host address of host memory.
    fn host(&self) -> Option<*mut u8> {
        self.place.is_host().then(|| std::ptr::with_exposed_provenance_mut(self.pointer as usize))
    }

    /// Device address, or the host address of host memory. Pinned memory has the same address on the device.
    pub(crate) fn pointer(&self) -> sys::CUdeviceptr {
        self.pointer
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies host bytes to `offset`.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackendError> {
        assert!(offset + data.len() as u64 <= self.bytes, "the copy must lie inside the buffer");
        if let Some(host) = self.host() {
            // SAFETY: the range was checked; no device work uses the memory while inputs are written.
            unsafe { host.add(offset as usize).copy_from_nonoverlapping(data.as_ptr(), data.len()) };
            return Ok(());
        }
        // SAFETY: the range was checked, and the call returns after `data` has been read.
        unsafe { cuMemcpyHtoD_v2(self.pointer + offset, data.as_ptr().cast(), data.len()) }
            .doing(|| "copying inputs to the device".into())
    }

    /// Replaces all contents of device memory by host bytes, in stream order.
    ///
    /// # Errors
    /// [`BackendError::Device`]: bytes of another length.
    pub(crate) fn replace(&self, data: &[u8], stream: sys::CUstream) -> Result<(), BackendError> {
        self.takes(data.len() as u64)?;
        assert!(self.place == Place::Device, "host memory has no stream order");
        // SAFETY: the length was checked. The driver has read unpinned memory when the call returns.
        unsafe { cuMemcpyHtoDAsync_v2(self.pointer, data.as_ptr().cast(), data.len(), stream) }
            .doing(|| "copying an input to the device".into())
    }

    /// Checks the length of new contents.
    ///
    /// # Errors
    /// [`BackendError::Device`]: another length than the buffer's.
    pub(crate) fn takes(&self, bytes: u64) -> Result<(), BackendError> {
        match bytes == self.bytes {
            true => Ok(()),
            false => Err(BackendError::Device(format!("an input of {} bytes got {bytes} bytes", self.bytes))),
        }
    }

    /// Copies a range to the host. The caller has waited for the work that writes it.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, BackendError> {
        if range.start > range.end || range.end > self.bytes {
            return Err(BackendError::Device(format!(
                "bytes {}..{} lie outside a buffer of {}",
                range.start, range.end, self.bytes
            )));
        }
        if let Some(host) = self.host() {
            // SAFETY: the range was checked, all of the memory was written at its allocation, and the caller has waited for the
            // work that uses it.
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

    /// Copies the first bytes to the host, in stream order. Host memory is not copied.
    pub(crate) fn fetch(&self, first: &mut [u8], stream: sys::CUstream) -> Result<(), BackendError> {
        let bytes = first.len().min(self.bytes as usize);
        if self.place.is_host() || bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range lies inside both, and the driver has written unpinned memory when the call returns.
        unsafe { cuMemcpyDtoHAsync_v2(first.as_mut_ptr().cast(), self.pointer, bytes, stream) }
            .doing(|| "fetching the first bytes of a result".into())
    }

    /// Copies all of another buffer of the same size, in stream order.
    pub(crate) fn copy_from(&self, other: &Buffer, stream: sys::CUstream) -> Result<(), BackendError> {
        assert_eq!((self.bytes, self.place), (other.bytes, other.place), "copies are of the same size, in one place");
        if let (Some(to), Some(from)) = (self.host(), other.host()) {
            // SAFETY: two allocations of `bytes` bytes, all written; no device work uses them before the caller has finished its
            // copies.
            unsafe { to.copy_from_nonoverlapping(from, self.bytes as usize) };
            return Ok(());
        }
        // SAFETY: both pointers are alive, and the caller waits for the stream before a buffer can be dropped.
        unsafe { cuMemcpyDtoDAsync_v2(self.pointer, other.pointer, self.bytes as usize, stream) }
            .doing(|| "copying inputs on the device".into())
    }

    /// Sets every byte to the byte of `word`, whose four bytes are equal, in stream order.
    pub(crate) fn poison(&self, word: u32, stream: sys::CUstream) -> Result<(), BackendError> {
        let [byte, ..] = word.to_le_bytes();
        if let Some(host) = self.host() {
            // SAFETY: the allocation is `bytes` long; no work is in flight when buffers are poisoned.
            unsafe { host.write_bytes(byte, self.bytes as usize) };
            return Ok(());
        }
        // SAFETY: the pointer is alive, and the caller waits for the stream before the buffer can be dropped.
        unsafe { cuMemsetD8Async(self.pointer, byte, self.bytes as usize, stream) }
            .doing(|| "poisoning a buffer".into())
    }
}

/// Layout of pageable host memory, aligned for caches and vector instructions.
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
                // SAFETY: allocated by `at` with this layout, and freed only here; the caller has waited for all work.
                unsafe { std::alloc::dealloc(host, pageable(self.bytes)) };
                return;
            }
            (_, Some(host)) => {
                if self.context.bind_to_thread().is_ok() {
                    // SAFETY: allocated by `at`, and freed only here; the caller has waited for all work.
                    let _ = unsafe { cuMemFreeHost(host.cast()) };
                }
                return;
            }
            (_, None) => {}
        }
        // A lost device makes both calls fail; its memory is then gone.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `new` and freed only here; freeing waits for work that uses it.
            let _ = unsafe { cuMemFree_v2(self.pointer) };
        }
    }
}
