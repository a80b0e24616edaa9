//! Hardware counters of cases on a scripted device.

use parallax_engine::measure::runner::Flow;
use parallax_ir::device::NO_COUNTERS;
use parallax_schema::record::{Outcome, Record, Run};
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;
use parallax_testing::mock::World;

use crate::engine::{CASES, median, run_with, spec};

fn run(asked: bool, counters: bool) -> Run {
    let spec = Spec { counters: asked, ..spec(&CASES) };
    let run = run_with(&spec, Mode::Measure, World { counters, ..World::default() }, |_| Flow::Continue).1;
    assert!(run.records.iter().all(|record| matches!(record.outcome, Outcome::Pass(_))), "{:?}", run.records);
    run
}

#[test]
fn counters_are_read_where_they_are_asked_for() {
    let counted = run(true, true);
    for record in &counted.records {
        let figures = record.counters().unwrap_or_else(|| panic!("no counters: {record:?}"));
        assert_eq!((figures.passes, figures.stages[0].value("instructions")), (2, Some(2.0)));
        assert!(figures.took.0 > 0.0);
    }
    assert!(counted.activities["counters"] > 0.0, "{:?}", counted.activities);
    let plain = run(false, true);
    assert!(plain.records.iter().all(|record| record.counters().is_none() && record.no_counters().is_none()));
    assert!(!plain.activities.contains_key("counters"), "{:?}", plain.activities);
    let medians = |run: &Run| run.records.iter().map(median).collect::<Vec<_>>();
    assert_eq!(medians(&counted), medians(&plain), "counted executions are in no sample");
}

#[test]
fn a_device_without_counters_gives_the_reason() {
    let run = run(true, false);
    let reasons: Vec<Option<&str>> = run.records.iter().map(Record::no_counters).collect();
    assert_eq!(reasons, [Some(NO_COUNTERS); 3]);
}
