//! Comparison of runs: verdicts, the cost of a target, families, histories, and traces.

#![deny(unsafe_code)]

pub mod compare;
mod family;
pub mod history;
pub mod trace;

pub use family::Family;
