//! Stand-ins for devices and runs.

#[cfg(test)]
pub mod fixtures;
pub mod mock;
