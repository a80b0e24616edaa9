//! The CUDA backend of Parallax.
//!
//! It builds and starts on machines without CUDA: the driver and the compiler (NVRTC) are loaded at run time, and
//! [`open`] answers with a sentence when one of them is missing. The path of a case:
//!
//! ```text
//! Program (plain data, from the workload) ─► text ─► NVRTC or its cache ─► module ─► launches on one stream
//! ```
//!
//! * [`text`]: the final kernel text, assembled from data; needs neither device nor compiler. A file below `kernels/`
//!   takes in another, once, by a line `#include "lib/reduce.cuh"`; a kernel's constants are `constexpr`; its parameters
//!   are the stage's arguments, in their order, of which a line `#when OWN_LENGTHS , const unsigned* lengths` names one that only
//!   some shapes have.
//! * [`nvrtc`]: finds the compiler library and speaks to it.
//! * [`compile`]: text to a binary for one architecture, through a cache keyed by everything that goes in.
//! * `driver`: the driver's library, with every call looked up and every answer a number.
//! * [`device`]: opens a device and describes it.
//! * [`profiler`]: the [`Profiler`](parallax_core::device::Profiler) itself. Behind it, each a private module: `prepare`
//!   (buffers, kernels and library calls put in place), `launch` (with `cluster` and `tensor_map` for what came with compute
//!   capability 9.0), `graph` (many launches as one), `streams` (several of them, and what waits for what), `prepared` (measuring),
//!   `trace`, and `transfer`.
//! * [`found`]: which of NVIDIA's libraries are here, and where the others were looked for.
//! * `libraries`: where NVIDIA's libraries are found; `cublaslt`, `cudnn` and `cupti` speak to three that may be missing.

#[cfg(target_arch = "wasm32")]
compile_error!("parallax-cuda is native only; the page uses parallax-shaders");

mod cluster;
pub mod compile;
mod cublaslt;
mod cudnn;
mod cupti;
pub mod device;
mod driver;
mod errors;
mod events;
pub mod found;
mod graph;
mod launch;
mod libraries;
mod memory;
pub mod nvrtc;
mod occupancy;
mod prepare;
mod prepared;
pub mod profiler;
mod streams;
mod tensor_map;
pub mod text;
mod trace;
mod transfer;

pub use compile::{Arch, check_text, compile_text};
pub use device::{Unavailable, devices, driver_is_here};
pub use profiler::{Cuda, Options};

/// Open a CUDA device, or say why that is not possible here.
///
/// # Errors
/// When the driver, a device or the compiler is missing, too old or broken. The message says what was looked for and
/// what to do. Never panics for lack of CUDA.
pub fn open(options: Options) -> Result<Cuda, Unavailable> {
    Cuda::open(options)
}
