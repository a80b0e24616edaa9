//! The wgpu backend: WGSL kernels, native (Vulkan, Metal, DX12) and in browsers (WebGPU).
//!
//! [`open`] reaches a device or says why not; the [`Wgpu`] it returns is a
//! [`Profiler`](parallax_core::device::Profiler). Inside, one file per job.
//!
//! - Reaching a device: `device` opens and describes it, `page` adds what only a page asks and knows, `experimental` what is there
//!   behind a browser's flags, `gpu` submits and waits, `incidents` are its errors, `wait`
//!   differs between a program and a page, `memory` counts buffers, `timing` reads timestamps.
//! - A case on it: `lower` makes kernels of work without a launch, `text` assembles WGSL, `matrix` spells matrices for browsers, `imitate` does
//!   without, `compile` makes pipelines with the `checks` that were asked for,
//!   `buffers` allocates and fills, `mapped` is the host's memory among them, `poison` spoils outputs, `launch` encodes
//!   batches, `copied` what lies between their passes, `order` keeps executions apart and `fence` copies from stamps,
//!   `trace` looks at one execution, `stack` at who asked for it.
//! - Kernel texts: below `kernels/`, found through [`KernelSources`](parallax_core::suite::Texts) by their name, as in
//!   `matmul/tiled`. A line `#import lib/launch` imports another file, and what follows `#when OWN_LENGTHS` on a line is there
//!   only where that constant is true; [`text`] says how. Bindings are in group 0, numbered as the stage's arguments are.
//! - The contract: `profiler` and `prepared`, and `transfer` for bytes that only move.

mod buffers;
mod checks;
mod compile;
mod copied;
mod device;
#[cfg(any(target_arch = "wasm32", test))]
mod experimental;
mod fence;
mod gpu;
mod imitate;
mod incidents;
mod launch;
mod loops;
mod lower;
mod mapped;
mod matrix;
mod memory;
mod order;
#[cfg(target_arch = "wasm32")]
mod page;
mod poison;
mod prepared;
mod profiler;
mod stack;
pub mod text;
mod timing;
mod trace;
mod transfer;
mod wait;

pub use checks::Checks;
pub use device::{Adapter, Options, Unavailable, adapters, open};
pub use matrix::MATRICES;
pub use profiler::Wgpu;
pub use wait::yield_now;
