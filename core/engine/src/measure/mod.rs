//! The measuring loop: from a plan to records.

mod announce;
mod bandwidth;
mod batch;
mod call;
mod case_run;
pub mod ceilings;
pub mod check;
mod compare;
mod ended;
mod energy;
mod errors;
mod meter;
mod order;
mod phases;
mod reference_cache;
pub mod reference_kernel;
pub mod relaunch;
pub mod remaining;
pub mod repeat;
pub mod runner;
mod sampled_rows;
pub mod sampler;
mod setting;
pub mod side_by_side;
pub mod stopping_criterion;
pub mod timer;
mod watch;
