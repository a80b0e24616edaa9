//! The only measuring loop.
//!
//! Per case: prepare, poison, run, check; size the batch; warm up until steady; sample until the interval is narrow or
//! the budget is spent; trace one execution; poison, run, check again. A case whose output is wrong has no figure.

use crate::check::{self, check};
use crate::input::Inputs;
use crate::plan::{Plan, Planned, Skip};
use crate::profiler::{BackendError, Prepared, Profiler};
use crate::record::{ActualVariant, Measured, Outcome, Parts, Phase, Record, Timing};
use crate::spec::Spec;
use crate::stats::Summary;
use crate::stop::{Limits, Next, StopRule};
use crate::units::Nanos;

/// What to do with each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Check it once.
    Verify,
    /// Check it, time it, check it again.
    Measure,
}

/// Progress, for whoever wants to draw it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "events are handed over by reference, one at a time")]
pub enum Event<'a> {
    /// A case begins.
    Started {
        /// Its canonical string.
        case: &'a str,
        /// Position among all records of this run, from 0.
        index: usize,
        /// Number of records that there will be.
        total: usize,
    },
    /// A case ended.
    Finished(&'a Record),
}

/// What the receiver of an event wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// End the run after this event; finished records stand.
    Stop,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Every planned case has a record.
    Complete,
    /// The receiver asked to stop.
    Stopped,
    /// The device was lost during the named case; the profiler cannot be used again.
    DeviceLost(String),
}

/// Run a plan. Records are handed over as events the moment they exist; nothing is kept.
///
/// `skip_to` leaves out so many records from the front, to go on with a fresh profiler after a lost device.
pub async fn run(
    plan: &Plan,
    spec: &Spec,
    mode: Mode,
    profiler: &mut dyn Profiler,
    skip_to: usize,
    mut on_event: impl FnMut(Event<'_>) -> Flow,
) -> Ended {
    let total = plan.skips.len() + plan.cases.len();
    for skip in plan.skips.iter().skip(skip_to) {
        if on_event(Event::Finished(&skipped(skip))) == Flow::Stop {
            return Ended::Stopped;
        }
    }
    let done = skip_to.saturating_sub(plan.skips.len());
    let limits = limits(spec, plan.cases.len());
    for (i, planned) in plan.cases.iter().enumerate().skip(done) {
        let case = planned.case.to_string();
        let index = plan.skips.len() + i;
        if on_event(Event::Started { case: &case, index, total }) == Flow::Stop {
            return Ended::Stopped;
        }
        profiler.breathe().await;
        let outcome = one(planned, spec, mode, limits, profiler).await;
        let lost = matches!(outcome, Err(BackendError::Lost(_)));
        let outcome = outcome.unwrap_or_else(|e| Outcome::Failed { reason: e.to_string() });
        let flow = on_event(Event::Finished(&record(planned, outcome)));
        if lost {
            return Ended::DeviceLost(case);
        }
        if flow == Flow::Stop {
            return Ended::Stopped;
        }
    }
    Ended::Complete
}

/// The stop rule's limits for one of `cases` cases.
fn limits(spec: &Spec, cases: usize) -> Limits {
    let budget = Nanos::from_secs(spec.budget / cases.max(1) as f64);
    Limits { precision: spec.precision, budget, ..Limits::default() }
}

fn skipped(skip: &Skip) -> Record {
    Record {
        case: skip.case.to_string(),
        parts: Parts::of(&skip.case),
        actual: None,
        cost: (skip.case.problem.workload.cost)(&skip.case.problem),
        outcome: Outcome::Skipped { reason: skip.reason.clone() },
    }
}

fn record(planned: &Planned, outcome: Outcome) -> Record {
    let problem = &planned.case.problem;
    Record {
        case: planned.case.to_string(),
        parts: Parts::of(&planned.case),
        actual: planned
            .actual
            .as_ref()
            .map(|a| ActualVariant { variant: a.variant.to_owned(), reason: a.reason.clone() }),
        cost: (problem.workload.cost)(problem),
        outcome,
    }
}

async fn one(
    planned: &Planned,
    spec: &Spec,
    mode: Mode,
    limits: Limits,
    profiler: &mut dyn Profiler,
) -> Result<Outcome, BackendError> {
    let case = planned.runs();
    let problem = &case.problem;
    let inputs = Inputs::seeded(problem, spec.seed);
    let mut phases = Phases::begin(profiler.now());
    let mut prepared = profiler.prepare(&case, &inputs).await?;
    let prepared = &mut *prepared;
    phases.end("prepare", profiler.now());

    prepared.poison().await?;
    prepared.measure(1).await?;
    let first = check(profiler, prepared, problem, &inputs, check::WORK).await?;
    phases.end("check", profiler.now());
    if !first.right {
        return Ok(Outcome::Wrong { check: first });
    }
    let (timing, trace) = match mode {
        Mode::Verify => (None, None),
        Mode::Measure => {
            let timing = sample(prepared, profiler, limits).await?;
            phases.end("sample", profiler.now());
            let trace = prepared.trace().await?;
            phases.end("trace", profiler.now());
            prepared.poison().await?;
            prepared.measure(1).await?;
            let again = check(profiler, prepared, problem, &inputs, check::WORK / 10).await?;
            phases.end("recheck", profiler.now());
            if !again.right {
                return Ok(Outcome::Wrong { check: again });
            }
            (Some(timing), Some(trace))
        }
    };
    Ok(Outcome::Ok(Box::new(Measured {
        compiled: prepared.compiled().clone(),
        check: first,
        timing,
        memory: prepared.memory(),
        trace,
        phases: phases.list,
    })))
}

/// Host phases of one case, end to end.
struct Phases {
    since: Nanos,
    list: Vec<Phase>,
}

impl Phases {
    fn begin(now: Nanos) -> Phases {
        Phases { since: now, list: Vec::new() }
    }

    fn end(&mut self, name: &str, now: Nanos) {
        self.list.push(Phase { name: name.to_owned(), start: self.since, end: now });
        self.since = now;
    }
}

/// A submission should not keep the device longer than this, for the sake of whoever else uses it.
const LONGEST_BATCH: Nanos = Nanos(100e6);
/// A batch shorter than this measures the interface's noise.
const SHORTEST_BATCH: Nanos = Nanos(2e6);

async fn sample(prepared: &mut dyn Prepared, profiler: &dyn Profiler, limits: Limits) -> Result<Timing, BackendError> {
    let repeats = batch(prepared, profiler.clock().step).await?;
    let mut rule = StopRule::new(limits);
    let mut host_samples = Vec::new();
    let stopped = loop {
        let before = profiler.now();
        let sample = prepared.measure(repeats).await?;
        let spent = profiler.now() - before;
        host_samples.push(sample.host.0 / f64::from(repeats));
        match rule.add(Nanos(sample.time.0 / f64::from(repeats)), spent) {
            Next::Stop(why) => break why,
            Next::WarmUp | Next::Sample => {}
        }
        profiler.breathe().await;
    };
    let samples = rule.samples().to_vec();
    let summary = Summary::of(&samples).filter(|s| s.min.0 > 0.0).ok_or_else(stuck)?;
    Ok(Timing {
        repeats,
        host_samples: host_samples.split_off(rule.warmed_up_after()),
        warm_up: rule.warmed_up_after() as u32,
        samples,
        stopped,
        summary,
    })
}

fn stuck() -> BackendError {
    BackendError::Device("the clock gave times of zero or less".to_owned())
}

/// How many executions make one sample: enough that the clock's step is below 1 % of it, within what a submission may take.
async fn batch(prepared: &mut dyn Prepared, step: Nanos) -> Result<u32, BackendError> {
    let wanted = SHORTEST_BATCH.0.max(100.0 * step.0).min(LONGEST_BATCH.0);
    let mut repeats = 1u32;
    loop {
        let sample = prepared.measure(repeats).await?;
        // The longer of the two clocks: a broken one must not make the batch run away.
        let time = sample.time.0.max(sample.host.0 / 4.0);
        if time >= wanted || repeats >= 1 << 16 {
            // A clock that shows nothing for a whole batch will not show more for the next ones.
            return if sample.time.0 > 0.0 { Ok(repeats) } else { Err(stuck()) };
        }
        // At most fourfold a step, so that one bad reading cannot trip a watchdog.
        let factor = (wanted / time.max(1.0) * 1.1).clamp(1.5, 4.0);
        repeats = (f64::from(repeats) * factor).ceil() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::{Fault, Mock, Script, caps};
    use crate::plan::plan;

    const CASES: [&str; 3] = [
        "attention/fwd/b1,h1,s5,d3/f32/flash",
        "depthwise_conv2d/fwd/n1,c2,h5,k3,p1,nchw/f16/tiled",
        "hash_embedding/fwd/r20,g3,d7,sorted/f32/auto",
    ];

    fn spec() -> Spec {
        Spec { case: CASES.map(str::to_owned).to_vec(), ..Spec::default() }
    }

    fn records(mode: Mode, time: Script, fault: Fault) -> (Ended, Vec<Record>) {
        let mut records = Vec::new();
        let plan = plan(&spec(), &caps()).expect("cases");
        let mut mock = Mock::new(time, fault);
        let ended = pollster::block_on(run(&plan, &spec(), mode, &mut mock, 0, |event| {
            if let Event::Finished(record) = event {
                records.push(record.clone());
            }
            Flow::Continue
        }));
        (ended, records)
    }

    #[test]
    fn right_cases_are_timed_and_traced() {
        let (ended, records) = records(Mode::Measure, |_| 1e5, Fault::None);
        assert_eq!(ended, Ended::Complete);
        assert_eq!(records.iter().map(|r| r.case.as_str()).collect::<Vec<_>>(), CASES);
        for record in &records {
            let timing = record.timing().unwrap_or_else(|| panic!("{} has no time: {record:?}", record.case));
            assert_eq!(timing.summary.median, Nanos(1e5));
            assert!(timing.repeats >= 20, "2 ms batches of 0.1 ms, not {}", timing.repeats);
            assert_eq!(timing.samples.len(), timing.host_samples.len());
            let measured = record.measured().expect("right");
            let phases: Vec<&str> = measured.phases.iter().map(|p| p.name.as_str()).collect();
            assert_eq!(phases, ["prepare", "check", "sample", "trace", "recheck"]);
            assert!(measured.trace.as_ref().is_some_and(|t| t.spans.len() == 3));
        }
        let auto = records[2].actual.as_ref().expect("a selection is recorded");
        assert_eq!(
            (auto.variant.as_str(), auto.reason.as_str()),
            ("owner", "rows are sorted by group, at most 32768 of them")
        );
    }

    #[test]
    fn verify_times_nothing() {
        let (_, records) = records(Mode::Verify, |_| 1e5, Fault::None);
        assert!(records.iter().all(|r| r.verdict() == "right" && r.timing().is_none()));
    }

    #[test]
    fn wrong_or_unwritten_outputs_have_no_figure() {
        for fault in [Fault::WrongElement, Fault::UnwrittenElement] {
            let (ended, records) = records(Mode::Measure, |_| 1e5, fault);
            assert_eq!(ended, Ended::Complete);
            assert!(records.iter().all(|r| r.verdict() == "WRONG" && r.timing().is_none()), "{fault:?}");
        }
    }

    #[test]
    fn a_lost_device_ends_the_run_and_keeps_finished_records() {
        let (ended, records) = records(Mode::Measure, |_| 1e7, Fault::LostAt(45));
        assert_eq!(ended, Ended::DeviceLost(CASES[1].to_owned()));
        let verdicts: Vec<&str> = records.iter().map(|r| r.verdict()).collect();
        assert_eq!(verdicts, ["right", "FAILED"]);
    }

    #[test]
    fn a_run_goes_on_where_a_lost_one_ended() {
        let plan = plan(&spec(), &caps()).expect("cases");
        let mut mock = Mock::new(|_| 1e5, Fault::None);
        let mut seen = Vec::new();
        let ended = pollster::block_on(run(&plan, &spec(), Mode::Verify, &mut mock, 2, |event| {
            if let Event::Started { case, index, total } = event {
                seen.push((case.to_owned(), index, total));
            }
            Flow::Continue
        }));
        assert_eq!((ended, seen), (Ended::Complete, vec![(CASES[2].to_owned(), 2, 3)]));
    }

    #[test]
    fn a_clock_stuck_at_zero_gives_a_failure_and_no_figure() {
        let (_, records) = records(Mode::Measure, |_| 0.0, Fault::None);
        assert!(records.iter().all(|r| r.verdict() == "FAILED" && r.timing().is_none()), "{records:?}");
    }

    #[test]
    fn stopping_is_heard_at_once() {
        let plan = plan(&spec(), &caps()).expect("cases");
        let mut mock = Mock::new(|_| 1e5, Fault::None);
        let ended = pollster::block_on(run(&plan, &spec(), Mode::Verify, &mut mock, 0, |_| Flow::Stop));
        assert_eq!(ended, Ended::Stopped);
    }
}
