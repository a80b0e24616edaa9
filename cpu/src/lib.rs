//! Plain host code as a profiler: the f32 code of each operation, or else its reference. It is an untuned baseline. Its figures are
//! no measure of the processor's speed.
//!
//! The same code is two targets: `cpu`, on all processors of the machine, and `wasm`, compiled for the page and run in a browser. A
//! [`HostEnvironment`] holds their differences.

#![forbid(unsafe_code)]

mod case;
mod profiler;

pub use profiler::{Cpu, HostEnvironment, YieldNow};
