//! Errors of names and of case strings.

use super::choices;

/// Error of parsing a case string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// String without five parts.
    #[error("`{0}` is not a case: write workload/direction/shape/dtype/variant, as `parallax list` prints them")]
    Form(String),
    /// String of a problem without four parts.
    #[error("`{0}` is not a problem: write workload/direction/shape/dtype, a case without its variant")]
    ProblemForm(String),
    /// Part that is no known name.
    #[error("unknown {what} `{given}`: {choices}")]
    Unknown {
        /// Kind of the part.
        what: &'static str,
        /// String of the part.
        given: String,
        /// Known names.
        choices: String,
    },
    /// Shape that does not fit the workload.
    #[error("shape `{shape}`: {why}; the form is {form}")]
    Shape {
        /// Given shape.
        shape: String,
        /// Reason.
        why: String,
        /// Grammar.
        form: String,
    },
}

/// Finds `given` among named values. The error lists the known names.
pub fn named<'a, T: Copy>(
    what: &'static str,
    given: &str,
    known: impl IntoIterator<Item = (&'a str, T)>,
) -> Result<T, CaseError> {
    let mut names = Vec::new();
    for (name, thing) in known {
        if name == given {
            return Ok(thing);
        }
        names.push(name);
    }
    Err(CaseError::Unknown { what, given: given.to_owned(), choices: choices(given, names) })
}
