//! Workloads: shapes, references in f64, tolerances, host code and variants of each operation, and their registry.

#![deny(unsafe_code)]

mod dense;
mod inner;
mod label;
pub mod ops;
mod parse;
mod program;
mod registry;
mod sort;
pub mod tunables;

pub use inner::*;
pub use label::label_of;
pub use parse::parse_case;
pub use program::program_of;
pub use registry::*;
pub use sort::*;
pub use tunables::{KnownTunable, tunables};
