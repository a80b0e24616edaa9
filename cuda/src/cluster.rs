//! Launches in clusters. The blocks of a cluster run at the same time on neighbouring multiprocessors, and access each other's
//! shared memory.

use std::ffi::c_void;

use cudarc::driver::sys;

use crate::driver::{CudaStream, DriverError, cuLaunchKernelEx, cuOccupancyMaxActiveClusters};
use crate::function::Function;

/// Returns the driver's configuration of a launch in clusters, without the list of attributes that it refers to.
fn config(function: &Function, stream: sys::CUstream) -> (sys::CUlaunchConfig, sys::CUlaunchAttribute) {
    let [x, y, z] = function.cluster;
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
    let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    let attribute = sys::CUlaunchAttribute { id, pad: [0; 4], value };
    let ([gx, gy, gz], [bx, by, bz]) = (function.grid, function.block);
    let config = sys::CUlaunchConfig {
        gridDimX: gx,
        gridDimY: gy,
        gridDimZ: gz,
        blockDimX: bx,
        blockDimY: by,
        blockDimZ: bz,
        sharedMemBytes: function.dynamic_shared_bytes,
        hStream: stream,
        attrs: std::ptr::null_mut(),
        numAttrs: 1,
    };
    (config, attribute)
}

/// Queues a launch in clusters.
///
/// # Safety
/// As for any launch: `arguments` are the addresses of the kernel's parameter values, in order. The memory behind them lives until
/// the stream has been synchronised.
pub(crate) unsafe fn launch(
    function: &Function,
    stream: &CudaStream,
    arguments: &mut [*mut c_void],
) -> Result<(), DriverError> {
    let (mut config, mut attribute) = config(function, stream.cu_stream());
    config.attrs = &mut attribute;
    // SAFETY: the caller's; configuration and attribute outlive the call, which copies them.
    unsafe { cuLaunchKernelEx(&config, function.handle, arguments.as_mut_ptr(), std::ptr::null_mut()) }
}

/// Number of blocks resident on the device at once, in whole clusters.
pub(crate) fn resident(function: &Function) -> Option<u64> {
    let (mut config, mut attribute) = config(function, std::ptr::null_mut());
    config.attrs = &mut attribute;
    let mut clusters = 0;
    // SAFETY: the function is alive as long as the case, and the arguments outlive the call.
    unsafe { cuOccupancyMaxActiveClusters(&mut clusters, function.handle, &config) }.ok()?;
    let blocks: u32 = function.cluster.iter().product();
    Some(u64::try_from(clusters).ok()? * u64::from(blocks))
}
