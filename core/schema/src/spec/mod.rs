//! Settings of a run.

pub mod filter;
pub mod query;
pub mod schedule;
mod setting_values;
pub mod settings;
#[allow(clippy::module_inception, reason = "the folder is named after its main file")]
mod spec;
pub mod sweep;

pub use spec::*;
