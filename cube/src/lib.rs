//! Kernels written once, in Rust with CubeCL, for both WGSL and CUDA.
//!
//! They measure the cost of one source relative to kernels written for each dialect. CubeCL's compilers translate the kernels here
//! to WGSL and CUDA C++ without a device ([`translator`]). The backends of this project launch those sources like their own: on the
//! same buffers and inputs, with the same checks, sampler and clock. CubeCL's clients and runtimes are left out on purpose. They
//! batch launches and allocate by rules of their own, and a measurement would show those rules.
//!
//! ```text
//! Stage::cube ─► Definition (constants, buffers) ─► expand (kernels/) ─► CubeCL's passes ─► WGSL | CUDA C++ ─► kernel source
//!
//! stage with its launch open ─► CubeK's launcher, on a recording device ─► kernel, grid, blueprint ─► the same passes
//! ```
//!
//! - `definition`: a kernel in construction. Extents are constants of the kernel, as in our own sources. So no kernel reads the
//!   lengths that CubeCL's launches pass in a buffer of their own, and there are no bindings besides the buffers. In WGSL,
//!   `@binding(i)` is the stage's argument `i`; in CUDA, it is the parameter at that position.
//! - `kernels`: one file for each workload.
//! - `cubek`: the ready-made kernels that CubeK's launchers choose, as the variants `cubek`.
//! - `emit`: CubeCL's compilers, called directly.
//! - `translate`: definition and compilation together, with the time of each, for the ledger of compile times.
//! - `page`: the same as a program for the page, which fetches it when a spec names a kernel in CubeCL. It makes WGSL.
//!
//! # Limits of CubeK here
//!
//! A variant `cubek` is one launch on the stage's own buffers. Kernels of several launches, or on further buffers, are refused. So
//! are problems that CubeK's launchers refuse, such as tiles that do not fit into workgroup memory. Each refusal is a skip with its
//! reason.
//!
//! - `matmul`: CubeK's default choice. In WGSL it accumulates in registers, because CubeCL's plain WGSL has no matrix units. In
//!   CUDA, 16-bit floats use them. Matrix units round f32 to TF32 and are left out for it.
//! - `conv2d`: the direct kernel, channels last, without bias and ReLU, in f32. It rounds products of 16-bit floats to 16 bits. For
//!   matrix units, a tuner that runs on a device chooses CubeK's tiles. Depthwise convolutions rearrange their filters in a launch
//!   of their own.
//! - `reduce`: not offered. Its kernels walk over the axes of their tensors at run time, and read extents by an axis that is no
//!   constant.
//! - `attention`: not offered. The kernel without matrix units is unrolled over the whole head, so a driver may take minutes for
//!   one kernel. The kernel with matrix units gets its tiles from the tuner.
//! - Backward passes: not offered.
//! - In a page: no variant. CubeK's launchers would enlarge the fetched program, so the page leaves them out.

#[cfg_attr(target_arch = "wasm32", path = "no_cubek.rs")]
mod cubek;
mod definition;
mod emit;
mod kernels;
#[cfg(target_arch = "wasm32")]
mod page;
mod translate;

pub use translate::translator;
