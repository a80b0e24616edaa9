//! Announcements of cases to the device, and the time of a run by activity.

use parallax_engine::measure::runner::{self, Flow};
use parallax_engine::plan::plan;
use parallax_schema::record::{Activity, Event};
use parallax_schema::session::{Mode, ResumeState};
use parallax_schema::testing::caps;
use parallax_testing::mock::{Announced, Mock, World};

use crate::engine::{run_with, spec};

/// Cases of five problems with two variants each.
fn cases() -> Vec<String> {
    let of_shape = |s: u32| ["flash", "manual"].map(|variant| format!("attention/fwd/b1,h1,s{s},d3/f32/{variant}"));
    [9, 8, 5, 7, 6].into_iter().flat_map(of_shape).collect()
}

/// Announcements of a run, and the cases in the order of their preparation.
fn announced(mode: Mode) -> (Vec<Announced>, Vec<String>) {
    let cases = cases();
    let spec = spec(&cases.iter().map(String::as_str).collect::<Vec<_>>());
    let plan = plan(&spec, &caps()).expect("cases");
    let mut mock = Mock::in_world(World::default());
    let mut started = Vec::new();
    let on_event = |event| {
        if let Event::Started { case } = event {
            started.push(case);
        }
        Flow::Continue
    };
    pollster::block_on(runner::run(&plan, &spec, mode, &mut mock, &ResumeState::default(), on_event));
    let mut prepared: Vec<String> = Vec::new();
    // A case is started again at its completion.
    started.into_iter().for_each(|case| {
        if !prepared.contains(&case) {
            prepared.push(case)
        }
    });
    (mock.announced(), prepared)
}

#[test]
fn each_group_is_announced_before_the_rest_of_the_run() {
    let (announced, prepared) = announced(Mode::Measure);
    let [first, second] = &announced[..] else { panic!("{announced:?}") };
    assert_eq!((&first.next[..], first.later.len()), (&prepared[..2], 0), "the first figure waits for no other case");
    assert_eq!((&second.next[..], second.later.len()), (&prepared[2..], 0), "four problems make a group");
}

#[test]
fn checked_cases_are_announced_together() {
    let (announced, prepared) = announced(Mode::Verify);
    assert_eq!(announced, [Announced { next: prepared, later: Vec::new() }]);
}

#[test]
fn a_run_has_the_time_of_each_activity() {
    let cases = cases();
    let spec = spec(&cases.iter().map(String::as_str).collect::<Vec<_>>());
    let (_, run) = run_with(&spec, Mode::Measure, World { compiling: 5e6, ..World::default() }, |_| Flow::Continue);
    let of = |activity: Activity| run.activities.get(&activity.to_string()).copied().unwrap_or_default();
    let sampled: f64 = run.records.iter().filter_map(|record| record.timing()).map(|timing| timing.spent.wall.0).sum();
    assert!(
        sampled > 0.0 && (of(Activity::Samples) / sampled - 1.0).abs() < 0.02,
        "{} {sampled}",
        of(Activity::Samples)
    );
    for activity in [Activity::Clocks, Activity::Checks, Activity::Sizing, Activity::Calls, Activity::Traces] {
        assert!(of(activity) > 0.0, "{activity}");
    }
    let all: f64 = run.activities.values().sum();
    assert!((all / run.spent.wall.0 - 1.0).abs() < 1e-9, "{all} {}", run.spent.wall.0);
}
