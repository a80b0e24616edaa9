//! A mock device, for tests without a GPU.

#![forbid(unsafe_code)]

pub mod mock;
