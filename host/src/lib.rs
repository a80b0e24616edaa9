//! Plain host code as a profiler: each form's f32 code (or, without any, its reference), as a point of reference. It is not
//! tuned, and its figures say nothing about what the processor could do.
//!
//! The same code is two targets: `cpu`, on all processors of the machine, and `wasm`, compiled for the page and run in a
//! browser. What differs between them is a [`Place`].

#![forbid(unsafe_code)]

mod case;
mod profiler;

pub use profiler::{Breathe, Cpu, Place};
