//! Run files: the one serialised schema, its reader and validation, and the values that it consists of.
//!
//! [`record::Run`] is a run: device, settings, and the outcome of each planned case. [`record::Run::parse`] reads a file or a growing
//! file. This crate has no GPU API, no clock, no input or output, and no workloads.

#![deny(unsafe_code)]

pub mod case;
pub mod catalog;
pub mod device;
mod grouped;
pub mod record;
pub mod session;
pub mod spec;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod units;

pub use grouped::grouped;

/// Examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
