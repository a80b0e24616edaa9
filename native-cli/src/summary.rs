//! The summary of a job of GitHub Actions: a file of Markdown that a variable names.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

use crate::console::noteln;

/// Variable with the path of the summary.
pub const VARIABLE: &str = "GITHUB_STEP_SUMMARY";

/// Limit on the text of one summary, in bytes. GitHub refuses a step with more than a mebibyte.
const LONGEST: usize = 1_000_000;

/// Appends Markdown to the summary of the job; prints a note outside of a job.
///
/// # Errors
/// Summary that cannot be written.
pub fn append(text: &str) -> anyhow::Result<()> {
    match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => append_to(Path::new(&path), text),
        None => {
            noteln!("no summary is written: {VARIABLE} is not set");
            Ok(())
        }
    }
}

fn append_to(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = File::options().create(true).append(true).open(path);
    let written = written.and_then(|mut file| file.write_all(shortened(text, LONGEST).as_bytes()));
    written.with_context(|| format!("cannot write {}, which {VARIABLE} names", path.display()))
}

/// Returns the whole lines of a text that fit into `most` bytes, with a line on the rest.
fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.bytes().take(most).rposition(|byte| byte == b'\n').map_or(0, |at| at + 1);
    format!("{}\nThe rest has no room in a summary.\n", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_follow_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("summary.md");
        for text in ["one\n", "two\n"] {
            append_to(&path, text).expect("writable");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "one\ntwo\n");
        let error = append_to(folder.path(), "").expect_err("a folder");
        assert!(error.to_string().contains(VARIABLE), "{error}");
    }

    #[test]
    fn a_long_text_keeps_its_first_whole_lines() {
        assert_eq!(shortened("ä\nb\n", 5), "ä\nb\n");
        assert_eq!(shortened("ä\nbc\nd\n", 5), "ä\n\nThe rest has no room in a summary.\n");
        assert_eq!(shortened("äöü", 3), "\nThe rest has no room in a summary.\n");
    }
}
