//! Run files: one JSON, or lines of it while the run goes on or where it was killed.
//!
//! What reads and writes whole runs is `#[inline]`, here and in [`super::event`]: then it is compiled with its caller, which in
//! a page is for size, while this crate is compiled for speed, for the sake of the workloads' host code.

use serde_json::{Value, json};

use super::event::lines;
use super::valid::validate;
use super::{Event, Invalid, Run, SCHEMA, VERSION};
use crate::device::columns;

/// A file that is no run this program can read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not JSON, or not of the schema.
    #[error("not a Parallax run: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Some other JSON.
    #[error("not a Parallax run: its schema is `{0}`, not `{SCHEMA}`")]
    Schema(String),
    /// Written by a newer program.
    #[error("written by a newer version: its schema version is {0}, this program reads up to {VERSION}; update it")]
    Newer(u64),
    /// Of the schema, with a number that cannot be.
    #[error("not a sound run: {0}; measure again, or mend the file")]
    Invalid(Invalid),
}

/// Why a run whose file was never closed ended.
pub const UNFINISHED: &str = "the file is not closed: the run was killed, or still goes on";

impl Run {
    /// Parse a run, telling a newer or foreign file from a broken one. Of a file that is not closed, everything up to the
    /// last whole line counts, and [`Run::interrupted`] says [`UNFINISHED`].
    /// Numbers are checked, and summaries follow from their samples. The memory that it takes is bounded by the text's length.
    ///
    /// # Errors
    /// When it is no run, a newer one, or one that cannot be.
    #[inline]
    pub fn parse(text: &str) -> Result<Run, ReadError> {
        columns::within(text.len(), || parse(text))
    }
}

#[inline]
fn parse(text: &str) -> Result<Run, ReadError> {
    // The mark that some editors put before a text says nothing.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut run = match serde_json::from_str::<Value>(text) {
        Ok(value) if value.get("event").is_none() => from_value(value)?,
        whole => {
            let first = text.lines().next().unwrap_or_default();
            match serde_json::from_str::<Value>(first) {
                Ok(header) if header.get("event").is_some_and(|event| event == "begin") => unclosed(text, header)?,
                _ => {
                    return Err(whole
                        .err()
                        .map_or_else(|| ReadError::Schema("absent".to_owned()), ReadError::Malformed));
                }
            }
        }
    };
    validate(&mut run).map_err(ReadError::Invalid)?;
    Ok(run)
}

#[inline]
fn from_value(value: Value) -> Result<Run, ReadError> {
    let schema = value.get("schema").and_then(|s| s.as_str()).unwrap_or("absent");
    if schema != SCHEMA {
        return Err(ReadError::Schema(schema.to_owned()));
    }
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version > u64::from(VERSION) => return Err(ReadError::Newer(version)),
        _ => {}
    }
    // As the first line of a file of lines would be read: one reader for both is half of what a page would download.
    match serde_json::from_value(json!({"event": "begin", "run": value}))? {
        Event::Begin { run } => Ok(*run),
        _ => unreachable!("its event is `begin`"),
    }
}

/// Fold the lines of a file that was never closed. The last one may be cut off anywhere; then it did not happen.
#[inline]
fn unclosed(text: &str, mut header: Value) -> Result<Run, ReadError> {
    let mut run = from_value(header["run"].take())?;
    let mut ended = false;
    let (whole, cut) = text.rsplit_once('\n').unwrap_or((text, ""));
    for event in lines(whole).skip(1) {
        let event = event?;
        ended |= matches!(event, Event::End { .. });
        run.apply(event);
    }
    if let Some(Ok(event)) = lines(cut).next() {
        ended |= matches!(event, Event::End { .. });
        run.apply(event);
    }
    if !ended {
        run.keep_sampled();
        run.interrupted = Some(UNFINISHED.to_owned());
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{drift, record, run, timing};

    /// The file of a run in progress, as the command line appends it.
    fn file() -> String {
        let mut begun = run("cuda", "X", &[]);
        begun.planned = ["a/b", "a/c", "a/d"].map(str::to_owned).to_vec();
        let record = |case: &str| Event::Record { record: Box::new(record(case, timing(&[100.0; 9]))) };
        let drift = Event::Drift { drift: drift(&[1.0])[0].clone() };
        let told = [Event::Begin { run: Box::new(begun) }, record("a/b"), drift, record("a/c"), record("a/d")];
        told.iter().map(Event::line).collect()
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_loses_at_most_its_last_line() {
        let text = file();
        let header = text.find('\n').expect("a line");
        for at in 0..=text.len() {
            let cut = &text[..at];
            let read = Run::parse(cut);
            if at < header {
                assert!(matches!(read, Err(ReadError::Malformed(_))), "{at}: there is no run yet");
                continue;
            }
            let read = read.unwrap_or_else(|e| panic!("{at}: {e}"));
            let ends = cut.matches("\n{\"event\":\"record\"").count();
            assert!((ends.saturating_sub(1)..=ends).contains(&read.records.len()), "{at}: {}", read.records.len());
            assert_eq!(read.interrupted.as_deref(), Some(UNFINISHED));
            assert_eq!(read.missing().count(), 3 - read.records.len());
        }
        assert_eq!(Run::parse(&text).expect("whole lines").records.len(), 3);
    }

    #[test]
    fn a_byte_order_mark_says_nothing() {
        let closed = serde_json::to_string(&run("cuda", "X", &[])).expect("JSON");
        for text in [file(), closed] {
            let marked = Run::parse(&format!("\u{feff}{text}")).expect("the mark is passed over");
            assert_eq!(marked, Run::parse(&text).expect("a run"));
        }
    }

    #[test]
    fn a_broken_line_in_the_middle_is_told() {
        let text = file().replacen("\"event\":\"drift\"", "\"event\":\"dri", 1);
        assert!(matches!(Run::parse(&text), Err(ReadError::Malformed(_))));
        let newer = file().replacen("\"version\":3", "\"version\":99", 1);
        assert!(matches!(Run::parse(&newer), Err(ReadError::Newer(99))));
        assert!(matches!(Run::parse("{\"event\":\"started\",\"case\":\"x\"}"), Err(ReadError::Schema(_))));
    }

    #[test]
    fn a_file_that_ended_but_was_not_closed_says_how_it_ended() {
        let end = |why: Option<&str>| {
            let event = Event::End { interrupted: why.map(str::to_owned), environment: Default::default() };
            Run::parse(&(file() + &event.line())).expect("whole").interrupted
        };
        assert_eq!((end(None), end(Some("stopped")).as_deref()), (None, Some("stopped")));
    }
}
