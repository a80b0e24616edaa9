//! The measuring loop: from a plan to records.

mod batch;
mod call;
mod case_run;
pub mod ceilings;
pub mod check;
mod ended;
mod meter;
mod order;
pub mod reference_kernel;
pub mod remaining;
pub mod repeat;
pub mod runner;
pub mod sampler;
mod setting;
pub mod side_by_side;
pub mod stopping_criterion;
pub mod timer;
