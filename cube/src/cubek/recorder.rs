//! A device that records launches and does nothing else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubecl_core::bytes::Bytes;
use cubecl_core::client::Client;
use cubecl_core::device::{DeviceId, DeviceService, ServerUtilitiesHandle, ServiceId};
use cubecl_core::environment::backtrace::BackTrace;
use cubecl_core::environment::stream::StreamId;
use cubecl_core::future::DynFut;
use cubecl_core::ir::{DeviceProperties, TargetProperties};
use cubecl_core::prelude::{CubeCount, TensorBinding};
use cubecl_core::profile::ProfileDuration;
use cubecl_core::server::{
    BufferBinding, CopyDescriptor, Handle, IoError, KernelArguments, MemoryLayout, MemoryLayoutDescriptor,
    MemoryLayoutPolicy, ProfileError, ProfilingToken, Server, ServerCommunication, ServerError, ServerStorage,
    ServerUtilities,
};
use cubecl_core::zspace::{Shape, Strides};
use cubecl_core::{CubeKernel, StreamMemoryReport};
use cubecl_runtime::dry_run::LaunchMode;
use cubecl_runtime::logging::ServerLogger;
use cubecl_runtime::memory_management::{ManagedMemoryHandle, MemoryAllocationMode};
use cubecl_runtime::storage::{ComputeStorage, ManagedResource, StorageHandle, StorageId};
use parallax_schema::device::Dialect;

/// A recorded launch.
pub struct Launch {
    pub kernel: Box<dyn CubeKernel>,
    pub count: CubeCount,
    pub arguments: KernelArguments,
}

/// Launches since the recording began.
static LAUNCHES: Mutex<Vec<Launch>> = Mutex::new(Vec::new());

/// Every planned device. Its index is its number.
static DEVICES: Mutex<Vec<(DeviceProperties, Dialect)>> = Mutex::new(Vec::new());

/// Allows one recording at a time.
static RECORDING: Mutex<()> = Mutex::new(());

/// Locks a mutex. A launcher's panic leaves nothing behind that the next recording would not clear.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the launches on a device with these properties during a call, and the call's result.
pub fn record<T>(
    properties: &DeviceProperties,
    dialect: Dialect,
    during: impl FnOnce(&Client) -> Result<T, String>,
) -> Result<(Vec<Launch>, T), String> {
    let _one = locked(&RECORDING);
    let number = {
        let mut devices = locked(&DEVICES);
        let known = devices.iter().position(|device| (&device.0, device.1) == (properties, dialect));
        known.unwrap_or_else(|| {
            devices.push((properties.clone(), dialect));
            devices.len() - 1
        })
    };
    let client = Client::load::<Recorder>(DeviceId::new(0, u16::try_from(number).expect("a handful of devices")));
    locked(&LAUNCHES).clear();
    let done = during(&client)?;
    // CubeCL's clients may have threads of their own.
    client.flush().map_err(|why| why.to_string())?;
    Ok((std::mem::take(&mut *locked(&LAUNCHES)), done))
}

/// Returns a contiguous tensor in memory of its own.
pub fn tensor(client: &Client, shape: &[usize], elem_size: usize) -> TensorBinding {
    let shape = Shape::from(shape);
    let bytes = shape.iter().product::<usize>() * elem_size;
    let handle = Handle::new(client.service_id(), StreamId::current(), bytes as u64).binding();
    TensorBinding { handle, strides: contiguous(&shape), shape, tiling: Default::default() }
}

fn contiguous(shape: &Shape) -> Strides {
    let behind = |axis: usize| shape[axis + 1..].iter().product::<usize>();
    (0..shape.len()).map(behind).collect::<Vec<_>>().into()
}

/// The recording device.
#[derive(Debug)]
struct Recorder(Arc<ServerUtilities>);

/// Error of reads and time measurements, which a device without memory does not support.
fn nothing_here() -> ServerError {
    unsupported().into()
}

fn unsupported() -> IoError {
    IoError::UnsupportedIoOperation { backtrace: BackTrace::capture() }
}

impl DeviceService for Recorder {
    fn init(device: DeviceId) -> Recorder {
        let (properties, dialect) = locked(&DEVICES)[usize::from(device.index_id)].clone();
        let service = ServiceId::of::<Recorder>(device);
        let name = match dialect {
            Dialect::Cuda => "cuda",
            _ => "wgpu<wgsl>",
        };
        let (logger, target) = (Arc::new(ServerLogger::default()), TargetProperties { mma: Default::default() });
        let (utilities, _) = ServerUtilities::init(service, name, properties, target, logger, Contiguous);
        Recorder(Arc::new(utilities))
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        self.0.clone()
    }
}

impl ServerCommunication for Recorder {}

impl Server for Recorder {
    fn initialize_memory(&mut self, _: ManagedMemoryHandle, _: u64, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.0.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        self.0.clone()
    }

    fn read(&mut self, _: Vec<CopyDescriptor>, _: StreamId) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        Box::pin(async { Err(nothing_here()) })
    }

    /// Writes to a buffer of no stage. A launch that binds it is refused.
    fn write(&mut self, _: Vec<(CopyDescriptor, Bytes)>, _: StreamId) {}

    fn sync(&mut self, _: Vec<BufferBinding>, _: StreamId) -> DynFut<Result<(), ServerError>> {
        Box::pin(async { Ok(()) })
    }

    fn check(&mut self, _: Vec<BufferBinding>, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        count: CubeCount,
        arguments: KernelArguments,
        _: StreamId,
        _: LaunchMode,
    ) {
        locked(&LAUNCHES).push(Launch { kernel, count, arguments });
    }

    fn flush(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_report(&mut self, _: StreamId) -> Option<StreamMemoryReport> {
        None
    }

    fn memory_cleanup(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn start_profile(&mut self, _: StreamId) -> Result<ProfilingToken, ServerError> {
        Err(nothing_here())
    }

    fn end_profile(&mut self, _: StreamId, _: ProfilingToken) -> Result<ProfileDuration, ProfileError> {
        Err(ProfileError::NotRegistered { backtrace: BackTrace::capture() })
    }

    fn allocation_mode(&mut self, _: MemoryAllocationMode, _: StreamId) {}
}

impl ServerStorage for Recorder {
    type Storage = Nowhere;

    fn get_resource(&mut self, _: BufferBinding, _: StreamId) -> Result<ManagedResource<()>, ServerError> {
        Err(nothing_here())
    }
}

/// Storage without memory.
struct Nowhere;

impl ComputeStorage for Nowhere {
    type Resource = ();

    fn alignment(&self) -> usize {
        1
    }

    fn get(&mut self, _: &StorageHandle) -> Result<(), IoError> {
        Err(unsupported())
    }

    fn alloc(&mut self, _: u64) -> Result<StorageHandle, IoError> {
        Err(unsupported())
    }

    fn dealloc(&mut self, _: StorageId) {}

    fn flush(&mut self) {}

    fn bytes_allocated(&self) -> u64 {
        0
    }
}

/// Layout of a launcher's own allocations: contiguous, one behind the other.
struct Contiguous;

impl MemoryLayoutPolicy for Contiguous {
    fn apply(
        &self,
        service: ServiceId,
        stream: StreamId,
        asked: &[MemoryLayoutDescriptor],
    ) -> (Handle, Vec<MemoryLayout>) {
        let bytes = |one: &MemoryLayoutDescriptor| (one.shape.iter().product::<usize>() * one.elem_size) as u64;
        let total = asked.iter().map(bytes).sum();
        let all = Handle::new(service, stream, total);
        let mut begin = 0;
        let layouts = asked.iter().map(|one| {
            let end = begin + bytes(one);
            let part = all.clone().offset_start(begin).offset_end(total - end);
            begin = end;
            MemoryLayout::new(part, contiguous(&one.shape))
        });
        (all.clone(), layouts.collect())
    }
}
