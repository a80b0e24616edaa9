//! The driver calls of this crate, by the driver's own names.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute, CUgraph,
    CUgraphExec, CUlaunchConfig, CUmodule, CUstream, CUstreamCaptureMode, CUtensorMap, CUtensorMapDataType,
    CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle, CUuuid,
};
use libloading::Library;

use super::{DriverError, answered, driver};

/// Defines the table of calls, and for each call a function that uses the table of this process.
macro_rules! calls {
    (to_open { $($first:ident($($of_first:tt)*);)* } for_cases { $($other:ident($($of_other:tt)*);)* }) => {
        /// Calls that are necessary to open a device.
        pub(super) const TO_OPEN: &[&str] = &[$(stringify!($first)),*];

        calls! { table { $($first($($of_first)*);)* $($other($($of_other)*);)* } }
    };
    (table { $($name:ident($($argument:ident: $kind:ty),*);)* }) => {
        /// Table of the calls that a driver provides.
        #[allow(non_snake_case, clippy::type_complexity, reason = "names and signatures are NVIDIA's")]
        pub(super) struct Calls {
            $(pub(super) $name: Option<unsafe extern "C" fn($($kind),*) -> c_int>,)*
            /// The library stays loaded as long as the pointers exist.
            _library: Library,
        }

        impl Calls {
            /// Resolves all calls.
            pub(super) fn resolve(library: Library) -> Calls {
                Calls {
                    // SAFETY: the signatures are those of the driver's header, with result codes as integers.
                    $($name: unsafe { library.get(stringify!($name)) }.ok().map(|call| *call),)*
                    _library: library,
                }
            }

            /// Names of the missing calls.
            pub(super) fn missing(&self) -> impl Iterator<Item = &'static str> {
                [$((self.$name.is_none(), stringify!($name))),*].into_iter().filter_map(|(lacks, name)| lacks.then_some(name))
            }
        }

        $(
            /// Calls the driver function of this name.
            ///
            /// # Safety
            /// As in the driver's documentation.
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "names and signatures are NVIDIA's")]
            #[allow(dead_code, reason = "the first call is made before the table is the process's")]
            pub(crate) unsafe fn $name($($argument: $kind),*) -> Result<(), DriverError> {
                match driver().and_then(|driver| driver.calls.$name) {
                    // SAFETY: the caller's.
                    Some(call) => answered(unsafe { call($($argument),*) }),
                    None => Err(DriverError::Lacks(stringify!($name))),
                }
            }
        )*
    };
}

calls! {
    to_open {
        cuInit(flags: c_uint);
        cuDriverGetVersion(version: *mut c_int);
        cuGetErrorName(code: c_int, name: *mut *const c_char);
        cuGetErrorString(code: c_int, text: *mut *const c_char);
        cuDeviceGetCount(count: *mut c_int);
        cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
        cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice);
        cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
        cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
        cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
        cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
        cuDevicePrimaryCtxRelease_v2(device: CUdevice);
        cuCtxGetCurrent(context: *mut CUcontext);
        cuCtxSetCurrent(context: CUcontext);
        cuCtxSynchronize();
        cuStreamCreate(stream: *mut CUstream, flags: c_uint);
        cuStreamDestroy_v2(stream: CUstream);
        cuStreamSynchronize(stream: CUstream);
        cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
        cuEventCreate(event: *mut CUevent, flags: c_uint);
        cuEventDestroy_v2(event: CUevent);
        cuEventRecord(event: CUevent, stream: CUstream);
        cuEventSynchronize(event: CUevent);
        cuEventElapsedTime_v2(milliseconds: *mut f32, begin: CUevent, end: CUevent);
        cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize);
        cuMemFree_v2(pointer: CUdeviceptr);
        cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        cuMemsetD8Async(to: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
    }
    for_cases {
        cuMemAllocAsync(pointer: *mut CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemFreeAsync(pointer: CUdeviceptr, stream: CUstream);
        cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        cuMemFreeHost(pointer: *mut c_void);
        cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize);
        cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize);
        cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
        cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemsetD16Async(to: CUdeviceptr, value: u16, count: usize, stream: CUstream);
        cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
        cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
        cuModuleUnload(module: CUmodule);
        cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
        cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
        cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void);
        cuLaunchKernelEx(config: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void);
        cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize);
        cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig);
        cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
        cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
        cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
        cuGraphDestroy(graph: CUgraph);
        cuGraphExecDestroy(executable: CUgraphExec);
        cuGraphUpload(executable: CUgraphExec, stream: CUstream);
        cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
        cuTensorMapEncodeTiled(map: *mut CUtensorMap, kind: CUtensorMapDataType, rank: u32, address: *mut c_void, dims: *const u64, strides: *const u64, tile: *const u32, element_strides: *const u32, interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle, promotion: CUtensorMapL2promotion, fill: CUtensorMapFloatOOBfill);
    }
}
