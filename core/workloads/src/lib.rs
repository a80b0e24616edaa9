//! Workloads: shapes, references in f64, tolerances, host code and variants of each operation, and their registry.

#![deny(unsafe_code)]

mod catalog;
mod codes;
mod delta_rule;
mod dense;
mod exchange;
mod inner;
mod label;
mod minifloat;
pub mod ops;
mod packed;
mod parse;
mod pixels;
mod products;
mod real;
mod registry;
mod result_tiles;
mod sort;
mod state_space;
pub mod tunables;
mod vector;

pub use catalog::Registry;
pub use inner::*;
pub use parse::{parse_case, parse_problem};
pub use registry::*;
pub use sort::*;
pub use tunables::{KnownTunable, tunables};
