//! What page and measuring say to each other, wherever measuring is.

use std::collections::BTreeMap;

use parallax_core::device::{ClockInfo, DeviceInfo};
use parallax_core::measure::runner::{Mode, RunEnd, ResumeState};
use parallax_core::plan::{Outline, Spec, Unplanned};
use parallax_core::record::Event;
use parallax_core::report::CaseInfo;
use parallax_core::suite::Tuning;
use parallax_core::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::way::TargetConfig;

/// Kernel texts by file name that stand before the program's own.
pub type OtherTexts = BTreeMap<String, String>;

/// The page's part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// Reach a device.
    Open(OpenRequest),
    /// Plan what was asked for, in place of whatever is planned.
    Plan {
        /// What tells it from those before it.
        number: u32,
        /// What was asked for.
        spec: Box<Spec>,
    },
    /// Measure on it.
    Run(Box<Job>),
    /// End the run soon.
    Stop,
    /// The tab went out of sight, or came back.
    Visibility {
        /// Whether it cannot be seen.
        hidden: bool,
    },
    /// Let the device go.
    Close,
}

/// What to reach it with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenRequest {
    /// The way.
    pub way: TargetConfig,
    /// Texts that stand before the program's own.
    pub texts: OtherTexts,
    /// With CubeCL's compilers.
    pub cube: bool,
}

/// What fetching CubeCL's compilers took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compilers {
    /// What was sent of the program, compressed where the server does that; nothing where the browser does not tell.
    pub sent: Bytes,
    /// Its size.
    pub bytes: Bytes,
    /// Until it was ready to be used.
    pub milliseconds: f64,
}

/// What was asked for, planned on the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// What was asked for, as workloads, variants and tunables spell it.
    pub spec: Spec,
    /// What its variants leave open, on this device.
    pub tuning: Tuning,
    /// The plan.
    pub outline: Outline,
}

/// What to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// What was asked for, as a plan has it; that follows from it and the device.
    pub spec: Spec,
    /// What to do with each case.
    pub mode: Mode,
    /// What an earlier device has done of it.
    pub so_far: ResumeState,
}

/// The measuring side's part. As a line of JSON it is read like events are, by their tags: one reader of both is half as large in a page
/// as two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "word")]
pub enum Word {
    /// It takes orders.
    Ready {
        /// Whether the browser offers WebGPU there.
        webgpu: bool,
    },
    /// There is a device.
    Opened {
        /// The device.
        device: Box<DeviceInfo>,
        /// Its clock.
        clock: ClockInfo,
        /// What was fetched for it.
        compilers: Option<Compilers>,
    },
    /// There is none.
    Unavailable {
        /// The reason.
        why: String,
    },
    /// What was asked for comes to this, or to nothing.
    Planned {
        /// The order's.
        number: u32,
        /// The plan, or why there is none.
        planned: Result<Box<Planned>, Unplanned>,
    },
    /// Something happened in the run. Its line has two parts, which [`Word::line`] writes.
    #[serde(skip)]
    Event {
        /// The event.
        event: Box<Event>,
        /// Of a record, the facts that its workload has.
        known: Option<CaseInfo>,
    },
    /// The run ended.
    Ended {
        /// Its end.
        end: RunEnd,
    },
    /// It hit a bug of its own, and says nothing more.
    Broken {
        /// The bug.
        why: String,
    },
}

/// A character that JSON on one line does not have.
const BETWEEN: char = '\n';

impl Word {
    /// As text that can be posted: JSON, or of an event two of them.
    ///
    /// # Panics
    /// Never: words have no values that JSON lacks.
    pub fn line(&self) -> String {
        match self {
            Word::Event { event, known } => {
                let known = serde_json::to_string(known).expect("facts are JSON");
                format!("{}{BETWEEN}{known}", serde_json::to_string(event).expect("an event is JSON"))
            }
            word => serde_json::to_string(word).expect("a word is JSON"),
        }
    }

    /// Of such a text.
    ///
    /// # Errors
    /// A mistake in the JSON.
    pub fn from_line(line: &str) -> serde_json::Result<Word> {
        match line.split_once(BETWEEN) {
            Some((event, known)) => {
                Ok(Word::Event { event: serde_json::from_str(event)?, known: serde_json::from_str(known)? })
            }
            None => serde_json::from_str(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use parallax_core::device::DeviceInfo;
    use parallax_core::record::Event;
    use parallax_core::testing::fixtures::{run, spread};

    use super::*;

    #[test]
    fn words_survive_a_line() {
        let run = run("browser", "X\nY", &[("copy/fwd/n64/f32/vec4", spread(100.0, 0.01, 40))]);
        let device: DeviceInfo = run.device().clone();
        let record = Event::Record { record: Box::new(run.records[0].clone()) };
        for word in [
            Word::Ready { webgpu: true },
            Word::Opened { device: Box::new(device), clock: run.clock.clone(), compilers: None },
            Word::Unavailable { why: "a\nb".to_owned() },
            Word::Planned { number: 7, planned: Err(Unplanned::Mistake(String::new())) },
            Word::Planned {
                number: 7,
                planned: Ok(Box::new(Planned {
                    spec: run.spec.clone(),
                    tuning: Tuning::default(),
                    outline: Outline::default(),
                })),
            },
            Word::Event { event: Box::new(record), known: Some(CaseInfo::default()) },
            Word::Event { event: Box::new(Event::Begin { run: Box::new(run.clone()) }), known: None },
            Word::Ended { end: RunEnd::Complete },
            Word::Ended { end: RunEnd::DeviceLost("copy".to_owned()) },
            Word::Broken { why: "\"".to_owned() },
        ] {
            // Times are written to seven digits.
            let line = word.line();
            assert_eq!(Word::from_line(&line).expect("a word").line(), line);
        }
    }
}
