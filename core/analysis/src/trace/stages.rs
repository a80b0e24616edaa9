//! Times of stages in a trace file, as [`super::line`] writes them or as PyTorch's profiler does.
//!
//! A file is read event by event. Nothing of it is kept but names and durations of the device's work.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Categories of the device's work.
const WORK: [&str; 3] = ["kernel", "gpu_memcpy", "gpu_memset"];

/// A stage of a case. The case is empty in a file of another program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageName {
    /// Canonical string of the case.
    pub case: String,
    /// Label of the stage.
    pub stage: String,
}

/// Times of each stage of a trace in nanoseconds, in the order of the file.
pub type StageTimes = BTreeMap<StageName, Vec<f64>>;

/// Error of a trace file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read, is no JSON, or has a value of another type.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The file has no list of events.
    #[error("it has no `traceEvents`; name a trace file, as in run.trace.json")]
    NoEvents,
    /// The file has no work of a device.
    #[error("it has no kernel, copy or fill of a device; `parallax run` writes traces with some")]
    NoWork,
}

/// Reads the times of all stages from the JSON of a trace: an object with `traceEvents`, or a list of events.
///
/// # Errors
/// Failed read, invalid JSON, a wrong type, a time that is negative or infinite, or a file without device work.
pub fn stage_times(reader: impl Read) -> Result<StageTimes, TraceError> {
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let times = FileSeed.deserialize(&mut deserializer)?.ok_or(TraceError::NoEvents)?;
    deserializer.end()?;
    if times.is_empty() { Err(TraceError::NoWork) } else { Ok(times) }
}

/// The fields of an event that are read. The others may have any form.
#[derive(Deserialize)]
struct TraceEvent {
    ph: Option<String>,
    cat: Option<String>,
    name: Option<String>,
    dur: Option<f64>,
    args: Option<TraceArgs>,
}

#[derive(Deserialize, Default)]
struct TraceArgs {
    case: Option<String>,
    stage: Option<String>,
}

impl TraceEvent {
    /// Returns the stage and the time of the device's work; `None` for other events.
    fn work(self, number: usize) -> Result<Option<(StageName, f64)>, String> {
        let is_work = self.cat.is_some_and(|cat| WORK.contains(&cat.as_str()));
        if self.ph.as_deref() != Some("X") || !is_work {
            return Ok(None);
        }
        let args = self.args.unwrap_or_default();
        let stage = args.stage.or(self.name).ok_or_else(|| format!("event {number} has no `name`"))?;
        match self.dur {
            Some(micros) if micros.is_finite() && micros >= 0.0 => {
                Ok(Some((StageName { case: args.case.unwrap_or_default(), stage }, micros * 1e3)))
            }
            Some(micros) => Err(format!("event {number}: `dur` is {micros}, which is no length of time")),
            None => Err(format!("event {number} has no `dur`")),
        }
    }
}

/// Reader of a whole file; `None` without events.
struct FileSeed;

impl<'de> DeserializeSeed<'de> for FileSeed {
    type Value = Option<StageTimes>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FileSeed {
    type Value = Option<StageTimes>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace: an object with `traceEvents`, or a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut times = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" if times.is_some() => return Err(A::Error::custom("`traceEvents` is there twice")),
                "traceEvents" => times = Some(map.next_value_seed(EventsSeed)?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(times)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        EventsSeed.visit_seq(seq).map(Some)
    }
}

/// Reader of a list of events.
struct EventsSeed;

impl<'de> DeserializeSeed<'de> for EventsSeed {
    type Value = StageTimes;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<StageTimes, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventsSeed {
    type Value = StageTimes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<StageTimes, A::Error> {
        let mut times = StageTimes::new();
        let mut number = 0;
        while let Some(event) = seq.next_element::<TraceEvent>()? {
            number += 1;
            if let Some((name, time)) = event.work(number).map_err(A::Error::custom)? {
                times.entry(name).or_default().push(time);
            }
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String, Vec<f64>)>, String> {
        let times = stage_times(text.as_bytes()).map_err(|error| error.to_string())?;
        Ok(times.into_iter().map(|(name, times)| (name.case, name.stage, times)).collect())
    }

    #[test]
    fn work_of_the_device_is_read_by_case_and_stage() {
        let events = r#"[
            {"ph":"M","name":"process_name","pid":0,"args":{"name":"any"}},
            {"ph":"X","cat":"cpu_op","name":"op","ts":0,"dur":9},
            {"ph":"X","cat":"kernel","name":"softmax","ts":0,"dur":1.5,"args":{"case":"a/b","grid":[1,2]}},
            {"ph":"X","cat":"kernel","name":"softmax","ts":9,"dur":2.5,"args":{"case":"a/b"}},
            {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","ts":0,"dur":3,"args":{"case":"a/b","stage":"upload"}},
            {"ph":"s","cat":"ac2g","id":1},
            {"ph":"X","cat":"kernel","name":"sgemm","ts":0,"dur":4}
        ]"#;
        let want = vec![
            (String::new(), "sgemm".to_owned(), vec![4000.0]),
            ("a/b".to_owned(), "softmax".to_owned(), vec![1500.0, 2500.0]),
            ("a/b".to_owned(), "upload".to_owned(), vec![3000.0]),
        ];
        assert_eq!(read(events).expect("a list"), want);
        let object = format!(r#"{{"schemaVersion":1,"traceEvents":{events},"otherData":{{"a":[{{}}]}}}}"#);
        assert_eq!(read(&object).expect("an object"), want);
    }

    #[test]
    fn other_files_have_one_line_about_their_fault() {
        let deep = format!(r#"{{"x":{}1{},"traceEvents":[]}}"#, "[".repeat(4000), "]".repeat(4000));
        let work = |rest: &str| format!(r#"[{{"ph":"X","cat":"kernel",{rest}}}]"#);
        for (text, part) in [
            (String::new(), "EOF"),
            (r#"{"traceEvents":[{"ph":"X","#.to_owned(), "EOF"),
            ("{}".to_owned(), "no `traceEvents`"),
            (r#"{"schema":"parallax.run","records":[]}"#.to_owned(), "no `traceEvents`"),
            ("[]".to_owned(), "no kernel"),
            (r#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","dur":1}]}"#.to_owned(), "no kernel"),
            ("7".to_owned(), "expected a trace"),
            (r#"{"traceEvents":{}}"#.to_owned(), "a list of events"),
            (r#"{"traceEvents":[],"traceEvents":[]}"#.to_owned(), "twice"),
            ("[1]".to_owned(), "invalid type"),
            (work(r#""name":"a","dur":-1"#), "event 1: `dur` is -1"),
            (work(r#""name":"a","dur":1e999"#), "number out of range"),
            (work(r#""name":"a","dur":"1""#), "invalid type"),
            (work(r#""name":"a""#), "event 1 has no `dur`"),
            (work(r#""dur":1"#), "event 1 has no `name`"),
            (work(r#""name":"a","dur":1,"args":{"case":7}"#), "invalid type"),
            ("[] []".to_owned(), "trailing"),
            // Ignored values may be nested to any depth.
            (deep, "no kernel"),
        ] {
            let said = read(&text).expect_err(&text);
            assert!(said.contains(part) && said.lines().count() == 1, "{text:.80}: {said}");
        }
    }
}
