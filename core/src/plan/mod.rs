//! What was asked for, and what that means on a device.

#[allow(clippy::module_inception, reason = "the folder is named after its main file")]
mod plan;
pub mod schedule;
mod spec;

pub use plan::*;
pub use spec::*;
