//! Run files: one JSON value, or lines of JSON while the run continues or after it was killed.
//!
//! Functions that read and write whole runs are `#[inline]`, here and in [`super::event`], so that they are compiled with their
//! caller. A page compiles for size; this crate is compiled for speed, for the host code of the workloads.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::roofline::FASTEST_LINK;
use super::valid::validate;
use super::{Event, Invalid, Outcome, Refusal, Run, SCHEMA, VERSION, is_trace};
use crate::device::columnar;
use crate::units::brief;

/// Characters of a message about JSON, which quotes its input.
const LONGEST_MESSAGE: usize = 160;
/// Characters of a quoted name.
pub(super) const LONGEST_QUOTE: usize = 80;

/// Error of a file that is not a readable run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not JSON, or not of the schema.
    #[error("not a Parallax run: {}", brief(&.0.to_string(), LONGEST_MESSAGE))]
    Malformed(serde_json::Error),
    /// A part is not of the schema.
    #[error("not a valid run: {place}: {}; measure again, or correct the file", brief(&.mistake.to_string(), LONGEST_MESSAGE))]
    Part {
        /// The record by its case, or the line of the file.
        place: String,
        /// The error in it.
        mistake: serde_json::Error,
    },
    /// The trace of a run.
    #[error("this is a trace, for viewers; the run is in the file beside it, without `.trace` in its name")]
    Trace,
    /// JSON without a schema.
    #[error("not a Parallax run: it has no `schema` field")]
    NoSchema,
    /// Some other JSON.
    #[error("not a Parallax run: its schema is `{}`, not `{SCHEMA}`", brief(.0, LONGEST_QUOTE))]
    Schema(String),
    /// Written by a newer program.
    #[error("written by a newer version: its schema version is {0}, this program reads up to {VERSION}; update it")]
    Newer(u64),
    /// Of the schema, with an impossible number.
    #[error("not a valid run: {0}; measure again, or correct the file")]
    Invalid(Invalid),
}

/// Value of [`Run::interrupted`] for a run with an unclosed file.
pub const UNFINISHED: &str = "the file is not closed: the run was killed, or is in progress";

impl Run {
    /// Parses a run, and distinguishes a newer or foreign file from a broken one. Of an unclosed file, everything up to the last
    /// whole line counts, and [`Run::interrupted`] is [`UNFINISHED`].
    /// Numbers are checked, and summaries are derived from their samples. The memory is bounded by the length of the JSON.
    ///
    /// # Errors
    /// JSON that is no run, is a newer one, or has impossible values.
    #[inline]
    pub fn parse(text: &str) -> Result<Run, ReadError> {
        columnar::within(text.len(), || parse(text))
            .map_err(|mistake| columnar::within(text.len(), || placed(text, mistake)))
    }
}

#[inline]
fn parse(text: &str) -> Result<Run, ReadError> {
    // The byte-order mark of some editors has no meaning here.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_trace(text) {
        return Err(ReadError::Trace);
    }
    #[cfg(not(target_arch = "wasm32"))]
    let mut run = typed(text)?;
    #[cfg(target_arch = "wasm32")]
    let mut run = by_values(text)?;
    validate(&mut run).map_err(ReadError::Invalid)?;
    withdraw_local_uploads(&mut run);
    Ok(run)
}

/// Withdraws uploads that crossed no link, and the figures of cases with them. Older programs took them for the link's.
fn withdraw_local_uploads(run: &mut Run) {
    let Some(baseline) = &mut run.baseline else { return };
    let known = baseline.ceilings.link.local_up.is_some();
    let Some(why) = baseline.ceilings.link.withdraw(&run.devices[0]) else { return };
    if known {
        return;
    }
    baseline.ceilings.missing.push(why.clone());
    for record in &mut run.records {
        if let Outcome::Pass(measured) = &record.outcome
            && measured
                .analysis
                .as_ref()
                .and_then(|analysis| analysis.peak_link)
                .is_some_and(|rate| rate > FASTEST_LINK)
        {
            let check = measured.check.clone();
            record.outcome = Outcome::Refused { kind: Refusal::Impossible, reason: why.clone(), check };
        }
    }
}

/// Keys that distinguish run files from other JSON. Other keys are skipped.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Default, Deserialize)]
struct Head {
    schema: Option<String>,
    version: Option<u64>,
    /// In a file of lines, the first line is an event.
    event: Option<String>,
    /// The run of that event.
    run: Option<Box<Head>>,
}

#[cfg(not(target_arch = "wasm32"))]
impl Head {
    fn check(&self) -> Result<(), ReadError> {
        check(self.schema.as_deref(), self.version)
    }
}

/// Checks that this program reads files of a schema and its version.
fn check(schema: Option<&str>, version: Option<u64>) -> Result<(), ReadError> {
    let Some(schema) = schema else { return Err(ReadError::NoSchema) };
    if schema != SCHEMA {
        return Err(ReadError::Schema(schema.to_owned()));
    }
    match version {
        Some(version) if version > u64::from(VERSION) => Err(ReadError::Newer(version)),
        _ => Ok(()),
    }
}

/// Reads a run directly as its type: a tree of values takes many times the memory of the JSON.
#[cfg(not(target_arch = "wasm32"))]
fn typed(text: &str) -> Result<Run, ReadError> {
    #[derive(Deserialize)]
    struct Begin {
        run: Run,
    }
    if !text.trim_start().starts_with('{') {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(ReadError::Malformed)?;
        return Err(ReadError::NoSchema);
    }
    let whole = serde_json::from_str::<Head>(text);
    if let Ok(head @ Head { event: None, .. }) = &whole {
        head.check()?;
        return serde_json::from_str(text).map_err(ReadError::Malformed);
    }
    let first = text.lines().next().unwrap_or_default();
    match serde_json::from_str::<Head>(first) {
        Ok(Head { event: Some(event), run, .. }) if event == "begin" => {
            run.unwrap_or_default().check()?;
            unclosed(text, serde_json::from_str::<Begin>(first).map_err(ReadError::Malformed)?.run)
        }
        _ => Err(whole.err().map_or_else(|| ReadError::NoSchema, ReadError::Malformed)),
    }
}

/// Reads a run as a page does. One reader for whole files and events halves the download.
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
                _ => Err(whole.err().map_or_else(|| ReadError::NoSchema, ReadError::Malformed)),
            }
        }
    }
}

#[cfg(any(target_arch = "wasm32", test))]
#[inline]
fn from_value(value: serde_json::Value) -> Result<Run, ReadError> {
    check(
        value.get("schema").and_then(|schema| schema.as_str()),
        value.get("version").and_then(|version| version.as_u64()),
    )?;
    let event = serde_json::json!({"event": "begin", "run": value});
    match serde_json::from_value(event).map_err(ReadError::Malformed)? {
        Event::Begin { run } => Ok(*run),
        _ => unreachable!("its event is `begin`"),
    }
}

/// Adds the place to an error that a record of the run causes. The JSON is read a second time, at no cost for a valid file.
#[inline]
fn placed(text: &str, mistake: ReadError) -> ReadError {
    #[derive(Deserialize)]
    struct Records<'a> {
        #[serde(borrow)]
        records: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Named {
        case: String,
    }
    let ReadError::Malformed(_) = mistake else { return mistake };
    let Ok(Records { records }) = serde_json::from_str(text) else { return mistake };
    let first = (1..).zip(records).find_map(|(number, record)| {
        let line = format!("{{\"event\":\"record\",\"record\":{record}}}");
        let mistake = serde_json::from_str::<Event>(&line).err()?;
        let place = match serde_json::from_str(record.get()) {
            Ok(Named { case }) => of_case(&case),
            Err(_) => format!("record {number}"),
        };
        Some(ReadError::Part { place, mistake })
    });
    first.unwrap_or(mistake)
}

/// Returns the place of a record, by its case.
pub(super) fn of_case(case: &str) -> String {
    format!("the record of `{}`", brief(case, LONGEST_QUOTE))
}

/// Folds the lines of an unclosed file. The last line may be truncated, and then does not count.
#[inline]
fn unclosed(text: &str, mut run: Run) -> Result<Run, ReadError> {
    let mut ended = false;
    let (whole, cut) = text.rsplit_once('\n').unwrap_or((text, ""));
    let mut apply = |event: Event| {
        ended |= matches!(event, Event::End { .. });
        run.apply(event);
    };
    for (number, line) in (1..).zip(whole.lines()).skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        apply(
            serde_json::from_str(line)
                .map_err(|mistake| ReadError::Part { place: format!("line {number}"), mistake })?,
        );
    }
    if let Ok(event) = serde_json::from_str(cut) {
        apply(event);
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
    use crate::device::Dialect;
    use crate::record::roofline::{Analysis, Bandwidth, Bound, Ceilings, Link};
    use crate::record::{Baseline, TimerTest};
    use crate::testing::{drift, measured, record, run, timing};
    use crate::units::{Bytes, Nanos};
    use serde_json::json;

    /// Returns the file of a run in progress, as the command line appends it.
    fn file() -> String {
        let mut begun = run("cuda", "X", &[]);
        begun.planned = ["a/b", "a/c", "a/d"].map(str::to_owned).to_vec();
        let record = |case: &str| Event::Record { record: Box::new(record(case, timing(&[100.0; 9]))) };
        let drift = Event::Drift { drift: drift(&[1.0])[0].clone() };
        let told = [Event::Begin { run: Box::new(begun) }, record("a/b"), drift, record("a/c"), record("a/d")];
        told.iter().map(Event::line).collect()
    }

    #[test]
    fn uploads_that_crossed_no_link_have_no_figure() {
        let mut earlier = run("browser", "X", &[("a/b", vec![100.0; 9]), ("a/c", vec![100.0; 9])]);
        earlier.devices[0].caps.dialect = Dialect::Wgsl;
        let point = |rate| vec![Bandwidth { working_set: Bytes(1 << 26), rate, probe: String::new() }];
        let link = Link { up: point(4.2e11), down: point(5e10), local_up: None };
        let ceilings = Ceilings { link, ..Ceilings::default() };
        earlier.baseline = Some(Baseline { clock: earlier.clock.clone(), timer: TimerTest::default(), ceilings });
        for (case, peak_link) in [("a/b", 4.2e11), ("a/c", 5e10)] {
            measured(&mut earlier, case).analysis = Some(Analysis {
                intensity: 1.0,
                floor: Nanos(1.0),
                utilisation: 0.5,
                peak_flops: None,
                peak_bandwidth: None,
                peak_link: Some(peak_link),
                bound: Bound::Transfer,
            });
        }
        let read = |run: &Run| Run::parse(&serde_json::to_string(run).expect("JSON")).expect("a run");
        let once = read(&earlier);
        let link = &once.baseline.as_ref().expect("measured").ceilings.link;
        assert_eq!((link.up.len(), link.down.len(), link.local_up), (0, 1, Some(4.2e11)));
        assert_eq!(once.baseline.as_ref().expect("measured").ceilings.missing.len(), 1);
        let outcomes: Vec<&str> = once.records.iter().map(|record| record.verdict()).collect();
        assert_eq!(outcomes, ["impossible", "pass"]);
        assert_eq!(serde_json::to_value(read(&once)).expect("JSON"), serde_json::to_value(&once).expect("JSON"));
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
    fn a_page_reads_what_a_command_line_reads() {
        let closed = serde_json::to_string(&run("cuda", "X", &[("a/b", vec![100.0; 9])])).expect("JSON");
        let newer = |text: &str| text.replacen("\"version\":3", "\"version\":99", 1);
        let foreign = |text: &str| text.replacen("parallax.run", "something.else", 1);
        let lines = file();
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
        for text in [file(), closed] {
            let marked = Run::parse(&format!("\u{feff}{text}")).expect("the mark is passed over");
            assert_eq!(marked, Run::parse(&text).expect("a run"));
        }
    }

    #[test]
    fn a_broken_line_in_the_middle_is_told() {
        let text = file().replacen("\"event\":\"drift\"", "\"event\":\"dri", 1);
        let mistake = Run::parse(&text).expect_err("a broken line");
        assert!(matches!(&mistake, ReadError::Part { place, .. } if place == "line 3"), "{mistake}");
        let newer = file().replacen("\"version\":3", "\"version\":99", 1);
        assert!(matches!(Run::parse(&newer), Err(ReadError::Newer(99))));
        assert!(matches!(Run::parse("{\"event\":\"started\",\"case\":\"x\"}"), Err(ReadError::NoSchema)));
    }

    #[test]
    fn a_mistake_names_its_record_and_quotes_little_of_it() {
        let good =
            |case: &str| (case.to_owned(), serde_json::to_value(record(case, timing(&[100.0; 9]))).expect("JSON"));
        let long = "x".repeat(1 << 14);
        for (pointer, value) in
            [("/outcome", json!(long)), ("/cost", json!(long)), ("/timing/samples", json!({ "a": 1 }))]
        {
            for case in ["a/b", long.as_str()] {
                let mut file = serde_json::to_value(run("cuda", "X", &[])).expect("JSON");
                let (_, mut broken) = good(case);
                *broken.pointer_mut(pointer).expect(pointer) = value.clone();
                file["records"] = json!([good("a/a").1, broken]);
                let mistake = Run::parse(&file.to_string()).expect_err(pointer);
                let said = mistake.to_string();
                assert!(said.contains(&of_case(case)) && said.len() < 400, "{pointer}: {said}");
                assert!(std::error::Error::source(&mistake).is_none(), "the message has no repetition");
            }
        }
        for text in
            [format!("{{\"schema\":\"{long}\"}}"), format!("{{\"schema\":\"{SCHEMA}\",\"version\":\"{long}\"}}")]
        {
            let said = Run::parse(&text).expect_err("foreign").to_string();
            assert!(said.len() < 300, "{said}");
        }
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
