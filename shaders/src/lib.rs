//! The wgpu backend: WGSL kernels, native (Vulkan, Metal, DX12) and in browsers (WebGPU).
//!
//! [`open`] reaches a device or says why not; the [`Wgpu`] it returns is a
//! [`Profiler`](parallax_core::profiler::Profiler). Inside, one file per job: `text` assembles WGSL, `device` opens and
//! describes, `gpu` submits and waits, `timing` reads timestamps, `prepared` holds a case on the device.

mod device;
mod gpu;
mod prepared;
pub mod text;
mod timing;
mod wait;

pub use device::{Options, Unavailable, adapters, open};
pub use prepared::Wgpu;
