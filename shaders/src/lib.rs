//! The wgpu backend: WGSL kernels, native (Vulkan, Metal, DX12) and in browsers (WebGPU).
//!
//! [`open`] opens a device. The [`Wgpu`] that it returns is a [`Profiler`](parallax_ir::device::Profiler). One file has one job.
//!
//! - The device: `device` opens and describes it, `page` adds the requests and facts of a page, `experimental` the features behind
//!   browser flags. `gpu` submits and waits, `device_errors` collects errors, `wait` differs between a program and a page, `memory`
//!   counts buffers, `timing` reads timestamps.
//! - A case: `builtin_kernels` converts stages without a launch to kernels, `source` assembles WGSL with `directives`, `matrix` translates matrices for browsers,
//!   `imitate` emulates them. `compile` makes pipelines with the requested `checks`, `ahead` before
//!   their case is prepared. `buffers` allocates and fills buffers,
//!   `mapped` handles host memory, `poison` poisons outputs. `launch` encodes batches, and `pass_copies` the copies between their
//!   passes. `barriers` serialises executions, and `timestamp_fence` separates copies from timestamps. `trace` traces one execution, `stack` its
//!   call stack. `foreign` runs a
//!   kernel from outside the program.
//! - Kernel sources: below `kernels/`, found through [`KernelSources`](parallax_ir::KernelSources) by name, as in
//!   `matmul/tiled`. Lines that begin with `#` are directives: imports, conditions and blocks, resolved by `directives`. Bindings are
//!   in group 0, in the order of the stage's arguments.
//! - The interface: `profiler` and `prepared`, and `transfer` for plain transfers.

#[cfg(not(target_arch = "wasm32"))]
mod ahead;
#[cfg(target_arch = "wasm32")]
#[path = "ahead_page.rs"]
mod ahead;
mod barriers;
mod buffers;
mod builtin_kernels;
mod checks;
mod compile;
mod device;
mod device_errors;
mod directives;
#[cfg(any(target_arch = "wasm32", test))]
mod experimental;
mod foreign;
mod gpu;
mod imitate;
mod launch;
mod loops;
mod mapped;
mod matrix;
mod memory;
#[cfg(target_arch = "wasm32")]
mod page;
mod pass_copies;
mod poison;
mod prepared;
mod profiler;
pub mod source;
mod stack;
mod timestamp_fence;
mod timing;
mod trace;
mod transfer;
mod unroll;
mod wait;

pub use checks::Checks;
pub use device::{Adapter, Unavailable, WgpuOptions, adapters, open};
pub use foreign::{Binding, BindingKind, ForeignKernel, contents};
pub use matrix::MATRICES;
pub use profiler::Wgpu;
pub use wait::yield_now;
