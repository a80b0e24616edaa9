//! Kernels that are written once, in Rust with CubeCL, for WGSL and CUDA alike.
//!
//! What does one source cost, against kernels that are written for each? CubeCL's compilers turn the kernels here into WGSL and
//! CUDA C++ without a device ([`translator`]), and the backends of this project launch those texts as they launch their own: on
//! the same buffers and inputs, with the same checks, sampler and clock. CubeCL's clients and runtimes are left out, on purpose.
//! They gather launches and allocate by rules of their own, and what would be measured is those.
//!
//! ```text
//! Stage::cube ─► Definition (constants, buffers) ─► expand (kernels/) ─► CubeCL's passes ─► WGSL | CUDA C++ ─► as any text
//! ```
//!
//! - `definition`: a kernel in the making. Extents are constants that it is made with, as in our texts. So no kernel asks for the
//!   lengths that CubeCL's launches pass in a buffer of their own, and buffers are all that there is to bind: in WGSL
//!   `@binding(i)` is the stage's argument `i`, in CUDA it is the parameter at that place.
//! - `kernels`: one file for each workload.
//! - `emit`: CubeCL's compilers, called directly.
//! - `translate`: both together, with the time that each took, for the ledger of compiling.
//! - `page`: the same as a program of a page's, which fetches it when a kernel in CubeCL is asked for. It makes WGSL.

mod definition;
mod emit;
mod kernels;
#[cfg(target_arch = "wasm32")]
mod page;
mod translate;

pub use translate::translator;
