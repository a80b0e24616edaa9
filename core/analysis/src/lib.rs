//! Comparison of runs: verdicts, the cost of a target, families, histories, fleets, and traces.

#![deny(unsafe_code)]

pub mod compare;
mod family;
pub mod fleet;
pub mod history;
mod model;
mod origin;
#[cfg(test)]
mod simulated;
pub mod trace;

pub use family::Family;
pub use model::{Estimate, ModelRow, ModelTime, Work, model_time};
