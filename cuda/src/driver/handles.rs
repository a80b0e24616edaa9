//! A device's context, its streams and events: what the driver hands out, freed when it is dropped.

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUevent, CUevent_flags, CUevent_wait_flags, CUstream, CUstream_flags,
    CUuuid,
};

use super::DriverError;
use super::calls::*;

/// How many devices the driver shows.
pub(crate) fn device_count() -> Result<usize, DriverError> {
    let mut count = 0;
    // SAFETY: the argument outlives the call.
    unsafe { cuDeviceGetCount(&mut count) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The device of this number.
pub(crate) fn device(ordinal: usize) -> Result<CUdevice, DriverError> {
    let mut device = 0;
    // SAFETY: the argument outlives the call; the driver refuses a number that it does not have.
    unsafe { cuDeviceGet(&mut device, c_int::try_from(ordinal).unwrap_or(c_int::MAX)) }?;
    Ok(device)
}

/// Its name.
pub(crate) fn device_name(device: CUdevice) -> Result<String, DriverError> {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is as long as said, and outlives the call.
    unsafe { cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, device) }?;
    Ok(CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned())
}

/// Its UUID: that of a slice (MIG), where it is one.
pub(crate) fn device_uuid(device: CUdevice) -> Result<CUuuid, DriverError> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the argument outlives the call.
    unsafe { cuDeviceGetUuid_v2(&mut uuid, device) }?;
    Ok(uuid)
}

/// A number that the driver tells of it.
pub(crate) fn device_attribute(device: CUdevice, which: CUdevice_attribute) -> Result<c_int, DriverError> {
    let mut value = 0;
    // SAFETY: the argument outlives the call.
    unsafe { cuDeviceGetAttribute(&mut value, which, device) }?;
    Ok(value)
}

/// The context that all of this process share on a device.
pub(crate) struct CudaContext {
    device: CUdevice,
    handle: CUcontext,
}

// SAFETY: the driver's contexts may be used from any thread that they are current on, which every use here sees to.
unsafe impl Send for CudaContext {}
// SAFETY: as above; the driver locks.
unsafe impl Sync for CudaContext {}

impl CudaContext {
    /// That of the device of this number, current on this thread.
    pub(crate) fn new(ordinal: usize) -> Result<Arc<CudaContext>, DriverError> {
        let (device, mut handle) = (device(ordinal)?, std::ptr::null_mut());
        // SAFETY: the argument outlives the call. What is retained is released once, by the drop.
        unsafe { cuDevicePrimaryCtxRetain(&mut handle, device) }?;
        let context = Arc::new(CudaContext { device, handle });
        context.bind_to_thread()?;
        Ok(context)
    }

    /// Its device.
    pub(crate) fn cu_device(&self) -> CUdevice {
        self.device
    }

    /// Make it current on this thread.
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

    /// A number that the driver tells of the device.
    pub(crate) fn attribute(&self, which: CUdevice_attribute) -> Result<c_int, DriverError> {
        device_attribute(self.device, which)
    }

    /// Bytes of the device's memory.
    pub(crate) fn total_mem(&self) -> Result<u64, DriverError> {
        let mut bytes = 0;
        // SAFETY: the argument outlives the call.
        unsafe { cuDeviceTotalMem_v2(&mut bytes, self.device) }?;
        Ok(bytes as u64)
    }

    /// Bytes of the device's memory that are free, and all.
    pub(crate) fn mem_get_info(&self) -> Result<(u64, u64), DriverError> {
        let (mut free, mut total) = (0, 0);
        self.bind_to_thread()?;
        // SAFETY: the context is current, and the arguments outlive the call.
        unsafe { cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok((free as u64, total as u64))
    }

    /// Wait for everything on the device.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.bind_to_thread()?;
        // SAFETY: the context is current.
        unsafe { cuCtxSynchronize() }
    }

    /// A stream that waits for no other.
    pub(crate) fn new_stream(self: &Arc<Self>) -> Result<Arc<CudaStream>, DriverError> {
        self.bind_to_thread()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current, and the argument outlives the call. The stream is destroyed once, by the drop.
        unsafe { cuStreamCreate(&mut handle, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) }?;
        Ok(Arc::new(CudaStream { handle, context: self.clone() }))
    }

    /// An event with these flags.
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
        // SAFETY: retained by `new`, and released only here. Nothing can be done about a failure.
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
    /// As the driver knows it.
    pub(crate) fn cu_stream(&self) -> CUstream {
        self.handle
    }

    /// Wait for everything on it.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: the stream is alive, and its context current.
        unsafe { cuStreamSynchronize(self.handle) }
    }

    /// Let it wait for an event.
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

/// A place on a stream.
pub(crate) struct CudaEvent {
    handle: CUevent,
    context: Arc<CudaContext>,
}

impl CudaEvent {
    /// Put it on a stream.
    pub(crate) fn record(&self, stream: &CudaStream) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: both are alive, and the context current.
        unsafe { cuEventRecord(self.handle, stream.handle) }
    }

    /// Wait until it is reached.
    fn synchronize(&self) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: the event is alive, and its context current.
        unsafe { cuEventSynchronize(self.handle) }
    }

    /// Milliseconds from this event to another, once both are reached.
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
