//! Messages between the page and the worker, independent of the thread that measures.

use std::collections::BTreeMap;

use parallax_report::CaseInfo;
use parallax_schema::case::Tuning;
use parallax_schema::device::{ClockInfo, DeviceInfo};
use parallax_schema::record::Event;
use parallax_schema::session::{Mode, Outline, ResumeState, RunEnd, Unplanned};
use parallax_schema::spec::Spec;
use parallax_schema::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::target::TargetConfig;

/// Kernel sources by file name that replace the program's own.
pub type OtherTexts = BTreeMap<String, String>;

/// Request of the page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Open a device.
    Open(OpenRequest),
    /// Plan a spec. The new plan replaces the previous one.
    Plan {
        /// Number of the request. It distinguishes the request from earlier ones.
        number: u32,
        /// The spec.
        spec: Box<Spec>,
    },
    /// Measure on the open device.
    Run(Box<Job>),
    /// End the run soon.
    Stop,
    /// Report a change of the tab's visibility.
    Visibility {
        /// Whether the tab is hidden.
        hidden: bool,
    },
    /// Close the device.
    Close,
}

/// Request to open a device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Target configuration.
    pub way: TargetConfig,
    /// Kernel sources that replace the program's own.
    pub texts: OtherTexts,
    /// Whether to load CubeCL's compilers.
    pub cube: bool,
}

/// Cost of fetching CubeCL's compilers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compilers {
    /// Transferred size of the program, compressed if the server compresses it; 0 if the browser does not report it.
    pub sent: Bytes,
    /// Size of the program.
    pub bytes: Bytes,
    /// Milliseconds until the compilers were ready.
    pub milliseconds: f64,
}

/// Spec with its plan on the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// The spec, with names as workloads, variants and tunables spell them.
    pub spec: Spec,
    /// Values of the variants' tunables on this device.
    pub tuning: Tuning,
    /// The plan.
    pub outline: Outline,
}

/// Request to run a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Spec of the plan. The plan follows from the spec and the device.
    pub spec: Spec,
    /// Mode of the run.
    pub mode: Mode,
    /// State to resume from, of an earlier device.
    pub so_far: ResumeState,
    /// Path of the page's server with the energy counter of the device, if a command line reads one.
    pub counter: Option<String>,
}

/// Response of the worker. As a line of JSON it is tagged and read like an event. One reader of both halves the size of the page's
/// code for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "word")]
pub enum Response {
    /// The worker takes requests.
    Ready {
        /// Whether the browser offers WebGPU to the worker.
        webgpu: bool,
    },
    /// The device is open.
    Opened {
        /// The device.
        device: Box<DeviceInfo>,
        /// Its clock.
        clock: ClockInfo,
        /// Cost of the compilers fetched for it.
        compilers: Option<Compilers>,
    },
    /// No device is available.
    Unavailable {
        /// The reason.
        why: String,
    },
    /// Result of a plan request.
    Planned {
        /// Number of the request.
        number: u32,
        /// The plan, or the reason of its absence.
        planned: Result<Box<Planned>, Unplanned>,
    },
    /// Event of the run. [`Response::line`] writes its line in two parts.
    #[serde(skip)]
    Event {
        /// The event.
        event: Box<Event>,
        /// Facts of the workload, for a record.
        known: Option<CaseInfo>,
    },
    /// The run ended.
    Ended {
        /// The end.
        end: RunEnd,
    },
    /// The worker hit a bug of its own and sends nothing more.
    Broken {
        /// Message of the bug.
        why: String,
    },
}

/// Separator of an event's two parts. JSON on one line does not contain it.
const BETWEEN: char = '\n';

impl Response {
    /// Returns the response as a string to post: JSON, or two JSON parts for an event.
    ///
    /// # Panics
    /// Never: JSON can represent every value of a response.
    pub fn line(&self) -> String {
        match self {
            Response::Event { event, known } => {
                let known = serde_json::to_string(known).expect("facts are JSON");
                format!("{}{BETWEEN}{known}", serde_json::to_string(event).expect("an event is JSON"))
            }
            word => serde_json::to_string(word).expect("a word is JSON"),
        }
    }

    /// Parses a string of [`Response::line`].
    ///
    /// # Errors
    /// Invalid JSON.
    pub fn from_line(line: &str) -> serde_json::Result<Response> {
        match line.split_once(BETWEEN) {
            Some((event, known)) => {
                Ok(Response::Event { event: serde_json::from_str(event)?, known: serde_json::from_str(known)? })
            }
            None => serde_json::from_str(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::device::DeviceInfo;
    use parallax_schema::record::Event;
    use parallax_schema::testing::{run, spread};

    #[test]
    fn words_survive_a_line() {
        let run = run("browser", "X\nY", &[("copy/fwd/n64/f32/vec4", spread(100.0, 0.01, 40))]);
        let device: DeviceInfo = run.device().clone();
        let record = Event::Record { record: Box::new(run.records[0].clone()) };
        for word in [
            Response::Ready { webgpu: true },
            Response::Opened { device: Box::new(device), clock: run.clock.clone(), compilers: None },
            Response::Unavailable { why: "a\nb".to_owned() },
            Response::Planned { number: 7, planned: Err(Unplanned::Mistake(String::new())) },
            Response::Planned {
                number: 7,
                planned: Ok(Box::new(Planned {
                    spec: run.spec.clone(),
                    tuning: Tuning::default(),
                    outline: Outline::default(),
                })),
            },
            Response::Event { event: Box::new(record), known: Some(CaseInfo::default()) },
            Response::Event { event: Box::new(Event::Begin { run: Box::new(run.clone()) }), known: None },
            Response::Ended { end: RunEnd::Complete },
            Response::Ended { end: RunEnd::DeviceLost("copy".to_owned()) },
            Response::Broken { why: "\"".to_owned() },
        ] {
            // The JSON has seven digits of a time.
            let line = word.line();
            assert_eq!(Response::from_line(&line).expect("a word").line(), line);
        }
    }
}
