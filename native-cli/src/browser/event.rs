//! What the page says.

use std::collections::BTreeMap;

use parallax_core::record::{Baseline, Drift, Record, Run, Spent};
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
    /// Clocks are tested and ceilings measured.
    Baseline {
        /// What was found.
        baseline: Box<Baseline>,
    },
    /// So much is done.
    Progress {
        /// From 0 to 1.
        share: f64,
        /// Looks at the canary since the last such event.
        #[serde(default)]
        drift: Vec<Drift>,
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
        /// Looks at the canary since the last event with some.
        #[serde(default)]
        drift: Vec<Drift>,
        /// Where the run's time went.
        #[serde(default)]
        spent: Spent,
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
        let nothing = RemoteEvent::End {
            interrupted: None,
            environment: BTreeMap::new(),
            drift: Vec::new(),
            spent: Spent::default(),
        };
        assert_eq!(end, nothing);
        let progress = parse(br#"{"event":"progress","share":0.5,"drift":[{"at":1,"canary":2}]}"#);
        assert!(matches!(progress, Ok(RemoteEvent::Progress { share, drift }) if share == 0.5 && drift.len() == 1));
        let end = parse(br#"{"event":"end","interrupted":"lost","environment":{"hidden_during_run":"true"}}"#);
        assert!(matches!(end, Ok(RemoteEvent::End { interrupted: Some(why), environment, .. })
            if why == "lost" && environment["hidden_during_run"] == "true"));
        let unavailable = parse(br#"{"event":"unavailable","reason":"no GPU"}"#).expect("valid");
        assert_eq!(unavailable, RemoteEvent::Unavailable { reason: "no GPU".to_owned() });
    }

    #[test]
    fn a_whole_run_survives_the_way() {
        use parallax_core::record::Suite;
        let mock = parallax_core::testing::mock::Mock::new(|_| 1.0, parallax_core::testing::mock::Fault::None);
        let suite = Suite { version: "1".to_owned(), commit: String::new() };
        let spec = parallax_core::plan::Spec { seed: u64::MAX, ..Default::default() };
        let mut run = Run::begin("browser", suite, &mock, &spec, &Default::default());
        run.environment.insert("user_agent".to_owned(), "x".to_owned());
        run.planned.push("a".to_owned());
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
