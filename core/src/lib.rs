//! core
#![allow(missing_docs)]
pub mod case;
pub mod input;
pub mod profiler;
pub mod units;
pub mod workload;
