//! Simulated histories of a machine: false alarms, steps at their commits, causes.

use parallax_schema::device::BrowserMode;
use parallax_schema::record::Run;
use parallax_schema::record::roofline::{Analysis, Bound};
use parallax_schema::testing;
use parallax_schema::testing::{drift, measured, spread};
use parallax_schema::units::Nanos;

use super::*;
use crate::compare::verdict::Verdict;
use crate::simulated::Random;

const CASES: [&str; 6] = [
    "attention/fwd/b1,h8,s512,d64/f16/flash",
    "matmul/fwd/m512,n512,k512/f16/tiled",
    "matmul/fwd/m512,n512,k512/f32/tiled",
    "conv2d/fwd/n1,c64,h56,w56/f16/implicit",
    "softmax/fwd/r512,c512/f32/rows",
    "copy/fwd/n16777216/f32/vec4",
];

/// Noise of a machine, on the logarithmic scale.
#[derive(Clone, Copy)]
struct Noise {
    /// Standard deviation of the machine's speed, which the reference kernel shares.
    machine: f64,
    /// Correlation of the machine's speed in neighbouring runs.
    memory: f64,
    /// Standard deviation of each case's own noise between runs.
    own: f64,
    /// Share of runs beside other load.
    disturbed: f64,
}

/// Noise as recorded on GPUs, with 4 % of runs disturbed.
const CALM: Noise = Noise { machine: 0.003, memory: 0.5, own: 0.003, disturbed: 0.04 };

/// Returns runs of a machine, a night apart, each of its own commit. `effect` gives the factor of a case's times in a run, and that of
/// the reference kernel for no case.
fn runs(seed: u64, count: usize, noise: Noise, effect: impl Fn(usize, Option<usize>) -> f64) -> Vec<Run> {
    let mut random = Random(seed);
    let mut speed = random.normal();
    let mut one = |night: usize| {
        speed = noise.memory * speed + (1.0 - noise.memory * noise.memory).sqrt() * random.normal();
        let load = if random.uniform() < noise.disturbed { -0.03 * (1.0 - random.uniform()).ln() } else { 0.0 };
        let machine = noise.machine * speed + load;
        let mut time = |base: f64, own: f64, factor: f64| base * factor * (machine + own * random.normal()).exp();
        let reference = time(5e4, 0.001, effect(night, None));
        let times: Vec<(&str, Vec<f64>)> = CASES
            .iter()
            .enumerate()
            .map(|(i, case)| (*case, spread(time(1e5 * (i + 1) as f64, noise.own, effect(night, Some(i))), 0.004, 12)))
            .collect();
        let mut run = testing::run("cuda", "NVIDIA H200", &times);
        run.started = 1_700_000_000 + 86_400 * night as u64;
        run.suite.commit = format!("{night:07x}");
        run.devices[0].driver = "580.1".to_owned();
        run.drift = drift(&spread(reference, 0.002, 12));
        run
    };
    (0..count).map(&mut one).collect()
}

fn history(runs: &[Run]) -> History {
    let mut builder = HistoryBuilder::default();
    runs.iter().enumerate().for_each(|(i, run)| builder.add(&format!("{i:04}.json"), run, |_| true));
    builder.finish(None)
}

/// Returns the changes of a case: commit, verdict and cause.
fn changes(history: &History, case: usize) -> Vec<(String, Verdict, Kind)> {
    let series = history.series.iter().find(|series| series.key.case == CASES[case]).expect("the case is there");
    series.changes.iter().map(|change| (change.commit.clone(), change.verdict, change.kind)).collect()
}

fn none(_: usize, _: Option<usize>) -> f64 {
    1.0
}

#[test]
fn equal_runs_give_an_alarm_in_at_most_one_history_of_a_hundred() {
    let noisy = Noise { machine: 0.02, memory: 0.3, own: 0.01, disturbed: 0.1 };
    for (name, noise) in [("calm", CALM), ("noisy", noisy)] {
        let alarm =
            |seed: &u64| !history(&runs(*seed, 20 + (*seed as usize * 7) % 60, noise, none)).changed().is_empty();
        let alarms = (0..200).filter(alarm).count();
        assert!(alarms <= 2, "{name}: {alarms} of 200 histories");
    }
}

#[test]
fn noise_of_any_shape_gives_few_alarms() {
    type Shape = fn(&mut Random, f64) -> f64;
    let shapes: [(&str, Shape); 5] = [
        ("normal", |random, _| random.normal()),
        ("two speeds", |random, _| if random.uniform() < 0.5 { 3.0 } else { 0.05 * random.normal() }),
        ("rare slow runs", |random, _| random.normal() + if random.uniform() < 0.1 { 6.0 } else { 0.0 }),
        // Student's distribution with two degrees of freedom, which has no variance.
        ("heavy tails", |random, _| random.normal() / (-(1.0 - random.uniform()).ln()).sqrt()),
        ("a machine with a memory", |random, last| 0.5 * last + 0.75_f64.sqrt() * random.normal()),
    ];
    for (name, shape) in shapes {
        let mut random = Random(23);
        let mut alarm = |length: usize| {
            let alarms = step::Alarms::of(0.01, &[length; 10]);
            let mut any = false;
            for _ in 0..10 {
                let mut last = random.normal();
                let mut value = |_| {
                    last = shape(&mut random, last);
                    0.01 * last
                };
                let values: Vec<f64> = (0..length).map(&mut value).collect();
                let sums = step::Sums::of(&values, &vec![0.0005; length]);
                any |= !step::steps(&step::Tested { whole: &sums, without_machine: None }, 0.01, alarms).is_empty();
            }
            any
        };
        let alarms = (0..200).filter(|i| alarm(15 + i * 37 % 120)).count();
        assert!(alarms <= 2, "{name}: {alarms} of 200 histories");
    }
}

#[test]
fn a_step_of_three_per_cent_is_found_at_its_commit() {
    let step = |night: usize, case: Option<usize>| if night >= 45 && case == Some(2) { 1.03 } else { 1.0 };
    let (mut found, mut covered) = (0, 0);
    for seed in 0..40 {
        let history = history(&runs(1000 + seed, 60, CALM, step));
        let others = (0..CASES.len()).filter(|case| *case != 2).any(|case| !changes(&history, case).is_empty());
        let right = changes(&history, 2) == [("000002d".to_owned(), Verdict::Slower, Kind::Kernel)];
        found += usize::from(right && !others);
        for (series, change) in history.slowdowns() {
            covered += usize::from(change.ratio.low <= 1.03 && 1.03 <= change.ratio.high);
            assert!(series.points[change.point].run == change.run && change.ratio.low > 1.01, "{change:?}");
        }
    }
    assert!(found >= 37, "{found} of 40");
    assert!(covered >= 36, "the interval covers the step in {covered} of 40");
}

#[test]
fn the_reference_kernel_names_the_cause() {
    use Kind::{Kernel, Machine, Undecided};
    let from = |night: usize, factor: f64| if night >= 30 { factor } else { 1.0 };
    for (name, cases, reference, want) in [
        ("the kernel", 0.95, 1.0, (Verdict::Faster, Kernel)),
        ("the machine", 1.05, 1.05, (Verdict::Slower, Machine)),
        ("both", 1.08, 1.04, (Verdict::Slower, Undecided)),
    ] {
        let effect = |night: usize, case: Option<usize>| from(night, if case.is_some() { cases } else { reference });
        let found = history(&runs(7, 60, CALM, effect));
        for case in 0..CASES.len() {
            assert_eq!(changes(&found, case), [("000001e".to_owned(), want.0, want.1)], "{name}");
        }
        let slowdowns = found.slowdowns().count();
        assert_eq!(slowdowns, 0, "{name}: none is a kernel that became slower");
    }
}

#[test]
fn the_setup_and_an_equal_program_are_no_kernel() {
    let step = |night: usize, case: Option<usize>| if night >= 30 && case.is_some() { 1.05 } else { 1.0 };
    let with = |edit: &dyn Fn(usize, &mut Run)| {
        let mut runs = runs(11, 60, CALM, step);
        runs.iter_mut().enumerate().for_each(|(night, run)| edit(night, run));
        let found = history(&runs);
        let change = found.series[0].changes.first().cloned().expect("a change");
        assert_eq!(change.run, 30);
        (change.kind, change.grounds)
    };
    let (kind, grounds) = with(&|night, run| run.devices[0].driver = format!("58{}", night / 30));
    assert_eq!((kind, grounds.as_str()), (Kind::Setup, "driver: mock 580 → mock 581"));
    let (kind, grounds) = with(&|_, run| run.suite.commit = "abcdef0".to_owned());
    assert!(kind == Kind::Undecided && grounds.contains("the program is the same"), "{grounds}");
    assert_eq!(with(&|_, run| run.suite.commit = "abcdef0-dirty".to_owned()).0, Kind::Kernel);
    let (kind, grounds) = with(&|_, run| run.drift.clear());
    assert!(kind == Kind::Undecided && grounds.contains("neither"), "{grounds}");
}

#[test]
fn the_binding_ceiling_shows_a_machine_whose_reference_kernel_stayed() {
    let step = |night: usize, case: Option<usize>| if night >= 30 && case == Some(5) { 1.06 } else { 1.0 };
    let mut runs = runs(13, 60, CALM, step);
    for (night, run) in runs.iter_mut().enumerate() {
        measured(run, CASES[5]).analysis = Some(Analysis {
            intensity: 0.1,
            floor: Nanos(5e4),
            utilisation: 0.9,
            peak_flops: None,
            peak_bandwidth: Some(if night >= 30 { 4e12 / 1.06 } else { 4e12 }),
            peak_link: None,
            bound: Bound::Memory,
        });
    }
    let found = history(&runs);
    assert_eq!(changes(&found, 5), [("000001e".to_owned(), Verdict::Slower, Kind::Machine)]);
    let change = &found.changed()[0].changes[0];
    assert!(change.grounds.contains("ceiling of memory") && change.ceiling.is_some(), "{change:?}");
}

#[test]
fn the_order_of_files_and_copies_change_nothing() {
    let step = |night: usize, case: Option<usize>| if night >= 30 && case == Some(0) { 1.05 } else { 1.0 };
    let runs = runs(17, 40, CALM, step);
    let plain = history(&runs);
    let mut builder = HistoryBuilder::default();
    for (i, run) in runs.iter().enumerate().rev() {
        // A run that was cut off, and a copy of the whole one.
        let mut part = run.clone();
        part.records.truncate(2);
        for (file, run) in
            [(format!("{i:04}.part.json"), &part), (format!("{i:04}.json"), run), (format!("{i:04}.z.json"), run)]
        {
            builder.add(&file, run, |_| true);
        }
    }
    builder.skip("broken.json".to_owned(), "not JSON".to_owned());
    let found = builder.finish(None);
    assert_eq!((found.runs, found.series), (plain.runs, plain.series));
    assert_eq!((found.duplicates, found.unreadable.len()), (80, 1));
}

#[test]
fn series_do_not_mix_what_is_not_comparable() {
    let one = || runs(19, 1, CALM, none).remove(0);
    let mut all: Vec<Run> = (0..6).map(|_| one()).collect();
    all.iter_mut().zip(0..).for_each(|(run, i)| run.started += i);
    all[1].devices[0].name = "NVIDIA H100 PCIe".to_owned();
    all[2].reach = Some(BrowserMode::Unsafe);
    all[3].devices[0].caps.tuning.insert("matmul.tiled.BLOCK_K".to_owned(), 8);
    measured(&mut all[4], CASES[1]).timing.as_mut().expect("timed").cache = parallax_schema::spec::Cache::Cold;
    // Too few samples for an interval.
    all[5].records[1] = testing::record(CASES[1], testing::timing(&[1e5; 5]));
    let found = history(&all);
    let of = |case: &str| found.series.iter().filter(|series| series.key.case == case).count();
    assert_eq!((of(CASES[1]), of(CASES[0])), (5, 3), "tuning belongs to its own variant");
    assert!(found.series.iter().any(|series| series.key.tuning == "BLOCK_K=8"));
    assert!(found.series.iter().all(|series| !series.is_long_enough()));
}
