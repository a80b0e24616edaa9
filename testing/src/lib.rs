//! A mock device, for tests without a GPU, and hostile kernel sources.

#![forbid(unsafe_code)]

pub mod counter;
pub mod hostile;
pub mod mock;
