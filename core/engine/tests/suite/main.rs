//! One test binary over the crate, so that it is linked once.

mod announced;
mod ceilings;
mod completions;
mod counters;
mod energy;
mod engine;
mod forms;
mod links;
mod properties;
mod published;
mod rules;
mod synthetic_runs;
mod trace;
