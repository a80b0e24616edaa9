//! How a plan becomes records: the measuring loop and everything that it decides.

pub mod canary;
mod case_run;
pub mod ceilings;
pub mod check;
mod meter;
pub mod runner;
pub mod sampler;
pub mod side_by_side;
pub mod stop;
pub mod timer;
