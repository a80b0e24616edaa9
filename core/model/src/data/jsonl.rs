//! Lines of JSON, and texts with a label.

use serde::Deserialize;

use super::{Collector, DataError, Items, Lines};

/// Text with its label.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Labelled {
    /// The text.
    pub text: String,
    /// Its class.
    pub label: String,
}

/// Reads each line that is not blank.
pub(super) fn each<T>(
    bytes: &[u8],
    lines: Lines,
    item: impl Fn(&str) -> Result<T, String>,
) -> Result<Items<Vec<T>>, DataError> {
    let mut all = Collector::new(lines);
    for (bytes, line) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => all.add(line, item(text))?,
            Err(_) => all.add(line, Err("it is not in UTF-8".to_owned()))?,
        }
    }
    all.finish()
}

/// Returns the message of a parser without its position: a line of the file is line 1 of the parser.
pub(super) fn without_line(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let cut = message.find(" at line ").unwrap_or(message.len());
    format!("{} (column {})", &message[..cut], error.column())
}

/// Reads texts with labels: `{"text": "…", "label": "…"}` on each line.
///
/// # Errors
/// Line with an error, unless lenient.
pub fn labelled(bytes: &[u8], lines: Lines) -> Result<Items<Vec<Labelled>>, DataError> {
    each(bytes, lines, |text| {
        let item: Labelled = serde_json::from_str(text).map_err(|error| without_line(&error))?;
        if item.label.is_empty() { Err("the label is empty".to_owned()) } else { Ok(item) }
    })
}
