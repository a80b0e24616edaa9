//! Mock devices and synthetic runs.

pub mod fixtures;
pub mod mock;
