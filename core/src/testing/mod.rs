//! Stand-ins for devices and runs.

pub mod fixtures;
pub mod mock;
