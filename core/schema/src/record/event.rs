//! Events of a run: the one protocol between the measuring loop, its callers, the posts of the page and the run file.
//!
//! The measuring loop emits events. The page posts them to the command line, which appends them to the run file, one line of JSON
//! each.
//! [`Run::apply`] alone folds events into a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::stats::{FEWEST, Summary};
use super::{Activities, Baseline, Drift, Outcome, Record, Run, Spent, StopReason, UNFINISHED};
use crate::device::{Conditions, columnar, rounding};
use crate::units::Nanos;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The device is open and the plan is made.
    Begin {
        /// The run without any records.
        run: Box<Run>,
    },
    /// Clocks are tested and ceilings measured.
    Baseline {
        /// The results.
        baseline: Box<Baseline>,
    },
    /// Work on a case started.
    Started {
        /// Its canonical string.
        case: String,
    },
    /// Progress of the run.
    Progress {
        /// Elapsed share of its time, from 0 to 1; it never falls.
        share: f64,
        /// Approximate remaining time of the whole run.
        left: Nanos,
    },
    /// A reading of the reference kernel.
    Drift {
        /// The reading.
        drift: Drift,
    },
    /// A case has its first sample. The record holds until the case ends.
    Sampling {
        /// The record as if the run ended now.
        record: Box<Record>,
    },
    /// The samples of a round, after the first ones of each case.
    Samples {
        /// One for each case with a sample that counts.
        samples: Vec<CaseSample>,
    },
    /// A case ended.
    Record {
        /// Its record.
        record: Box<Record>,
    },
    /// The measuring loop ended, or a part of it.
    Spent {
        /// Its times.
        spent: Spent,
        /// Its wall time by activity.
        #[serde(default)]
        activities: Activities,
    },
    /// The run ended.
    End {
        /// Reason of an early end.
        interrupted: Option<String>,
        /// Environment that is known only at the end.
        #[serde(default)]
        environment: BTreeMap<String, String>,
    },
    /// There is no device, or no case to run.
    Unavailable {
        /// The reason, and the next step.
        reason: String,
    },
}

/// A sample of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseSample {
    /// The case.
    pub case: String,
    /// Time of one execution on the run's clock, in nanoseconds, to seven digits.
    #[serde(serialize_with = "rounding::of_number")]
    pub time: f64,
    /// Time of one execution on the host's clock, in nanoseconds, to seven digits.
    #[serde(serialize_with = "rounding::of_number")]
    pub host: f64,
    /// The sensors' readings after the sample.
    #[serde(default, skip_serializing_if = "Conditions::say_nothing")]
    pub conditions: Conditions,
}

impl Event {
    /// Returns the event at a later time: its profiler was opened `by` after the begin of the run.
    pub fn later(mut self, by: Nanos) -> Event {
        match &mut self {
            Event::Drift { drift } => drift.at += by,
            Event::Sampling { record } | Event::Record { record } => {
                if let Outcome::Pass(measured) = &mut record.outcome {
                    let spans = measured.trace.iter_mut().flat_map(|trace| &mut trace.spans);
                    let edges = spans.flat_map(|span| [&mut span.start, &mut span.end]);
                    let phases = measured.phases.iter_mut().flat_map(|phase| [&mut phase.start, &mut phase.end]);
                    edges.chain(phases).for_each(|time| *time += by);
                }
            }
            _ => {}
        }
        self
    }

    /// Returns the event as a line of JSON, with its line end.
    #[inline]
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("an event is JSON") + "\n"
    }

    /// Whether the event changes a run, so that the file needs it.
    pub fn changes_the_run(&self) -> bool {
        !matches!(self, Event::Started { .. } | Event::Progress { .. })
    }
}

/// Returns events from lines of JSON, without empty lines.
///
/// # Errors
/// A line that is no event, or lists far longer than the JSON.
#[inline]
pub fn events(text: &str) -> Result<Vec<Event>, serde_json::Error> {
    columnar::within(text.len(), || lines(text).collect())
}

/// Returns events line by line, within the limit for the lists of the whole JSON.
#[inline]
fn lines(text: &str) -> impl Iterator<Item = Result<Event, serde_json::Error>> {
    text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str)
}

impl Run {
    /// Applies an event.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Begin { run } => *self = *run,
            Event::Baseline { baseline } => {
                // From here on the clock is the one that passed the self-test.
                self.clock = baseline.clock.clone();
                self.baseline = Some(*baseline);
            }
            Event::Drift { drift } => self.drift.push(drift),
            Event::Sampling { record } => {
                self.sampling.retain(|other| other.case != record.case);
                self.sampling.push(*record);
            }
            Event::Samples { samples } => samples.into_iter().for_each(|taken| self.take(taken)),
            Event::Record { record } => {
                self.sampling.retain(|other| other.case != record.case);
                self.records.push(*record);
            }
            Event::Spent { spent, activities } => {
                self.spent += spent;
                activities
                    .into_iter()
                    .for_each(|(activity, time)| *self.activities.entry(activity).or_default() += time);
            }
            Event::End { interrupted, environment } => {
                self.keep_sampled();
                self.interrupted = interrupted;
                self.environment.extend(environment);
            }
            Event::Unavailable { reason } => self.interrupted = Some(reason),
            Event::Started { .. } | Event::Progress { .. } => {}
        }
    }

    /// Adds one sample of an unfinished case.
    fn take(&mut self, taken: CaseSample) {
        let Some(record) = self.sampling.iter_mut().find(|record| record.case == taken.case) else { return };
        let Outcome::Pass(measured) = &mut record.outcome else { return };
        if let Some(timing) = &mut measured.timing {
            // The record omits sensors without readings at the first sample.
            timing.conditions.resize(timing.samples.len(), Conditions::default());
            timing.samples.push(taken.time);
            timing.host_samples.push(taken.host);
            timing.conditions.push(taken.conditions);
        }
    }

    /// Makes records of the unfinished cases that have enough samples for a figure; no more samples follow.
    pub(super) fn keep_sampled(&mut self) {
        for mut record in std::mem::take(&mut self.sampling) {
            let Outcome::Pass(measured) = &mut record.outcome else { continue };
            let Some(timing) = &mut measured.timing else { continue };
            let Some(summary) = Summary::of(&timing.samples).filter(|summary| summary.n >= FEWEST) else { continue };
            timing.summary = summary;
            timing.stopped = StopReason::Killed;
            timing.caveat = Some("the run was killed: this case was not checked a second time".to_owned());
            if timing.conditions.iter().all(Conditions::say_nothing) {
                timing.conditions.clear();
            }
            self.records.push(record);
        }
    }

    /// Returns the run for its continuation: cut-off cases are unfinished again and keep their samples.
    pub fn reopened(mut self) -> Run {
        self.sampling.extend(self.records.extract_if(.., |record| record.cut_off()));
        self.interrupted = Some(UNFINISHED.to_owned());
        self
    }

    /// Returns the last known moment of the run, on its host clock.
    pub fn last_moment(&self) -> Nanos {
        let phases = self.records.iter().filter_map(Record::measured).flat_map(|measured| &measured.phases);
        let moments = phases.map(|phase| phase.end).chain(self.drift.iter().map(|drift| drift.at));
        moments.fold(Nanos(0.0), |last, moment| if moment > last { moment } else { last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Activity, Suite};
    use crate::spec::Spec;
    use crate::testing::{caps, clock, device, drift, record, timing};

    #[test]
    fn every_event_survives_its_line_and_folds_into_the_run() {
        let suite = Suite { version: "1".to_owned(), commit: String::new() };
        let spec = Spec { seed: u64::MAX, ..Spec::default() };
        let mut begun = Run::begin_on("browser", suite, (&device(caps()), &clock()), &spec, Vec::new());
        begun.environment.insert("user_agent".to_owned(), "x".to_owned());
        let baseline = Baseline {
            clock: crate::device::ClockInfo { step: crate::units::Nanos(7.0), ..begun.clock.clone() },
            timer: Default::default(),
            ceilings: Default::default(),
        };
        let spent = Spent { wall: crate::units::Nanos(5.0), ..Spent::default() };
        let activities = Activities::from([(Activity::Samples.to_string(), 4.0), (Activity::Rest.to_string(), 1.0)]);
        let told = [
            Event::Begin { run: Box::new(begun.clone()) },
            Event::Baseline { baseline: Box::new(baseline) },
            Event::Started { case: "a/b".to_owned() },
            Event::Progress { share: 0.5, left: Nanos(3e9) },
            Event::Drift { drift: drift(&[1.0])[0].clone() },
            Event::Record { record: Box::new(record("a/b", timing(&[1.0; 9]))) },
            Event::Spent { spent, activities: activities.clone() },
            Event::Spent { spent, activities },
            Event::End { interrupted: Some("lost".to_owned()), environment: [("k".into(), "v".into())].into() },
        ];
        let text: String = told.iter().map(Event::line).collect();
        let read = events(&text).expect("its own reader");
        assert_eq!(read, told);
        let mut run = Run { target: "another".to_owned(), ..begun };
        read.into_iter().for_each(|event| run.apply(event));
        assert_eq!((run.target.as_str(), run.clock.step.0, run.spent.wall.0), ("browser", 7.0, 10.0));
        assert_eq!(run.activities, [(Activity::Samples.to_string(), 8.0), (Activity::Rest.to_string(), 2.0)].into());
        assert_eq!((run.drift.len(), run.records.len(), run.environment.len()), (1, 1, 2));
        assert_eq!(run.interrupted.as_deref(), Some("lost"));
    }

    #[test]
    fn nonsense_is_no_event() {
        for line in
            ["{}", "[]", "{\"event\":\"waiting\"}", "{\"event\":\"started\"}", "{\"event\":\"begin\",\"run\":{}}"]
        {
            assert!(events(line).is_err(), "{line}");
        }
        assert_eq!(events("\n\n").expect("nothing"), []);
    }
}
