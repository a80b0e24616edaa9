//! The engine on scripted devices: clocks that throttle, drift, lie or are coarse, devices that fail,
//! and of wrong results.

use parallax_engine::measure::runner;
use parallax_engine::measure::runner::Flow;
use parallax_engine::plan::plan;
use parallax_schema::device::{Caps, Clock, Dialect, Launching};
use parallax_schema::record::{Event, Method, Outcome, Record, Refusal, Repeatable, Run, StopReason, Suite};
use parallax_schema::session::{Mode, ResumeState, RunEnd};
use parallax_schema::spec::Spec;
use parallax_schema::testing::caps;
use parallax_schema::units::Nanos;
use parallax_testing::mock::{Fault, Mock, World};

pub const CASES: [&str; 3] = [
    "attention/fwd/b1,h1,s5,d3/f32/flash",
    "depthwise_conv2d/fwd/n1,c2,h5,k3,p1,nchw/f16/tiled",
    "hash_embedding/fwd/r20,g3,d7,sorted/f32/auto",
];

pub fn spec(cases: &[&str]) -> Spec {
    Spec { case: cases.iter().map(|c| (*c).to_owned()).collect(), budget: 2.0, ceilings: false, ..Spec::default() }
}

/// The same with the ceilings measured first.
pub fn run_under_ceilings(cases: &[&str], world: World) -> Run {
    run_with(&Spec { ceilings: true, ..spec(cases) }, Mode::Measure, world, |_| Flow::Continue).1
}

/// Run cases in a world; the edge's part of the bargain is done here as the edges do it.
pub fn run_with(spec: &Spec, mode: Mode, world: World, mut flow: impl FnMut(&Event) -> Flow) -> (RunEnd, Run) {
    let plan = plan(spec, &Caps { dialect: world.dialect, ..caps() }).expect("cases");
    let mut mock = Mock::in_world(world);
    let suite = Suite { version: String::new(), commit: String::new() };
    let mut run = plan.begin("mock", suite, &mock, spec);
    let ended = pollster::block_on(runner::run(&plan, spec, mode, &mut mock, &ResumeState::default(), |event| {
        let next = flow(&event);
        run.apply(event);
        next
    }));
    (ended, run)
}

pub fn run(cases: &[&str], world: World) -> Run {
    let (ended, run) = run_with(&spec(cases), Mode::Measure, world, |_| Flow::Continue);
    assert_eq!(ended, RunEnd::Complete);
    run
}

pub fn median(record: &Record) -> f64 {
    record.timing().unwrap_or_else(|| panic!("no figure: {record:?}")).summary.median.0
}

pub fn near(got: f64, want: f64, share: f64) -> bool {
    (got / want - 1.0).abs() <= share
}

#[test]
fn right_cases_get_figures_checks_and_a_trace() {
    let run = run_under_ceilings(&CASES, World::default());
    assert_eq!(run.records.len(), CASES.len());
    for record in &run.records {
        let measured = record.measured().expect("right");
        let timing = measured.timing.as_ref().expect("timed");
        assert!(near(timing.summary.median.0, 1e5, 0.01), "{}: {}", record.case, timing.summary.median);
        assert_eq!((timing.stopped, timing.method), (StopReason::Precise, Method::Batch));
        assert!(timing.repeats >= 20 && timing.lead >= 1, "a batch takes 2 ms and is led in: {timing:?}");
        assert_eq!(timing.samples.len(), timing.host_samples.len());
        let slope = timing.slope.as_ref().expect("two sizes");
        assert!(near(slope.execution.0, 1e5, 0.01) && near(slope.host_execution.0, 1e5, 0.01));
        assert!(near(slope.host_fixed.0, parallax_testing::mock::FIXED, 0.1), "{slope:?}");
        assert_eq!(measured.trace.as_ref().map(|t| t.spans.len()), Some(4), "three spans in an iteration");
        let phases: Vec<&str> = measured.phases.iter().map(|p| p.name.as_str()).collect();
        let batch: &[&str] = if record.items.is_some() { &["loading", "transfer"] } else { &[] };
        assert_eq!(phases, [&["prepare", "check"], batch, &["trace", "recheck"]].concat());
        assert_eq!(measured.check.repeatable, Some(Repeatable::Bitwise));
        assert_eq!(measured.compiled.steps.last().map(|s| s.name.as_str()), Some("first launch"));
        assert_eq!(measured.compiled.repeat.map(|time| time.0), Some(100.0));
    }
    let baseline = run.baseline.expect("tested");
    assert_eq!(baseline.timer.demoted, None);
    assert!(baseline.ceilings.missing.is_empty(), "{:?}", baseline.ceilings.missing);
    let flops = baseline.ceilings.arithmetic[0].rate;
    assert!((1e10..1e12).contains(&flops), "{flops}");
    assert!(run.drift.len() >= 10 && run.spent.waiting.0 > 0.8 * run.spent.wall.0, "{:?}", run.spent);
}

#[test]
fn verifying_takes_no_time() {
    let (ended, run) = run_with(&spec(&CASES), Mode::Verify, World::default(), |_| Flow::Continue);
    assert_eq!((ended, run.baseline), (RunEnd::Complete, None));
    assert!(run.records.iter().all(|r| r.verdict() == "pass" && r.timing().is_none()));
    let once = run.records.iter().all(|r| r.measured().is_some_and(|measured| measured.compiled.repeat.is_none()));
    assert!(once, "nothing is compiled a second time");
}

#[test]
fn what_the_last_execution_left_is_held_against_the_first() {
    let one = &CASES[..1];
    let run = run(one, World { fault: Fault::Unsteady, ..World::default() });
    let repeatable = run.records[0].measured().expect("right all the same").check.repeatable;
    let Some(Repeatable::Differs(difference)) = repeatable else { panic!("{repeatable:?}") };
    assert!(difference.by > 0.0 && difference.by < 1e-6 && difference.of_bound < 1.0, "{difference:?}");
    let (_, verified) = run_with(&spec(one), Mode::Verify, World::default(), |_| Flow::Continue);
    assert_eq!(verified.records[0].measured().expect("right").check.repeatable, None, "there was one execution");
}

#[test]
fn repeated_checks_find_a_declared_variant_that_differs() {
    let cases = ["hash_embedding/fwd/r20,g3,d7,sorted/f32/owner", "hash_embedding/fwd/r20,g3,d7,sorted/f32/basic"];
    let spec = Spec { repeat: 3, ..spec(&cases) };
    let checked = |fault| run_with(&spec, Mode::Verify, World { fault, ..World::default() }, |_| Flow::Continue).1;
    let steady = checked(World::default().fault);
    let repeatable = |at: usize| steady.records[at].measured().expect("right").check.repeatable;
    assert_eq!(repeatable(0), Some(Repeatable::Bitwise));
    assert_eq!(repeatable(1), None, "atomic additions come in any order");
    let unsteady = checked(Fault::Unsteady);
    let Outcome::Error { reason } = &unsteady.records[0].outcome else { panic!("{:?}", unsteady.records[0].outcome) };
    assert!(reason.contains("execution 2 repeats the first not bit by bit"), "{reason}");
    assert_eq!(unsteady.records[1].verdict(), "pass");
}

#[test]
fn wrong_or_unwritten_outputs_have_no_figure() {
    for fault in [Fault::WrongElement, Fault::UnwrittenElement] {
        let run = run(&CASES, World { fault, ..World::default() });
        assert!(run.records.iter().all(|r| r.verdict() == "FAIL" && r.timing().is_none()), "{fault:?}");
    }
}

#[test]
fn rounds_are_drawn_anew_and_the_seed_fixes_them() {
    let order = |seed| {
        let mut seen = Vec::new();
        run_with(&Spec { seed, ..spec(&CASES) }, Mode::Measure, World::default(), |event| {
            if let Event::Record { record } = event {
                seen.push(record.case.clone());
            }
            Flow::Continue
        });
        seen
    };
    assert_eq!(order(1), order(1));
    let orders: std::collections::BTreeSet<Vec<String>> = (0..12).map(order).collect();
    assert!(orders.len() > 2, "{orders:?}");
}

#[test]
fn throttled_samples_are_discarded() {
    // A quarter of the time, in stretches of 40 ms, everything takes half as long again, and the sensors say why.
    fn bad(now: f64) -> bool {
        (now / 40e6) as u64 % 4 == 3
    }
    let world = World {
        pace: |now| if bad(now) { 1.5 } else { 1.0 },
        throttle: |now| bad(now).then_some("sw power cap"),
        ..World::default()
    };
    let run = run(&CASES, world);
    for record in &run.records {
        let timing = record.timing().expect("a figure");
        assert!(near(median(record), 1e5, 0.01), "{}: {}", record.case, timing.summary.median);
        assert!(timing.discarded.iter().any(|s| s.reason == "throttled: sw power cap"), "{:?}", timing.discarded);
        assert_eq!(timing.caveat, None);
    }
}

#[test]
fn a_device_that_always_throttles_is_measured_as_it_is() {
    let world = World { pace: |_| 1.5, throttle: |_| Some("sw power cap"), ..World::default() };
    for record in &run(&CASES, world).records {
        assert!(near(median(record), 1.5e5, 0.01), "{}", record.case);
    }
}

#[test]
fn without_sensors_the_reference_kernel_tells_that_the_device_is_slow() {
    let world = World { pace: |now| if (now / 60e6) as u64 % 4 == 3 { 1.5 } else { 1.0 }, ..World::default() };
    // For as long as the budget allows, so that the slow stretches are met.
    let (_, run) = run_with(&Spec { precision: Some(1e-9), ..spec(&CASES) }, Mode::Measure, world, |_| Flow::Continue);
    let aside = |r: &Record| r.timing().map_or(0, |t| t.discarded.len());
    assert!(run.records.iter().map(aside).sum::<usize>() > 0, "some batches were slow");
    for record in &run.records {
        assert!(near(median(record), 1e5, 0.01), "{}: {}", record.case, median(record));
    }
}

#[test]
fn drift_hits_all_cases_alike() {
    // The device grows slower by two fifths within the two seconds; equal cases measured one after the other would differ.
    let world = World { pace: |now| 1.0 + 0.2 * now / 1e9, time: |i| 1e5 + (i % 5) as f64 * 9e3, ..World::default() };
    let cases = ["attention/fwd/b1,h1,s5,d3/f32/flash", "attention/fwd/b1,h1,s5,d3/f32/manual"];
    let (_, run) = run_with(&Spec { precision: Some(1e-6), ..spec(&cases) }, Mode::Measure, world, |_| Flow::Continue);
    let ratio = median(&run.records[0]) / median(&run.records[1]);
    assert!(near(ratio, 1.0, 0.01), "{ratio}");
    let times: Vec<f64> = run.drift.iter().map(|d| d.reference_kernel.0).collect();
    assert!(times.last() > times.first().map(|c| c * 1.05).as_ref(), "the drift curve shows it");
}

#[test]
fn a_quantised_clock_gets_longer_batches() {
    let world = World { step: 65_536.0, time: |_| 3e3, ..World::default() };
    for record in &run(&CASES, world).records {
        let timing = record.timing().expect("a figure");
        assert!(timing.clock_error <= 0.011 && timing.repeats > 1500, "{timing:?}");
        assert!(near(median(record), 3e3, 0.01), "{}: {}", record.case, median(record));
    }
}

#[test]
fn what_the_clock_cannot_resolve_is_refused() {
    let world = World { step: 5e6, time: |_| 3e3, ..World::default() };
    for record in &run(&CASES, world).records {
        assert_eq!((record.verdict(), record.timing()), ("unresolved", None));
        let Outcome::Refused { kind: Refusal::Unresolvable, reason, .. } = &record.outcome else {
            panic!("{record:?}")
        };
        assert!(reason.contains("steps of 5.00 ms") && reason.contains("longest batch"), "{reason}");
    }
}

#[test]
fn a_clock_that_lies_or_stands_still_gives_way_to_the_hosts() {
    for clock_rate in [0.5, 0.0, 1.2] {
        let run = run(&CASES, World { clock_rate, ..World::default() });
        let baseline = run.baseline.as_ref().expect("tested");
        let why = baseline.timer.demoted.as_ref().expect("demoted");
        assert!(why.contains("so the host's is used"), "{why}");
        assert_eq!((run.clock.clock, run.clock.note.as_ref()), (Clock::Host, Some(why)));
        for record in &run.records {
            assert!(near(median(record), 1e5, 0.01), "{}: {}", record.case, median(record));
        }
    }
}

#[test]
fn a_long_execution_is_repeated_three_times_in_all() {
    // Seconds on a device that is emulated. The reference kernel is as fast as usual.
    let slow = |case: &parallax_ir::Case| if case.problem.workload.name == "attention" { 3e4 } else { 1.0 };
    let run = run(&CASES[..1], World { of_case: slow, ..World::default() });
    let measured = run.records[0].measured().unwrap_or_else(|| panic!("{:?}", run.records[0].outcome));
    let execution = measured.timing.as_ref().expect("a timing").summary.median.0;
    assert!(execution > 2e9, "{execution}");
    let phase = |name: &str| measured.phases.iter().find(|phase| phase.name == name).expect("a phase");
    let executions = |from: Nanos, to: Nanos| ((to.0 - from.0) / execution).round();
    let (check, trace, recheck) = (phase("check"), phase("trace"), phase("recheck"));
    assert_eq!(executions(check.start, check.end), 1.0, "the checked one");
    assert_eq!(executions(check.end, trace.start), 1.0, "the one that sizes the batch is the sample");
    assert_eq!(executions(trace.start, recheck.end), 1.0, "the traced one is checked again");
    assert!(measured.check.passed && measured.trace.is_some());
}

#[test]
fn a_slow_compilation_is_not_repeated() {
    for (compiling, repeated) in [(1e9, true), (3e9, false)] {
        let run = run(&CASES[..1], World { compiling, ..World::default() });
        let compiled = &run.records[0].measured().expect("right").compiled;
        assert_eq!(compiled.repeat.is_some(), repeated, "{compiling} of a budget of 2 s");
    }
}

#[test]
fn hidden_pages_lose_the_samples_and_not_the_run() {
    let sometimes = run(&CASES, World { hidden: |now| (now / 30e6) as u64 % 3 == 1, ..World::default() });
    for record in &sometimes.records {
        let aside = &record.timing().expect("a figure").discarded;
        assert!(aside.iter().all(|s| s.reason == "the page was out of sight"), "{aside:?}");
    }
    assert!(sometimes.records.iter().any(|r| !r.timing().expect("a figure").discarded.is_empty()));
    for record in &run(&CASES, World { hidden: |_| true, ..World::default() }).records {
        let Outcome::Error { reason } = &record.outcome else { panic!("{record:?}") };
        assert_eq!(reason, "no sample counts: the page was out of sight");
    }
}

#[test]
fn cases_that_do_not_fit_together_are_measured_apart() {
    let cases = ["attention/fwd/b1,h8,s512,d64/f32/flash", "attention/fwd/b1,h8,s512,d64/f32/manual"];
    // Flash takes 4 MB, manual 12 MB with its scratch; the probes take up to 64 MiB and one of them does not fit.
    let run = run_under_ceilings(&cases, World { memory: 15_000_000, time: |_| 0.0, ..World::default() });
    let verdicts: Vec<&str> = run.records.iter().map(Record::verdict).collect();
    assert_eq!(verdicts, ["pass", "pass"], "{:?}", run.records);
    let missing = &run.baseline.expect("tested").ceilings.missing;
    assert!(missing.iter().any(|m| m.contains("out of memory")), "{missing:?}");
}

#[test]
fn a_run_that_is_cut_off_between_rounds_keeps_the_samples_of_all() {
    let spec = spec(&CASES);
    let plan = plan(&spec, &caps()).expect("cases");
    let mut mock = Mock::in_world(World::default());
    let suite = Suite { version: String::new(), commit: String::new() };
    let begun = plan.begin("mock", suite, &mock, &spec);
    let mut lines = vec![Event::Begin { run: Box::new(begun) }.line()];
    let so_far = ResumeState::default();
    pollster::block_on(runner::run(&plan, &spec, Mode::Measure, &mut mock, &so_far, |event| {
        lines.extend(event.changes_the_run().then(|| event.line()));
        Flow::Continue
    }));
    let is = |line: &String, kind: &str| line.starts_with(&format!("{{\"event\":\"{kind}\""));
    let ended = lines.iter().position(|line| is(line, "record")).expect("records");
    let rounds: Vec<usize> = (0..ended).filter(|i| is(&lines[*i], "samples")).collect();
    assert!(rounds.len() > 20 && lines[..ended].iter().filter(|line| is(line, "sampling")).count() == CASES.len());
    for (samples, at) in [(3, rounds[1]), (12, rounds[10])] {
        let run = Run::parse(&lines[..=at].concat()).expect("it loads");
        let known: Vec<_> = run.records.iter().map(|r| r.timing().expect("samples")).collect();
        // Fewer than six make no figure.
        assert_eq!(known.len(), if samples < 6 { 0 } else { CASES.len() });
        for timing in &known {
            assert_eq!(
                (timing.samples.len(), timing.host_samples.len(), timing.stopped),
                (samples, samples, StopReason::Killed)
            );
            assert!(near(timing.summary.median.0, 1e5, 0.05), "{timing:?}");
        }
        assert_eq!(run.reopened().missing().count(), CASES.len(), "and all are measured anew");
    }
    // Whole, nothing of that is left.
    let run = Run::parse(&lines.concat()).expect("it loads");
    assert!(
        run.records.iter().all(|r| r.timing().is_some_and(|t| t.stopped != StopReason::Killed))
            && run.records.len() == 3
    );
}

#[test]
fn a_lost_device_fails_the_case_in_hand_and_a_fresh_one_goes_on() {
    // Past the baseline, which takes some thousand executions.
    let (_, whole) = run_with(&spec(&CASES), Mode::Measure, World::default(), |_| Flow::Continue);
    assert_eq!(whole.records.len(), 3);
    let mut first = None;
    for at in (500..50_000).step_by(301) {
        let world = World { fault: Fault::LostAt(at), ..World::default() };
        let (ended, run) = run_with(&spec(&CASES), Mode::Measure, world, |_| Flow::Continue);
        let RunEnd::DeviceLost(case) = &ended else { continue };
        if run.baseline.is_some() && CASES.contains(&case.as_str()) {
            first = Some((case.clone(), run));
            break;
        }
    }
    let (guilty, mut run) = first.expect("some execution falls into the rounds");
    let failed = run.records.iter().find(|r| r.case == guilty).expect("it has a record");
    assert!(matches!(&failed.outcome, Outcome::Error { reason } if reason == "device lost: scripted"), "{failed:?}");
    let plan = plan(&spec(&CASES), &caps()).expect("cases");
    let so_far = ResumeState::from_run(&run);
    let mut fresh = Mock::in_world(World::default());
    let ended = pollster::block_on(runner::run(&plan, &spec(&CASES), Mode::Measure, &mut fresh, &so_far, |event| {
        run.apply(event);
        Flow::Continue
    }));
    assert_eq!((ended, run.records.len(), run.missing().count()), (RunEnd::Complete, 3, 0));
    assert_eq!(run.records.iter().filter(|r| r.verdict() == "pass").count(), 2);
}

#[test]
fn stopping_keeps_what_has_samples_enough() {
    let wild: fn(u64) -> f64 = |i| 1e5 + (i % 13) as f64 * 3e4;
    let never = Spec { precision: Some(1e-9), budget: 1e6, ..spec(&CASES) };
    let mut looks = 0;
    let (ended, run) = run_with(&never, Mode::Measure, World { time: wild, ..World::default() }, |event| {
        looks += u32::from(matches!(event, Event::Drift { .. }));
        if looks > 40 { Flow::Stop } else { Flow::Continue }
    });
    assert_eq!((ended, run.records.len()), (RunEnd::Stopped, 3));
    assert!(run.records.iter().all(|r| r.timing().is_some_and(|t| t.stopped == StopReason::Asked)));
    let (ended, run) = run_with(&never, Mode::Measure, World::default(), |_| Flow::Stop);
    assert_eq!((ended, run.records.len()), (RunEnd::Stopped, 0), "at once, when nothing has begun");
}

#[test]
fn cold_caches_take_copies_enough() {
    let spec = Spec {
        cache: parallax_schema::spec::Cache::Cold,
        ceilings: true,
        ..spec(&["attention/fwd/b1,h8,s512,d64/f32/flash"])
    };
    let (_, run) = run_with(&spec, Mode::Measure, World { time: |_| 0.0, ..World::default() }, |_| Flow::Continue);
    let timing = run.records[0].timing().expect("a figure");
    // No cache shows in the mock, so that twice half the largest probe has to be exceeded: 64 MiB in copies of 4 MiB.
    assert!((16..=18).contains(&timing.sets), "{}", timing.sets);
    let one = "attention/fwd/b1,h1,s1,d1/f32/flash";
    let (_, run) =
        run_with(&Spec { case: vec![one.to_owned()], ..spec }, Mode::Measure, World::default(), |_| Flow::Continue);
    let Outcome::Skipped { reason } = &run.records[0].outcome else { panic!("{:?}", run.records) };
    assert!(reason.contains("copies of"), "{reason}");
}

/// A case that takes hardly longer than launching it: taken apart, it is timed as a graph too, alternately.
#[test]
fn a_case_that_launching_binds_is_timed_as_a_graph_beside() {
    let one = CASES[0];
    let timing_of = |mode: Mode, dialect: Dialect, launch: Option<Launching>| {
        let world = World { time: |_| 4_000.0, relaunching: -1_000.0, dialect, ..World::default() };
        let spec = Spec { launch, ceilings: true, ..spec(&[one]) };
        let (_, run) = run_with(&spec, mode, world, |_| Flow::Continue);
        run.records[0].timing().unwrap_or_else(|| panic!("no figure: {:?}", run.records[0])).clone()
    };
    let cuda = timing_of(Mode::Profile, Dialect::Cuda, None);
    assert_eq!(cuda.launch, Some(Launching::Stream));
    let relaunched = cuda.relaunched.expect("launching binds it");
    assert_eq!(relaunched.launch, Launching::Graph);
    let saved = relaunched.as_usual.median.0 - relaunched.summary.median.0;
    assert!(near(saved, 1_000.0, 0.05), "{saved} ns");
    assert!(near(relaunched.as_usual.median.0, cuda.summary.median.0, 0.01), "the usual way is as it was");

    assert_eq!(timing_of(Mode::Measure, Dialect::Cuda, None).relaunched, None, "only on request");
    assert_eq!(timing_of(Mode::Profile, Dialect::Wgsl, None).relaunched, None, "nothing cheaper is known there");
    let graph = timing_of(Mode::Profile, Dialect::Cuda, Some(Launching::Graph));
    assert_eq!((graph.launch, graph.relaunched), (Some(Launching::Graph), None));
    assert!(near(graph.summary.median.0 + 1_000.0, cuda.summary.median.0, 0.01));
}

#[test]
fn a_pause_within_a_sample_is_not_charged_and_the_sample_is_discarded() {
    // For ten seconds, in the middle of the samples.
    const FROM: f64 = 1.5e9;
    const UNTIL: f64 = 11.5e9;
    let world = |pause: bool| World {
        pace: if pause { |at| if (FROM..UNTIL).contains(&at) { 1e5 } else { 1.0 } } else { |_| 1.0 },
        still: if pause {
            |now| if now > FROM { (now.min(UNTIL + 1e6) - FROM).max(0.0) } else { 0.0 }
        } else {
            |_| 0.0
        },
        ..World::default()
    };
    let timing = |pause| run(&CASES[..1], world(pause)).records[0].timing().expect("timed").clone();
    let (paused, plain) = (timing(true), timing(false));
    let stood = paused.discarded.iter().filter(|d| d.reason.contains("the program stood still for")).count();
    assert!(stood >= 1 && paused.discarded.len() == stood, "{:?}", paused.discarded);
    assert!(plain.discarded.is_empty());
    assert!(paused.samples.iter().all(|time| near(*time, 1e5, 0.01)), "no pause is a sample");
    let (n, all) = (paused.samples.len(), plain.samples.len());
    assert!(n + 2 >= all, "{n} samples in place of {all}");
    assert!(paused.spent.wall.0 < plain.spent.wall.0 * 1.1, "{} charged of {}", paused.spent.wall, plain.spent.wall);
}

#[test]
fn records_come_while_other_cases_wait() {
    let cases: Vec<String> = (2..30).map(|s| format!("attention/fwd/b1,h1,s{s},d3/f32/flash")).collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    let (mut begun, mut before_the_first) = (std::collections::BTreeSet::new(), 0);
    let (ended, run) = run_with(&spec(&cases), Mode::Measure, World::default(), |event| {
        match event {
            Event::Started { case } => {
                begun.insert(case.clone());
            }
            Event::Record { .. } if before_the_first == 0 => before_the_first = begun.len(),
            _ => {}
        }
        Flow::Continue
    });
    assert_eq!((ended, run.records.len()), (RunEnd::Complete, cases.len()));
    assert!((1..=8).contains(&before_the_first), "{before_the_first} of {} cases were begun", cases.len());
}
