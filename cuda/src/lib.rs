//! The CUDA backend of Parallax.
//!
//! The crate builds and starts on machines without CUDA. It loads the driver and the compiler (NVRTC) at run time. [`open`] returns
//! an error message when one of them is missing. The path of a case:
//!
//! ```text
//! Program (plain data, from the workload) ─► source ─► NVRTC or its cache ─► module ─► launches on one stream
//! ```
//!
//! * [`source`]: the final kernel source, assembled from data. It needs neither device nor compiler. A file below `kernels/` includes
//!   another, once, by a line `#include "lib/reduce.cuh"`. The constants of a kernel are `constexpr`, and macros if they are Boolean:
//!   a parameter of some shapes only stands between `#if OWN_LENGTHS` and `#endif`. The parameters are the arguments of the stage, in
//!   order.
//! * [`nvrtc`]: finds and calls the compiler library.
//! * [`compile`]: kernel source to a binary for one architecture, through a cache keyed by all inputs of the compilation.
//! * `driver`: the driver's library. It resolves every call and returns every result code.
//! * [`device`]: opens a device and describes it.
//! * [`profiler`]: the implementation of [`Profiler`](parallax_ir::device::Profiler). Its parts are private modules. `prepare`
//!   places buffers, kernels and library calls. `launch` has `cluster` and `tensor_map` for compute capability 9.0. `graph` makes
//!   one launch of many. `streams` has several streams and their dependencies. `prepared` measures. The others are `trace` and
//!   `transfer`.
//! * [`group`]: several GPUs as one device, for exchanges between them by NCCL. `nccl` calls that library.
//! * [`found`]: the NVIDIA libraries that are installed, and the places searched for the others.
//! * `libraries`: the search for NVIDIA's libraries. `cublaslt`, `cudnn`, `cufft`, `nccl` and `cupti` call those that are optional.

#[cfg(target_arch = "wasm32")]
compile_error!("parallax-gpu-cuda is native only; the page uses parallax-gpu-wgpu");

mod arch;
mod arithmetic;
mod cluster;
pub mod compile;
mod counters;
mod cublaslt;
mod cudnn;
mod cufft;
mod cupti;
pub mod device;
mod driver;
mod errors;
mod events;
mod ffi;
pub mod found;
mod function;
mod graph;
pub mod group;
mod launch;
mod libraries;
mod memory;
mod nccl;
pub mod nvrtc;
mod nvtx;
mod occupancy;
mod prepare;
mod prepared;
mod processes;
pub mod profiler;
pub mod source;
mod streams;
mod tensor_map;
mod trace;
mod transfer;

pub use arch::Arch;
pub use arithmetic::Arithmetic;
pub use compile::{check_source, compile_source};
pub use device::{Unavailable, devices, driver_is_here};
pub use group::Group;
pub use nccl::NVLS;
pub use processes::{JoinError, Lost, MeetingError, Parse, Place, Processes, follow};
pub use profiler::{Cuda, CudaOptions};

/// Opens a CUDA device.
///
/// # Errors
/// A missing, outdated or broken driver, device or compiler. The message names the object searched for and the remedy. A machine
/// without CUDA never causes a panic.
pub fn open(options: CudaOptions) -> Result<Cuda, Unavailable> {
    Cuda::open(options)
}

/// Opens several CUDA devices as one: `gpus` of them, from the options' device on.
///
/// # Errors
/// Those of [`open`], and fewer devices than requested.
pub fn open_group(options: CudaOptions, gpus: usize) -> Result<Group, Unavailable> {
    Group::open(options, gpus)
}

/// Opens the CUDA devices of several processes as one, from the first of them. `lost` is called if another one ends.
///
/// # Errors
/// Those of [`open`], and processes that do not come.
pub fn open_processes(options: CudaOptions, place: &Place, lost: Lost) -> Result<Processes, JoinError> {
    Processes::open(options, place, lost)
}
