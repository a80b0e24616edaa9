//! What was posted, as a run. The fuzzer has this file alone.

use parallax_core::record::{ReadError, Run};

/// Why a body is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Bytes that are no text.
    #[error("A result is text in UTF-8, and this is not.")]
    NotText,
    /// A text that is no run.
    #[error("The desk does not take this: {0}.")]
    NotRun(#[from] ReadError),
}

/// The run that a body is.
///
/// # Errors
/// When it is none, in a sentence for its sender.
pub fn read(body: &[u8]) -> Result<Run, Refused> {
    let text = std::str::from_utf8(body).map_err(|_| Refused::NotText)?;
    Ok(Run::parse(text)?)
}
