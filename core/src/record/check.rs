//! Outputs against the reference.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Outputs against the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckResult {
    /// Whether every compared element was within its bound and every element was written.
    #[serde(alias = "right")]
    pub passed: bool,
    /// Elements compared with the f64 reference.
    pub compared: u64,
    /// Elements of the outputs; all of them were read and checked for having been written.
    pub elements: u64,
    /// Largest absolute error met.
    pub worst_error: f64,
    /// Bound that applied to the element with the largest error relative to its bound.
    pub bound: f64,
    /// Largest error relative to its bound; at most 1 when the check passed.
    pub worst_ratio: f64,
    /// The first element that failed.
    pub mismatch: Option<Mismatch>,
}

/// One element that is beyond its bound, or was not written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mismatch {
    /// Name of the output.
    pub output: String,
    /// Position in it, in elements.
    pub index: u64,
    /// What the device gave; absent when it is not a number.
    pub got: Option<f64>,
    /// What the reference gives; absent when that is not a finite number either.
    pub want: Option<f64>,
}
