//! Hosts that learn of completions late: by a period, by prompts, or slowly.

use parallax_schema::device::Clock;
use parallax_schema::record::{Record, Run};
use parallax_schema::units::Nanos;
use parallax_testing::mock::World;

use crate::engine::{CASES, median, near, run};

#[test]
fn a_host_that_looks_rarely_gets_batches_that_fill_its_period() {
    let world = || World { period: 1e8, time: |_| 1e5, ..World::default() };
    let run = run(&CASES, world());
    let baseline = run.baseline.as_ref().expect("tested");
    assert_eq!(baseline.timer.completion_period, Some(Nanos(1e8)), "{:?}", baseline.timer);
    assert_eq!((run.clock.clock, &baseline.timer.demoted), (Clock::GpuTimestamps, &None), "{:?}", baseline.timer);
    for record in &run.records {
        let timing = record.timing().expect("a figure");
        let batch = f64::from(timing.repeats) * timing.summary.median.0;
        assert!((0.75e8..1e8).contains(&batch) && timing.slope.is_none(), "{batch}: {timing:?}");
        assert!(near(median(record), 1e5, 0.01), "{}: {}", record.case, median(record));
    }
    // The same device with a clock at half its rate: the host's cannot resolve a case.
    let run = crate::engine::run(&CASES, World { clock_rate: 0.5, ..world() });
    assert_eq!(run.clock.clock, Clock::Host);
    assert!(run.records.iter().all(|record| record.verdict() == "unresolved"), "{:?}", run.records);
}

#[test]
fn prompted_batches_are_as_short_as_on_a_host_that_knows_at_once() {
    let world = || World { time: |_| 1e5, ..World::default() };
    let (at_once, rarely) = (run(&CASES, world()), run(&CASES, World { period: 1e8, prompted: true, ..world() }));
    let timer = &rarely.baseline.as_ref().expect("tested").timer;
    assert_eq!((timer.completion_period, &timer.demoted), (Some(Nanos(1e8)), &None), "{timer:?}");
    assert!(timer.waits.iter().all(|waited| waited.done.median.0 > 9e7), "a call waits for a look: {timer:?}");
    for (record, usual) in rarely.records.iter().zip(&at_once.records) {
        let [timing, usual] = [record, usual].map(|record| record.timing().expect("a figure"));
        assert_eq!((timing.repeats, timing.method), (usual.repeats, usual.method));
    }
    // A call waits for a look, so two of a kind are enough.
    let calls = |run: &Run| {
        let counts = |record: &Record| {
            let call = record.measured().expect("right").call.clone().expect("calls");
            (call.done.len(), call.result.len())
        };
        run.records.iter().map(counts).collect::<Vec<_>>()
    };
    assert!(calls(&rarely).iter().all(|counts| *counts == (2, 2)), "{:?}", calls(&rarely));
    assert!(calls(&at_once).iter().all(|(done, result)| done.min(result) > &4), "{:?}", calls(&at_once));
}

#[test]
fn clocks_are_held_against_each_other_over_many_delays_of_prompts() {
    const LATE: f64 = 1e7;
    let world = World { period: 1e8, prompted: true, late: LATE, time: |_| 1e5, ..World::default() };
    let timer = run(&CASES, world).baseline.expect("tested").timer;
    let check = timer.cross_check.expect("two clocks");
    assert!(check.host.0 > 20.0 * LATE, "{check:?}");
    assert_eq!(timer.demoted, None, "{check:?}");
}

#[test]
fn a_slow_host_without_a_period_is_no_host_that_looks_rarely() {
    let world = World { known: |done| done + 1e8, ..World::default() };
    let timer = run(&CASES, world).baseline.expect("tested").timer;
    assert!(timer.completion.is_some_and(|c| c.median.0 > 1e8), "{timer:?}");
    assert_eq!(timer.completion_period, None);
}
