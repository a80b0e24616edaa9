//! What the page says.

use std::collections::BTreeMap;

use parallax_core::record::{Record, Run};
use serde::Deserialize;

/// One event of a page that runs in a browser.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum RemoteEvent {
    /// The device is open and the plan is made.
    Begin {
        /// The run without any records.
        run: Box<Run>,
    },
    /// A case begins.
    Started {
        /// Its canonical string.
        case: String,
    },
    /// A case ended.
    Record {
        /// What is known of it.
        record: Box<Record>,
    },
    /// The run ended.
    End {
        /// Why early, if so.
        interrupted: Option<String>,
        /// The environment as known at the end; it may say more than the one in [`RemoteEvent::Begin`].
        #[serde(default)]
        environment: BTreeMap<String, String>,
    },
    /// The browser has no device, or the query makes no sense to the page.
    Unavailable {
        /// Why, and what to do.
        reason: String,
    },
    /// Nothing has happened for a moment: an occasion to draw, or to stop. Never sent by the page.
    #[serde(skip)]
    Waiting,
}

/// An event from the body of a request.
pub fn parse(body: &[u8]) -> Result<RemoteEvent, serde_json::Error> {
    serde_json::from_slice(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_parse_into_their_types() {
        let record = r#"{"event":"record","record":{"case":"a/b","parts":{"workload":"a","direction":"fwd","shape":{"b":1},
            "options":[],"dtype":"f32","variant":"b"},"actual":null,"cost":{"flops":1,"read":2,"written":3},
            "outcome":"skipped","reason":"no"}}"#;
        assert!(matches!(parse(record.as_bytes()), Ok(RemoteEvent::Record { record }) if record.case == "a/b"));
        let started = parse(br#"{"event":"started","case":"x"}"#).expect("valid");
        assert_eq!(started, RemoteEvent::Started { case: "x".to_owned() });
        let end = parse(br#"{"event":"end","interrupted":null}"#).expect("valid");
        assert_eq!(end, RemoteEvent::End { interrupted: None, environment: BTreeMap::new() });
        let end = parse(br#"{"event":"end","interrupted":"lost","environment":{"hidden_during_run":"true"}}"#);
        assert!(matches!(end, Ok(RemoteEvent::End { interrupted: Some(why), environment })
            if why == "lost" && environment["hidden_during_run"] == "true"));
        let unavailable = parse(br#"{"event":"unavailable","reason":"no GPU"}"#).expect("valid");
        assert_eq!(unavailable, RemoteEvent::Unavailable { reason: "no GPU".to_owned() });
    }

    #[test]
    fn a_whole_run_survives_the_way() {
        use parallax_core::profiler::Profiler;
        use parallax_core::record::{SCHEMA, Suite, VERSION};
        let mock = parallax_core::mock::Mock::new(|_| 1.0, parallax_core::mock::Fault::None);
        let run = Run {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            suite: Suite { version: "1".to_owned(), commit: String::new() },
            target: "browser".to_owned(),
            started: 1,
            device: mock.device().clone(),
            environment: BTreeMap::from([("user_agent".to_owned(), "x".to_owned())]),
            clock: mock.clock().clone(),
            spec: parallax_core::spec::Spec { seed: u64::MAX, ..Default::default() },
            planned: vec!["a".to_owned()],
            records: Vec::new(),
            interrupted: None,
        };
        let body = serde_json::json!({ "event": "begin", "run": run }).to_string();
        assert_eq!(parse(body.as_bytes()).expect("valid"), RemoteEvent::Begin { run: Box::new(run) });
    }

    #[test]
    fn nonsense_is_refused() {
        for body in
            ["", "{}", "[]", r#"{"event":"waiting"}"#, r#"{"event":"started"}"#, r#"{"event":"begin","run":{}}"#]
        {
            assert!(parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
