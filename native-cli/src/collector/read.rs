//! Parser of a posted run. The fuzzer uses this file alone.

use parallax_schema::record::{ReadError, Run};

/// Reason for a refused body.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Body that is not UTF-8.
    #[error("A result is text in UTF-8, and this is not.")]
    NotText,
    /// Text that is no run.
    #[error("The collector refuses this: {0}.")]
    NotRun(#[from] ReadError),
}

/// Parses a body as a run.
///
/// # Errors
/// Body that is no run, as a sentence for its sender.
pub fn read(body: &[u8]) -> Result<Run, Refused> {
    let text = std::str::from_utf8(body).map_err(|_| Refused::NotText)?;
    Ok(Run::parse(text)?)
}
