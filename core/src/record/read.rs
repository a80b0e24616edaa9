//! Run files: one JSON, or lines of it while the run goes on or where it was killed.
//!
//! What reads and writes whole runs is `#[inline]`, here and in [`super::event`]: then it is compiled with its caller, which in
//! a page is for size, while this crate is compiled for speed, for the sake of the workloads' host code.

use serde::Deserialize;

use super::valid::validate;
use super::{Event, Invalid, Run, SCHEMA, VERSION, events};

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
    /// Numbers are checked, and summaries follow from their samples.
    #[inline]
    pub fn parse(text: &str) -> Result<Run, ReadError> {
        // The mark that some editors put before a text says nothing.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        #[cfg(not(target_arch = "wasm32"))]
        let mut run = typed(text)?;
        #[cfg(target_arch = "wasm32")]
        let mut run = by_values(text)?;
        validate(&mut run).map_err(ReadError::Invalid)?;
        Ok(run)
    }
}

/// What tells run files from other JSON. The rest of a text is passed over.
#[derive(Default, Deserialize)]
struct Head {
    schema: Option<String>,
    version: Option<u64>,
    /// The first line of a file of lines is an event.
    event: Option<String>,
    /// In that event.
    run: Option<Box<Head>>,
}

impl Head {
    /// Whether this program reads what has this head.
    fn check(&self) -> Result<(), ReadError> {
        let schema = self.schema.as_deref().unwrap_or("absent");
        if schema != SCHEMA {
            return Err(ReadError::Schema(schema.to_owned()));
        }
        match self.version {
            Some(version) if version > u64::from(VERSION) => Err(ReadError::Newer(version)),
            _ => Ok(()),
        }
    }
}

/// Read a run as its type at once: a tree of values takes many times the memory of the text.
#[cfg(not(target_arch = "wasm32"))]
fn typed(text: &str) -> Result<Run, ReadError> {
    #[derive(Deserialize)]
    struct Begin {
        run: Run,
    }
    if !text.trim_start().starts_with('{') {
        serde_json::from_str::<serde::de::IgnoredAny>(text)?;
        return Err(ReadError::Schema("absent".to_owned()));
    }
    let whole = serde_json::from_str::<Head>(text);
    if let Ok(head @ Head { event: None, .. }) = &whole {
        head.check()?;
        return Ok(serde_json::from_str(text)?);
    }
    let first = text.lines().next().unwrap_or_default();
    match serde_json::from_str::<Head>(first) {
        Ok(Head { event: Some(event), run, .. }) if event == "begin" => {
            run.unwrap_or_default().check()?;
            unclosed(text, serde_json::from_str::<Begin>(first)?.run)
        }
        _ => Err(whole.err().map_or_else(|| ReadError::Schema("absent".to_owned()), ReadError::Malformed)),
    }
}

/// Read a run as a page does, where one reader for whole files and for events is half of what would be downloaded.
#[cfg(any(target_arch = "wasm32", test))]
#[inline]
fn by_values(text: &str) -> Result<Run, ReadError> {
    use serde_json::Value;
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.get("event").is_none() => from_value(value),
        whole => {
            let first = text.lines().next().unwrap_or_default();
            match serde_json::from_str::<Value>(first) {
                Ok(mut header) if header.get("event").is_some_and(|event| event == "begin") => {
                    unclosed(text, from_value(header["run"].take())?)
                }
                _ => Err(whole.err().map_or_else(|| ReadError::Schema("absent".to_owned()), ReadError::Malformed)),
            }
        }
    }
}

#[cfg(any(target_arch = "wasm32", test))]
#[inline]
fn from_value(value: serde_json::Value) -> Result<Run, ReadError> {
    let schema = value.get("schema").and_then(|schema| schema.as_str()).map(str::to_owned);
    let version = value.get("version").and_then(|version| version.as_u64());
    Head { schema, version, ..Head::default() }.check()?;
    match serde_json::from_value(serde_json::json!({"event": "begin", "run": value}))? {
        Event::Begin { run } => Ok(*run),
        _ => unreachable!("its event is `begin`"),
    }
}

/// Fold the lines of a file that was never closed. The last one may be cut off anywhere; then it did not happen.
#[inline]
fn unclosed(text: &str, mut run: Run) -> Result<Run, ReadError> {
    let mut ended = false;
    let (whole, cut) = text.rsplit_once('\n').unwrap_or((text, ""));
    for event in events(whole).skip(1) {
        let event = event?;
        ended |= matches!(event, Event::End { .. });
        run.apply(event);
    }
    if let Some(Ok(event)) = events(cut).next() {
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
    fn lines() -> String {
        let mut begun = run("cuda", "X", &[]);
        begun.planned = ["a/b", "a/c", "a/d"].map(str::to_owned).to_vec();
        let record = |case: &str| Event::Record { record: Box::new(record(case, timing(&[100.0; 9]))) };
        let drift = Event::Drift { drift: drift(&[1.0])[0].clone() };
        let told = [Event::Begin { run: Box::new(begun) }, record("a/b"), drift, record("a/c"), record("a/d")];
        told.iter().map(Event::line).collect()
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_loses_at_most_its_last_line() {
        let text = lines();
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
    fn a_page_reads_what_a_command_line_reads() {
        let closed = serde_json::to_string(&run("cuda", "X", &[("a/b", vec![100.0; 9])])).expect("JSON");
        let newer = |text: &str| text.replacen("\"version\":3", "\"version\":99", 1);
        let foreign = |text: &str| text.replacen("parallax.run", "something.else", 1);
        let lines = lines();
        let first = lines.lines().next().expect("a line");
        let (newer_lines, foreign_lines) = (newer(&lines), foreign(&lines));
        let old = closed.replacen("\"devices\":[", "\"device\":[", 1);
        for text in [
            &closed,
            &old,
            &lines,
            first,
            &newer(&closed),
            &newer_lines,
            &foreign(&closed),
            &foreign_lines,
            &closed[..closed.len() / 2],
            "",
            "{}",
            "[1]",
            "null",
            "{\"event\":\"begin\"}",
            "{\"event\":\"started\",\"case\":\"x\"}",
        ] {
            let (typed, by_values) = (typed(text), by_values(text));
            match (&typed, &by_values) {
                (Ok(typed), Ok(by_values)) => assert_eq!(typed, by_values, "{text}"),
                (Err(typed), Err(by_values)) => {
                    assert_eq!(std::mem::discriminant(typed), std::mem::discriminant(by_values), "{text}: {typed}");
                }
                _ => panic!("{text}: {typed:?} or {by_values:?}"),
            }
        }
    }

    #[test]
    fn a_byte_order_mark_says_nothing() {
        let closed = serde_json::to_string(&run("cuda", "X", &[])).expect("JSON");
        for text in [lines(), closed] {
            let marked = Run::parse(&format!("\u{feff}{text}")).expect("the mark is passed over");
            assert_eq!(marked, Run::parse(&text).expect("a run"));
        }
    }

    #[test]
    fn a_broken_line_in_the_middle_is_told() {
        let text = lines().replacen("\"event\":\"drift\"", "\"event\":\"dri", 1);
        assert!(matches!(Run::parse(&text), Err(ReadError::Malformed(_))));
        let newer = lines().replacen("\"version\":3", "\"version\":99", 1);
        assert!(matches!(Run::parse(&newer), Err(ReadError::Newer(99))));
        assert!(matches!(Run::parse("{\"event\":\"started\",\"case\":\"x\"}"), Err(ReadError::Schema(_))));
    }

    #[test]
    fn a_file_that_ended_but_was_not_closed_says_how_it_ended() {
        let end = |why: Option<&str>| {
            let event = Event::End { interrupted: why.map(str::to_owned), environment: Default::default() };
            Run::parse(&(lines() + &event.line())).expect("whole").interrupted
        };
        assert_eq!((end(None), end(Some("stopped")).as_deref()), (None, Some("stopped")));
    }
}
