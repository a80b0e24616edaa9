//! Ceilings in a run: their place in its order, and times beyond them.

use std::ops::Range;

use parallax_engine::measure::runner::Flow;
use parallax_schema::record::roofline::Ceilings;
use parallax_schema::record::{Event, Record};
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;
use parallax_testing::mock::World;

use crate::engine::{near, run_under_ceilings, run_with, spec};

#[test]
fn a_large_run_has_a_figure_of_its_lightest_problem_before_the_ceilings() {
    let of_shape = |s: u32| ["flash", "manual"].map(|variant| format!("attention/fwd/b1,h1,s{s},d3/f32/{variant}"));
    let cases: Vec<String> = [9, 8, 5, 7, 6].into_iter().flat_map(of_shape).collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    let (mut sampled, mut before) = (Vec::new(), None);
    run_with(&Spec { ceilings: true, ..spec(&cases) }, Mode::Measure, World::default(), |event| {
        match event {
            Event::Sampling { record } => sampled.push(record.case.clone()),
            Event::Baseline { baseline } if baseline.ceilings != Ceilings::default() => {
                before.get_or_insert(sampled.clone());
            }
            _ => {}
        }
        Flow::Continue
    });
    let mut before = before.expect("ceilings");
    before.sort();
    assert_eq!(before, of_shape(5), "the others follow: {sampled:?}");
    assert_eq!(sampled.len(), cases.len());
}

#[test]
fn a_time_below_the_roofline_is_refused() {
    // Half a gigaflop at a teraflop per second takes half a millisecond, and one case claims a hundredth of that.
    let world =
        World { time: |_| 0.0, of_case: |case| if case.variant == "flash" { 0.01 } else { 1.0 }, ..World::default() };
    let cases = ["attention/fwd/b1,h8,s512,d64/f32/flash", "attention/fwd/b1,h8,s512,d64/f32/manual"];
    let run = run_under_ceilings(&cases, world);
    let verdict = |variant: &str| run.records.iter().find(|r| r.parts.variant == variant).map(Record::verdict);
    assert_eq!((verdict("flash"), verdict("manual")), (Some("impossible"), Some("pass")));
}

#[test]
fn ceilings_that_a_busy_machine_gave_are_measured_again_before_a_case_is_refused() {
    // Three times as slow while the ceilings are measured, at the end of the samples, as beside another program.
    const BUSY: Range<f64> = 1.55e9..2.8e9;
    let once: fn(f64) -> f64 = |now| if BUSY.contains(&now) { 3.0 } else { 1.0 };
    // And when they are measured for the second time, and the third.
    let twice: fn(f64) -> f64 = |now| if (BUSY.start..3.3e9).contains(&now) { 3.0 } else { 1.0 };
    let best = |c: &Ceilings| c.bandwidth.iter().map(|point| point.rate).fold(0.0, f64::max);
    let rates: [fn(&Ceilings) -> f64; 2] = [|c| c.arithmetic[0].rate, best];
    let cases = ["attention/fwd/b1,h8,s512,d64/f32/flash", "copy/fwd/n65536/f32/vec4"].into_iter().zip(rates);
    for ((case, rate), pace) in cases.flat_map(|case| [(case, once), (case, twice)]) {
        let world = World { time: |_| 0.0, pace, ..World::default() };
        let mut reported = Vec::new();
        let spec = Spec { ceilings: true, budget: 2.0, ..spec(&[case]) };
        let (_, run) = run_with(&spec, Mode::Measure, world, |event| {
            if let Event::Baseline { baseline } = event {
                reported.push(baseline.ceilings.clone());
            }
            Flow::Continue
        });
        let sampled = run.drift.last().expect("readings").at.0;
        assert!(BUSY.contains(&sampled), "the ceilings follow the samples, at {sampled}, while it is busy");
        assert_eq!(run.records[0].verdict(), "pass", "{:?}", run.records);
        let [none, first, last] = &reported[..] else { panic!("{case}: reported {} times", reported.len()) };
        assert_eq!(*none, Ceilings::default(), "the first case is sampled before");
        assert!(near(rate(last) / rate(first), 3.0, 0.05), "{first:?} {last:?}");
        assert!(last.bandwidth.is_sorted_by_key(|point| point.working_set));
        assert_eq!(run.baseline.expect("tested").ceilings, *last);
    }
}

#[test]
fn a_time_of_a_faster_device_is_measured_again_beside_its_ceilings() {
    // The device loses two thirds of its speed at the end of the samples, for good.
    const SLOWER: f64 = 1.55e9;
    let world = World { time: |_| 0.0, pace: |now| if now > SLOWER { 3.0 } else { 1.0 }, ..World::default() };
    let spec = Spec { ceilings: true, budget: 2.0, ..spec(&["copy/fwd/n65536/f32/vec4"]) };
    let (_, run) = run_with(&spec, Mode::Measure, world, |_| Flow::Continue);
    let record = &run.records[0];
    assert_eq!(record.verdict(), "pass", "{record:?}");
    let timing = record.timing().expect("timed");
    assert!(timing.caveat.as_ref().is_some_and(|why| why.contains("measured twice")), "{:?}", timing.caveat);
    let fast: Vec<f64> =
        timing.discarded.iter().filter(|d| d.reason.contains("faster than the ceilings")).map(|d| d.time).collect();
    assert!(!fast.is_empty() && fast.iter().all(|time| near(timing.summary.median.0 / time, 3.0, 0.01)), "{fast:?}");
}
