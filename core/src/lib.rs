//! core
pub mod case;
pub mod check;
pub mod input;
pub mod mock;
pub mod plan;
pub mod profiler;
pub mod record;
pub mod runner;
pub mod spec;
pub mod stats;
pub mod stop;
pub mod units;
pub mod workload;
