//! Energy of cases on a scripted device with an energy counter.

use parallax_schema::record::{Energy, EnergyFigure, Outcome, Run};
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;
use parallax_testing::counter::Counter;
use parallax_testing::mock::World;

use crate::engine::{median, near, run_with, spec};
use parallax_engine::measure::runner::Flow;

/// Cases of one and of twice the work, whose time is the work's alone.
const CASES: [&str; 2] = ["copy/fwd/n100000/f32/scalar", "copy/fwd/n200000/f32/scalar"];

fn run(energy: bool, counter: Option<Counter>) -> Run {
    let world = World { time: |_| 0.0, energy: counter, ..World::default() };
    let spec = Spec { energy, ..spec(&CASES) };
    let run = run_with(&spec, Mode::Measure, world, |_| Flow::Continue).1;
    assert!(run.records.iter().all(|record| matches!(record.outcome, Outcome::Pass(_))), "{:?}", run.records);
    run
}

fn figures(run: &Run) -> [&EnergyFigure; 2] {
    CASES.map(|case| {
        let record = run.records.iter().find(|record| record.case == case).expect("measured");
        record.energy().unwrap_or_else(|| panic!("no energy: {:?}", record.measured()))
    })
}

fn reasons(run: &Run) -> Vec<&str> {
    run.records
        .iter()
        .filter_map(|record| match &record.measured()?.energy {
            Some(Energy::Absent(why)) => Some(why.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn joules_are_the_power_for_the_time_of_an_execution() {
    let run = run(true, Some(Counter::default()));
    for (case, figure) in CASES.iter().zip(figures(&run)) {
        let record = run.records.iter().find(|record| record.case == *case).expect("measured");
        let want = 500.0 * median(record) * 1e-9;
        assert!(near(figure.joules, want, 0.01) && near(figure.watts, 500.0, 0.01), "{figure:?} for {want}");
        assert!(figure.low <= figure.joules && figure.joules <= figure.high);
        assert!(near(figure.idle_watts, 70.0, 0.01) && figure.busy > 0.99, "{figure:?}");
        assert!(near(figure.integrated_watts.expect("sampled"), figure.watts, 1e-9));
        let seconds: f64 = figure.stretches.iter().map(|stretch| stretch.wall.secs()).sum();
        assert!(figure.stretches.len() == 6 && seconds > 2.4, "{seconds}");
    }
    let [one, two] = figures(&run).map(|figure| [figure.joules, figure.low, figure.high]);
    assert!(near(two[0], 2.0 * one[0], 0.01), "twice the work: {one:?}, {two:?}");
    assert!(run.activities["energy"] > 2.0 * 3.4e9, "{:?}", run.activities);
}

#[test]
fn a_coarse_counter_gets_longer_stretches() {
    let coarse = Counter { step: 250e6, ..Counter::default() };
    let run = run(true, Some(coarse));
    for figure in figures(&run) {
        assert!(near(figure.watts, 500.0, 0.02), "{figure:?}");
        assert!(figure.stretches.iter().all(|stretch| stretch.wall.secs() >= 1.0), "{figure:?}");
    }
}

#[test]
fn energy_without_a_counter_or_with_a_bad_one_is_a_reason() {
    for (counter, reason) in [
        (None, "no energy counter"),
        (Some(Counter { stops: 0.0, ..Counter::default() }), "stood still"),
        (Some(Counter { stops: 3e9, ..Counter::default() }), "stood still"),
        (Some(Counter { sampled: Some(1.3), ..Counter::default() }), "30.0 % apart"),
        (Some(Counter { sampled: Some(0.5), ..Counter::default() }), "50.0 % apart"),
    ] {
        let run = run(true, counter);
        let reasons = reasons(&run);
        assert!(reasons.len() == 2 && reasons.iter().all(|why| why.contains(reason)), "{counter:?}: {reasons:?}");
    }
}

#[test]
fn energy_is_measured_only_where_asked_for() {
    let run = run(false, Some(Counter::default()));
    assert!(run.records.iter().filter_map(|record| record.measured()).all(|measured| measured.energy.is_none()));
    assert!(!run.activities.contains_key("energy"), "{:?}", run.activities);
    // Power samples are optional.
    let unsampled = Counter { sampled: None, ..Counter::default() };
    assert_eq!(figures(&self::run(true, Some(unsampled))).map(|figure| figure.integrated_watts), [None, None]);
}
