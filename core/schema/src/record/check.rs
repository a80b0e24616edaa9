//! Comparison of outputs with the reference.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{percent, three_digits};

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
    /// Errors of all compared elements; absent where they were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// The first element that failed.
    pub mismatch: Option<Mismatch>,
    /// Whether the outputs after the last sample equal those before the first sample. Absent where only one of
    /// them was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeatable: Option<Repeatable>,
    /// Of a check that failed: iterations after which the device ends the loops of a kernel, where the problem may need more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loops_end_after: Option<u64>,
}

/// Errors of the compared elements.
///
/// A unit in the last place (ulp) is that of the output's element type at the reference, or at the root mean square of its row where
/// that is larger. Sums that cancel to nearly zero would have errors of any number of their own units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// Root mean square, in units of the output.
    pub rms: f64,
    /// Root mean square relative to the bounds.
    pub rms_of_bound: f64,
    /// Largest error in ulps.
    pub worst_ulps: f64,
    /// Root mean square in ulps.
    pub rms_ulps: f64,
}

/// Whether two executions on the same inputs left the same in all outputs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Repeatable {
    /// Every element has the same bits.
    Bitwise,
    /// Some have not, as where atomic additions come in any order.
    Differs(Difference),
}

/// How far two executions are apart, in a choice of the elements that are compared with the reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Largest absolute difference, in units of the output; zero where only other elements differ.
    pub by: f64,
    /// Largest difference relative to the bound on the element's error; two right results are at most 2 apart.
    pub of_bound: f64,
}

/// One element that is beyond its bound, or was not written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mismatch {
    /// Name of the output.
    pub output: String,
    /// Position in it, in elements.
    pub index: u64,
    /// Value of the device; absent if it is not a number.
    pub got: Option<f64>,
    /// Value of the reference; absent if that is not a finite number either.
    pub want: Option<f64>,
}

impl CheckResult {
    /// Returns the result as one sentence.
    pub fn sentence(&self) -> String {
        let found = self.found();
        match self.loops_end_after {
            None => found,
            Some(turns) => {
                format!(
                    "{found}; this device ends a kernel's loops after {turns} iterations, which may be the reason and not the kernel"
                )
            }
        }
    }

    /// Returns the root mean square of the errors, or `exact`; `None` without recorded errors.
    pub fn precision(&self) -> Option<String> {
        if self.passed && self.compared > 0 && self.worst_error == 0.0 {
            return Some("exact".to_owned());
        }
        self.errors.map(|errors| errors.rms_in_words())
    }

    /// Returns the largest error in units in the last place and as a share of its bound; `None` without recorded errors.
    pub fn worst(&self) -> Option<String> {
        let errors = self.errors.filter(|_| self.worst_error > 0.0)?;
        let of_bound = format!("{} of its bound", percent(self.worst_ratio));
        Some(match errors.worst_ulps < MOST_ULPS {
            true => format!("at most {} ulp, {of_bound}", three_digits(errors.worst_ulps)),
            false => format!("at most {of_bound}"),
        })
    }

    fn found(&self) -> String {
        match &self.mismatch {
            None if self.compared == 0 => "nothing was compared".to_owned(),
            None if self.worst_error == 0.0 => {
                format!("{} of {} elements compared, all exactly right", self.compared, self.elements)
            }
            None => format!(
                "{} of {} elements compared, worst error {:.2e} ({:.0} % of its bound){}",
                self.compared,
                self.elements,
                self.worst_error,
                self.worst_ratio * 100.0,
                self.errors.map(|errors| format!(", {}", errors.words())).unwrap_or_default(),
            ),
            Some(Mismatch { output, index, got: Some(got), want: Some(want) }) => {
                format!("{output}[{index}] is {got}, should be {want} (bound {:.2e})", self.bound)
            }
            Some(Mismatch { output, index, got: Some(got), want: None }) => {
                format!("{output}[{index}] is {got}, should be an infinity or NaN")
            }
            Some(Mismatch { output, index, got: None, .. }) => {
                format!("{output}[{index}] is not a finite number: wrong, or never written")
            }
        }
    }
}

impl Errors {
    /// Returns the root mean square in units in the last place: `0.29 ulp`. Of a row that cancels to zero, as the gradient of the
    /// keys' bias does, it is the share of the bound.
    pub fn rms_in_words(&self) -> String {
        match self.rms_ulps < MOST_ULPS {
            true => format!("{} ulp", three_digits(self.rms_ulps)),
            false => format!("{} of bound", percent(self.rms_of_bound)),
        }
    }

    /// Returns the errors in units in the last place: `RMS 0.29 ulp, at most 1.0`.
    pub fn words(&self) -> String {
        match self.worst_ulps < MOST_ULPS {
            true => format!("RMS {}, at most {}", self.rms_in_words(), three_digits(self.worst_ulps)),
            false => format!("RMS {}", self.rms_in_words()),
        }
    }
}

/// Units in the last place from which they say nothing: the exact value is zero, or nearly so.
const MOST_ULPS: f64 = 1e6;

impl Repeatable {
    /// Returns the result in a few words: `bit by bit`, or the difference.
    pub fn words(&self) -> String {
        match self {
            Repeatable::Bitwise => "bit by bit".to_owned(),
            Repeatable::Differs(by) if by.by == 0.0 => "not bit by bit, and equal where compared".to_owned(),
            Repeatable::Differs(by) => {
                format!("not bit by bit: up to {:.1e} apart, {} of the bound", by.by, percent(by.of_bound))
            }
        }
    }
}
