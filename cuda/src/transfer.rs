//! Timed transfers between host and device.

use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use parallax_ir::device::{BackendError, Ledger, POISON, Transfer};
use parallax_schema::units::Nanos;

use crate::driver::{
    CudaContext, CudaStream, cuMemFreeHost, cuMemHostAlloc, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2,
};
use crate::errors::Context;
use crate::events::since;
use crate::memory::Buffer;

/// Returns the host time of a transfer of `bytes` between page-locked memory and the device, including the copy's completion.
///
/// The device accesses page-locked memory itself. So the measurement covers the link, and not the driver's copy through a buffer of
/// its own. Both memories exist before the time starts.
pub(crate) fn transfer(
    context: &Arc<CudaContext>,
    stream: &CudaStream,
    way: Transfer,
    bytes: u64,
) -> Result<Nanos, BackendError> {
    // These bytes belong to no case. The profiler's ledger does not count them.
    let device = Buffer::new(context, &Rc::new(Ledger::default()), "transfer", bytes)?;
    let mut host = PageLocked::new(context, bytes)?;
    host.bytes_mut().fill(0x5A);
    device.poison(POISON, stream.cu_stream())?;
    stream.synchronize().doing(|| "waiting before a transfer".into())?;

    let began = Instant::now();
    let queued = match way {
        // SAFETY: both memories are alive until the stream is synchronised, below, and of the same size.
        Transfer::Upload => unsafe {
            cuMemcpyHtoDAsync_v2(device.pointer(), host.pointer, host.bytes, stream.cu_stream())
        },
        // SAFETY: as above.
        Transfer::Download => unsafe {
            cuMemcpyDtoHAsync_v2(host.pointer, device.pointer(), host.bytes, stream.cu_stream())
        },
    };
    let waited = stream.synchronize();
    let time = since(began);
    queued.and(waited).doing(|| "moving bytes between host and device".into())?;
    Ok(time)
}

/// Host memory that the device accesses directly.
struct PageLocked {
    pointer: *mut c_void,
    bytes: usize,
    context: Arc<CudaContext>,
}

impl PageLocked {
    fn new(context: &Arc<CudaContext>, bytes: u64) -> Result<PageLocked, BackendError> {
        let doing = || format!("allocating {bytes} bytes of page-locked host memory");
        context.bind_to_thread().doing(doing)?;
        let bytes = bytes as usize;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the context is current; the memory is owned by the returned value and freed once, by its drop.
        unsafe { cuMemHostAlloc(&mut pointer, bytes, 0) }.doing(doing)?;
        // Fresh memory holds no bytes that Rust may read.
        // SAFETY: the allocation is `bytes` long.
        unsafe { pointer.cast::<u8>().write_bytes(0, bytes) };
        Ok(PageLocked { pointer, bytes, context: context.clone() })
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is `bytes` initialised bytes long, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.cast(), self.bytes) }
    }
}

impl Drop for PageLocked {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `new` and freed only here, after the completion of the work that uses it.
            let _ = unsafe { cuMemFreeHost(self.pointer) };
        }
    }
}
