//! One test binary over all crates, so that they are linked once.

mod agree;
mod guarded;
mod nvrtc;
mod output;
mod pairing;
mod prose;
mod python;
mod recipes;
mod recorded;
mod sass;
mod tidy;
mod workflows;
