//! Comparison of runs: verdicts, the cost of a target, families, histories, and traces.

#![deny(unsafe_code)]

pub mod compare;
mod family;
pub mod history;
mod model;
pub mod trace;

pub use family::Family;
pub use model::{Estimate, ModelRow, ModelTime, Work, model_time};
