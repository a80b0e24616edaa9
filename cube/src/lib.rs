//! Kernels that are written once, in Rust with CubeCL, for WGSL and CUDA alike.
//!
//! What does one source cost, against kernels that are written for each? CubeCL's compilers turn the kernels here into WGSL and
//! CUDA C++ without a device ([`translator`]), and the backends of this project launch those texts as they launch their own: on
//! the same buffers and inputs, with the same checks, sampler and clock. CubeCL's clients and runtimes are left out, on purpose.
//! They gather launches and allocate by rules of their own, and what would be measured is those.
//!
//! ```text
//! Stage::cube ─► Definition (constants, buffers) ─► expand (kernels/) ─► CubeCL's passes ─► WGSL | CUDA C++ ─► as any text
//!
//! stage with its launch open ─► CubeK's launcher, on a device that writes down ─► kernel, grid, blueprint ─► the same passes
//! ```
//!
//! - `definition`: a kernel in the making. Extents are constants that it is made with, as in our texts. So no kernel asks for the
//!   lengths that CubeCL's launches pass in a buffer of their own, and buffers are all that there is to bind: in WGSL
//!   `@binding(i)` is the stage's argument `i`, in CUDA it is the parameter at that place.
//! - `kernels`: one file for each workload.
//! - `cubek`: the ready-made kernels that CubeK's launchers choose, as the variants `cubek`.
//! - `emit`: CubeCL's compilers, called directly.
//! - `translate`: both together, with the time that each took, for the ledger of compiling.
//! - `page`: the same as a program of a page's, which fetches it when a kernel in CubeCL is asked for. It makes WGSL.
//!
//! # What CubeK does not have here
//!
//! A variant `cubek` is one launch on the stage's own buffers; what CubeK computes by more, or on buffers of its own, is refused, and
//! so is what its launchers refuse (tiles that do not fit into workgroup memory, say): each a skip that says why.
//!
//! - `matmul`: as CubeK chooses when it is not told how. In WGSL sums are made in registers, because CubeCL's plain WGSL has no matrix
//!   units; in CUDA 16-bit floats go over them. Those of f32 round to TF32 and are left out.
//! - `conv2d`: the direct kernel, channels last, without bias and ReLU, in f32: products of 16-bit floats it rounds to 16 bits. What goes
//!   over matrix units there is told its tiles by a tuner that runs on a device, and depthwise convolutions lay their filters out anew
//!   by a launch of their own.
//! - `reduce`: not offered. Its kernels walk over the axes of their tensors as they run, and ask for extents by an axis that is no
//!   constant.
//! - `attention`: not offered. The kernel without matrix units is unrolled over the whole head, so that a driver may take minutes for
//!   one text; the one with them is told its tiles by the tuner.
//! - Backward passes: not offered.
//! - In a page: nothing of it. Its launchers would be a part of what the page fetches, and it asks for none.

#[cfg_attr(target_arch = "wasm32", path = "no_cubek.rs")]
mod cubek;
mod definition;
mod emit;
mod kernels;
#[cfg(target_arch = "wasm32")]
mod page;
mod translate;

pub use translate::translator;
