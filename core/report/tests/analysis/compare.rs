//! Tests of comparisons through the tables that readers see.

use parallax_analysis::compare::Gate;
use parallax_analysis::compare::scores::Change;
use parallax_analysis::compare::verdict::Verdict;
use parallax_analysis::compare::*;
use parallax_report::{Cell, comparison_table};
use parallax_schema::device::Launching;
use parallax_schema::record::roofline::{Analysis, Bound};
use parallax_schema::record::{Better, Errors, NamedRun};
use parallax_schema::spec::Cache;
use parallax_schema::testing::{drift, measured, run, score, spread};
use parallax_schema::units::Nanos;

const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";
const OTHER: &str = "attention/fwd/b1,h1,s4,d2/f32/manual";

fn named(name: &str, target: &str, device: &str, median: f64) -> NamedRun {
    NamedRun::new(name, run(target, device, &[(CASE, spread(median, 0.002, 40))]))
}

#[test]
fn any_number_of_runs_against_a_chosen_base() {
    let runs = [named("a", "cuda", "X", 100.0), named("b", "cuda", "X", 150.0), named("c", "cuda", "X", 50.0)];
    let names: Vec<String> = runs.iter().map(|NamedRun { name, .. }| name.clone()).collect();
    let base = find_base(&names, "b").expect("a name");
    assert_eq!(find_base(&names, "2"), Ok(base), "numbers count from one");
    for wrong in ["0", "4", "d", "-1"] {
        assert!(matches!(find_base(&names, wrong), Err(CompareError::NoSuchBase { .. })), "{wrong}");
    }
    let comparison = compare(&runs, &Options { base, ..Options::default() }).expect("pairs");
    let verdicts: Vec<_> = comparison.pairs[0].ratios.iter().map(|r| r.as_ref().map(|r| r.verdict)).collect();
    assert_eq!(verdicts, [Some(Verdict::Faster), None, Some(Verdict::Faster)]);
    let value = comparison.ratio(2, CASE).expect("a ratio").value;
    assert!((value - 1.0 / 3.0).abs() < 1e-9);
    assert!(matches!(compare(&runs[..1], &Options::default()), Err(CompareError::TooFew(1))));
    let beyond = Options { base: 3, ..Options::default() };
    assert!(matches!(compare(&runs, &beyond), Err(CompareError::NoSuchBase { .. })));
}

#[test]
fn hot_and_cold_are_no_pair() {
    let mut runs = [named("a", "cuda", "X", 100.0), named("b", "cuda", "X", 150.0)];
    for NamedRun { run, .. } in &mut runs {
        run.records.push(parallax_schema::testing::record(OTHER, parallax_schema::testing::timing(&[9.0; 10])));
    }
    measured(&mut runs[1].run, CASE).timing.as_mut().expect("timed").cache = Cache::Cold;
    let comparison = compare(&runs, &Options::default()).expect("the other case");
    assert_eq!(comparison.pairs.len(), 1);
    assert_eq!(comparison.unpaired.len(), 2);
    assert_eq!(comparison.unpaired[0].reason, "caches are hot here and cold in b");
    let notes = comparison_table(&comparison).all_notes().join("\n");
    assert!(notes.contains(CASE) && notes.contains("cold here and hot in a"), "{notes}");
    for NamedRun { run, .. } in &mut runs {
        run.records.retain(|r| r.case == CASE);
    }
    assert!(matches!(compare(&runs, &Options::default()), Err(CompareError::NothingInCommon { .. })));
    let apart = ["attention/fwd/b1,h8/bf16/flash", "attention/fwd/b1,h8/f16/flash"];
    let runs: Vec<_> = ["cuda", "browser"]
        .iter()
        .zip(apart)
        .map(|(target, case)| NamedRun::new(*target, run(target, "X", &[(case, spread(100.0, 0.002, 40))])))
        .collect();
    let why = compare(&runs, &Options::default()).expect_err("another type").to_string();
    assert!(
        why.contains("the nearest: cuda has bf16, browser has f16 of attention/fwd/b1,h8/flash; run both"),
        "{why}"
    );
}

#[test]
fn another_way_of_launching_is_a_pair_with_a_note() {
    let pair = |base: Option<Launching>, other: Option<Launching>| {
        let mut runs = [named("a", "cuda", "X", 100.0), named("b", "cuda", "X", 50.0)];
        for (NamedRun { run, .. }, launch) in runs.iter_mut().zip([base, other]) {
            measured(run, CASE).timing.as_mut().expect("timed").launch = launch;
        }
        let comparison = compare(&runs, &Options::default()).expect("pairs");
        (comparison_table(&comparison).all_notes().join("\n"), comparison.ratio(1, CASE).expect("a pair").verdict)
    };
    let (notes, verdict) = pair(Some(Launching::Stream), Some(Launching::Graph));
    assert!(notes.contains("b: launched otherwise: graph against stream in the base"), "{notes}");
    assert_eq!(verdict, Verdict::Faster, "it is judged all the same");
    for usual in [None, Some(Launching::Stream)] {
        let (notes, _) = pair(usual, Some(Launching::OnePass));
        assert!(!notes.contains("launched otherwise"), "either target's usual way: {notes}");
    }
    assert!(pair(Some(Launching::PassEach), None).0.contains("the usual way against pass-each in the base"));
}

#[test]
fn reference_kernels_count_only_on_one_device_and_target() {
    let mut runs =
        [named("a", "cuda", "X", 100.0), named("b", "cuda", "NVIDIA X", 105.0), named("c", "wgpu", "X", 105.0)];
    for (i, NamedRun { run, .. }) in runs.iter_mut().enumerate() {
        run.drift = drift(&spread(if i == 0 { 500.0 } else { 540.0 }, 0.001, 10));
    }
    let comparison = compare(&runs, &Options::default()).expect("pairs");
    let of = |i: usize| comparison.ratio(i, CASE).expect("a ratio");
    assert_eq!((of(1).verdict, of(2).verdict), (Verdict::Same, Verdict::Slower));
    assert!(comparison_table(&comparison).all_notes().iter().any(|n| n.contains("own speed differed")));
}

#[test]
fn different_devices_are_compared_by_utilisation_too() {
    let mut runs = [named("a", "cuda", "X", 100.0), named("b", "cuda", "Y", 150.0)];
    assert_eq!(comparison_table(&compare(&runs, &Options::default()).expect("pairs")).columns.len(), 5);
    for (NamedRun { run, .. }, utilisation) in runs.iter_mut().zip([0.5, 0.875]) {
        measured(run, CASE).analysis = Some(Analysis {
            intensity: 4.0,
            floor: Nanos(50.0),
            utilisation,
            peak_flops: None,
            peak_bandwidth: None,
            peak_link: None,
            bound: Bound::Memory,
        });
    }
    let table = comparison_table(&compare(&runs, &Options::default()).expect("pairs"));
    let titles: Vec<&str> = table.columns[5..].iter().map(|c| c.title.as_str()).collect();
    assert_eq!(titles, ["a: of ceiling", "b: of ceiling"]);
    assert_eq!(table.rows[0][5..], ["50.0 %", "87.5 %"].map(Cell::from));
    runs[1].run.devices[0].name = "X".to_owned();
    assert_eq!(comparison_table(&compare(&runs, &Options::default()).expect("pairs")).columns.len(), 5, "one device");
}

#[test]
fn errors_stand_beside_the_times_where_they_differ() {
    for (ulps, want) in [([0.3, 0.3], None), ([0.3, 0.31], None), ([0.3, 0.6], Some(["0.30 ulp", "0.60 ulp"]))] {
        let mut runs = [named("a", "cuda", "X", 100.0), named("b", "cuda", "X", 150.0)];
        for (NamedRun { run, .. }, rms_ulps) in runs.iter_mut().zip(ulps) {
            let errors = Errors { rms: 1e-3, rms_of_bound: rms_ulps / 10.0, worst_ulps: 1.0, rms_ulps };
            measured(run, CASE).check.errors = Some(errors);
        }
        let table = comparison_table(&compare(&runs, &Options::default()).expect("pairs"));
        let titles: Vec<&str> = table.columns[5..].iter().map(|c| c.title.as_str()).collect();
        assert_eq!(titles, if want.is_some() { vec!["a: RMS error", "b: RMS error"] } else { Vec::new() }, "{ulps:?}");
        let cells: Vec<Cell> = want.into_iter().flatten().map(Cell::from).collect();
        assert_eq!(table.rows[0][5..], cells, "{ulps:?}");
    }
}

#[test]
fn scores_are_paired_judged_and_gated_as_times_are() {
    let with = |name: &str, accuracy: f64, time: f64| {
        let mut run = named(name, "cuda", "X", time);
        measured(&mut run.run, CASE).scores = vec![score("accuracy", accuracy, Better::Higher)];
        run
    };
    let mut runs = [with("a", 0.9, 100.0), with("b", 0.8, 100.0)];
    let comparison = compare(&runs, &Options::default()).expect("pairs");
    let difference = comparison.scores[0].differences[1].as_ref().expect("a pair");
    assert_eq!((difference.verdict, comparison.scores[0].differences[0].as_ref()), (Change::Worse, None));
    let gate = |slower| Gate { slower: Some(slower), undecided: false };
    let (holds, lines) = comparison.gate(gate(0.05));
    assert!(!holds && lines[1].contains("worse by more than 5.00 %") && lines[1].contains("accuracy"), "{lines:?}");
    assert!(comparison.gate(gate(0.2)).0, "a tenth worse is not worse by a fifth");
    let text = serde_json::to_string(&comparison).expect("JSON");
    let older = text.replace("\"minimum_detectable_effect\":0.011", "\"detectable\":0.011");
    assert_ne!(text, older, "of the times");
    for text in [text, older] {
        let read: Comparison = serde_json::from_str(&text).expect("its own reader");
        assert_eq!(read.scores[0].differences[1].as_ref().map(|d| d.verdict), Some(Change::Worse));
        assert!(read.pairs[0].ratios[1].as_ref().is_some_and(|r| r.detectable.is_some()));
    }
    let table = parallax_report::compared_scores(&comparison).expect("scores").markdown();
    assert!(table.contains("accuracy") && table.contains("worse"), "{table}");
    // A run with scores only is compared by them. A score with the other direction of improvement is no pair.
    for NamedRun { run, .. } in &mut runs {
        measured(run, CASE).timing = None;
    }
    assert_eq!(compare(&runs, &Options::default()).expect("scores").pairs.len(), 0);
    measured(&mut runs[1].run, CASE).scores[0].better = Better::Lower;
    assert!(matches!(compare(&runs, &Options::default()), Err(CompareError::NothingInCommon { .. })));
}
