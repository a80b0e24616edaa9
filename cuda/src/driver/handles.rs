//! Handles of the driver: a device's context, its streams and events. Their drops free them.

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUevent, CUevent_flags, CUevent_wait_flags, CUstream, CUstream_flags,
    CUuuid,
};

use super::DriverError;
use super::calls::*;

/// Number of devices that the driver reports.
pub(crate) fn device_count() -> Result<usize, DriverError> {
    let mut count = 0;
    // SAFETY: the argument outlives the call.
    unsafe { cuDeviceGetCount(&mut count) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns the device with this number.
pub(crate) fn device(ordinal: usize) -> Result<CUdevice, DriverError> {
    let mut device = 0;
    // SAFETY: the argument outlives the call; the driver rejects an unknown number.
    unsafe { cuDeviceGet(&mut device, c_int::try_from(ordinal).unwrap_or(c_int::MAX)) }?;
    Ok(device)
}

/// Name of a device.
pub(crate) fn device_name(device: CUdevice) -> Result<String, DriverError> {
    let mut name = [0u8; 256];
    // SAFETY: the buffer has the given length, and outlives the call.
    unsafe { cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, device) }?;
    Ok(CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned())
}

/// UUID of a device. For a MIG instance, the UUID of the instance.
pub(crate) fn device_uuid(device: CUdevice) -> Result<CUuuid, DriverError> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the argument outlives the call.
    unsafe { cuDeviceGetUuid_v2(&mut uuid, device) }?;
    Ok(uuid)
}

/// Value of a device attribute.
pub(crate) fn device_attribute(device: CUdevice, which: CUdevice_attribute) -> Result<c_int, DriverError> {
    let mut value = 0;
    // SAFETY: the argument outlives the call.
    unsafe { cuDeviceGetAttribute(&mut value, which, device) }?;
    Ok(value)
}

/// The primary context of a device, shared by the process.
pub(crate) struct CudaContext {
    device: CUdevice,
    handle: CUcontext,
}

// SAFETY: the driver's contexts may be used from any thread on which they are current; every use here makes them current.
unsafe impl Send for CudaContext {}
// SAFETY: as above; the driver locks.
unsafe impl Sync for CudaContext {}

impl CudaContext {
    /// Retains the primary context of the device with this number, and makes it current on this thread.
    pub(crate) fn new(ordinal: usize) -> Result<Arc<CudaContext>, DriverError> {
        let (device, mut handle) = (device(ordinal)?, std::ptr::null_mut());
        // SAFETY: the argument outlives the call. The drop releases the context once.
        unsafe { cuDevicePrimaryCtxRetain(&mut handle, device) }?;
        let context = Arc::new(CudaContext { device, handle });
        context.bind_to_thread()?;
        Ok(context)
    }

    /// Device of the context.
    pub(crate) fn cu_device(&self) -> CUdevice {
        self.device
    }

    /// Handle of the context.
    pub(crate) fn cu_context(&self) -> CUcontext {
        self.handle
    }

    /// Makes the context current on this thread.
    pub(crate) fn bind_to_thread(&self) -> Result<(), DriverError> {
        let mut current = std::ptr::null_mut();
        // SAFETY: the argument outlives the call.
        unsafe { cuCtxGetCurrent(&mut current) }?;
        if current == self.handle {
            return Ok(());
        }
        // SAFETY: the context is retained as long as this lives.
        unsafe { cuCtxSetCurrent(self.handle) }
    }

    /// Value of a device attribute.
    pub(crate) fn attribute(&self, which: CUdevice_attribute) -> Result<c_int, DriverError> {
        device_attribute(self.device, which)
    }

    /// Device memory in bytes.
    pub(crate) fn total_mem(&self) -> Result<u64, DriverError> {
        let mut bytes = 0;
        // SAFETY: the argument outlives the call.
        unsafe { cuDeviceTotalMem_v2(&mut bytes, self.device) }?;
        Ok(bytes as u64)
    }

    /// Free and total device memory in bytes.
    pub(crate) fn mem_get_info(&self) -> Result<(u64, u64), DriverError> {
        let (mut free, mut total) = (0, 0);
        self.bind_to_thread()?;
        // SAFETY: the context is current, and the arguments outlive the call.
        unsafe { cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok((free as u64, total as u64))
    }

    /// Waits for all work on the device.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.bind_to_thread()?;
        // SAFETY: the context is current.
        unsafe { cuCtxSynchronize() }
    }

    /// Creates a stream that waits for no other.
    pub(crate) fn new_stream(self: &Arc<Self>) -> Result<Arc<CudaStream>, DriverError> {
        self.bind_to_thread()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current, and the argument outlives the call. The stream is destroyed once, by the drop.
        unsafe { cuStreamCreate(&mut handle, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) }?;
        Ok(Arc::new(CudaStream { handle, context: self.clone() }))
    }

    /// Creates an event with these flags.
    pub(crate) fn new_event(self: &Arc<Self>, flags: CUevent_flags) -> Result<CudaEvent, DriverError> {
        self.bind_to_thread()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: as for streams.
        unsafe { cuEventCreate(&mut handle, flags as u32) }?;
        Ok(CudaEvent { handle, context: self.clone() })
    }
}

impl Drop for CudaContext {
    fn drop(&mut self) {
        // SAFETY: retained by `new`, and released only here. A failure has no remedy.
        let _ = unsafe { cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A stream of a device.
pub(crate) struct CudaStream {
    handle: CUstream,
    context: Arc<CudaContext>,
}

// SAFETY: as for contexts.
unsafe impl Send for CudaStream {}
// SAFETY: as for contexts.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    /// The driver's handle.
    pub(crate) fn cu_stream(&self) -> CUstream {
        self.handle
    }

    /// Waits for all work on the stream.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: the stream is alive, and its context current.
        unsafe { cuStreamSynchronize(self.handle) }
    }

    /// Makes the stream wait for an event.
    pub(crate) fn wait(&self, event: &CudaEvent) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: stream and event are alive, and the context current.
        unsafe { cuStreamWaitEvent(self.handle, event.handle, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT as u32) }
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: made by `new_stream`, and destroyed only here.
            let _ = unsafe { cuStreamDestroy_v2(self.handle) };
        }
    }
}

/// An event: a position on a stream.
pub(crate) struct CudaEvent {
    handle: CUevent,
    context: Arc<CudaContext>,
}

impl CudaEvent {
    /// Records the event on a stream.
    pub(crate) fn record(&self, stream: &CudaStream) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: both are alive, and the context current.
        unsafe { cuEventRecord(self.handle, stream.handle) }
    }

    /// Waits for the event.
    fn synchronize(&self) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: the event is alive, and its context current.
        unsafe { cuEventSynchronize(self.handle) }
    }

    /// Milliseconds from this event to another. Waits for both.
    pub(crate) fn elapsed_ms(&self, end: &CudaEvent) -> Result<f32, DriverError> {
        self.synchronize()?;
        end.synchronize()?;
        let mut milliseconds = 0.0;
        // SAFETY: both are alive, and the argument outlives the call.
        unsafe { cuEventElapsedTime_v2(&mut milliseconds, self.handle, end.handle) }?;
        Ok(milliseconds)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: made by `new_event`, and destroyed only here.
            let _ = unsafe { cuEventDestroy_v2(self.handle) };
        }
    }
}
