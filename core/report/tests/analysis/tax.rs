//! Tests of comparisons through the tables that readers see.

use parallax_analysis::compare::tax::*;
use parallax_report::{tax_rows, tax_table};
use parallax_schema::device::{BrowserMode, Launch};
use parallax_schema::record::roofline::Ceilings;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Baseline, NamedRun, OneCall, Slope, TimerTest, WGSL_CHECKS, Waited};
use parallax_schema::testing::{measured, run};
use parallax_schema::units::Nanos;

const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";

/// Returns a run of one case with two launches and all parts of the call.
fn known(target: &str, device: &str, kernel: f64, dispatch: f64, completion: f64, readback: f64) -> NamedRun {
    let mut run = run(target, device, &[(CASE, vec![kernel; 9])]);
    measured(&mut run, CASE).launches = vec![Launch::default(); 2];
    let done = kernel + completion;
    measured(&mut run, CASE).call = Some(OneCall { done: vec![done; 9], result: vec![done + readback; 9] });
    let ceilings = Ceilings { dispatch: Some(Nanos(dispatch)), ..Ceilings::default() };
    run.baseline = Some(Baseline { clock: run.clock.clone(), timer: TimerTest::default(), ceilings });
    NamedRun::new(target, run)
}

#[test]
fn a_call_is_taken_apart_and_the_parts_add_up() {
    // The runs come in no particular order; the table begins with the one nearest to the hardware.
    let runs = [
        known("browser", "nvidia h200", 20_000.0, 3_000.0, 50_000.0, 90_000.0),
        known("cuda", "NVIDIA H200", 10_000.0, 1_000.0, 5_000.0, 10_000.0),
        known("wgpu", "NVIDIA H200", 14_000.0, 2_000.0, 20_000.0, 30_000.0),
    ];
    let found = tax(&runs, None, false, Pairing::Same).expect("one GPU");
    assert_eq!(found.runs.iter().map(|r| r.route.target.as_str()).collect::<Vec<_>>(), ["cuda", "wgpu", "browser"]);
    let rows = tax_rows(&found);
    assert_eq!(rows.len(), 3);
    assert_eq!((rows[2].dispatch_ns, rows[2].call_ns), (Some(6_000.0), Some(160_000.0)));
    assert_eq!((rows[1].kernel_ratio, rows[2].call_ratio), (Some(1.4), Some(6.4)));
    let mean = found.runs[2].kernel_ratio.expect("a case");
    assert!((mean - 2.0).abs() < 1e-12);
    // 160 - 25 = 135 = 80 + 45 + (14 - 8) + (6 - 2), each with its share.
    let want = "browser against cuda: one call takes 135 µs more: readback 80.0 µs more (59.3 %), completion 45.0 µs \
                more (33.3 %), kernel 6.00 µs more (4.44 %), dispatch 4.00 µs more (2.96 %)";
    assert_eq!(found.cases[0].words, want);
    let by_wgpu = tax(&runs, Some(2), false, Pairing::Same).expect("one GPU");
    assert_eq!(by_wgpu.runs[by_wgpu.base].route.target, "wgpu");
    assert!(by_wgpu.cases[0].words.starts_with("browser against wgpu"));
}

#[test]
fn bytes_that_are_there_before_the_device_is_done_are_told() {
    let early = known("browser", "NVIDIA H200", 20_000.0, 3_000.0, 90_000.0, -40_000.0);
    let near = known("cuda", "NVIDIA H200", 10_000.0, 1_000.0, 5_000.0, 10_000.0);
    let found = tax(&[near, early], None, false, Pairing::Same).expect("one GPU");
    let want = "browser: in 1 case the bytes arrived before the completion: there is no readback";
    let notes: Vec<&String> = found.notes.iter().filter(|note| note.contains("readback")).collect();
    assert_eq!(notes, [want]);
    let call = found.cases[0].calls[1].expect("measured");
    assert_eq!((call.completion, call.readback), (Some(Nanos(50_000.0)), Some(Nanos(0.0))));
    assert_eq!(call.whole(), Some(Nanos(70_000.0)));
}

#[test]
fn no_part_of_a_call_is_negative() {
    let short = known("browser", "NVIDIA H200", 20_000.0, 3_000.0, -5_000.0, 2_000.0);
    let near = known("cuda", "NVIDIA H200", 10_000.0, 1_000.0, 5_000.0, 10_000.0);
    let found = tax(&[near, short], None, false, Pairing::Same).expect("one GPU");
    let call = found.cases[0].calls[1].expect("measured");
    assert_eq!((call.completion, call.readback), (Some(Nanos(0.0)), Some(Nanos(2_000.0))));
    assert!(found.notes.iter().any(|note| note.contains("below the noise")), "{:?}", found.notes);
}

#[test]
fn what_a_browser_was_let_do_is_a_way_of_its_own() {
    let reached = |reach: Option<BrowserMode>, kernel: f64| {
        let NamedRun { name, mut run } = known("browser", "NVIDIA H200", kernel, 1_000.0, 5_000.0, 1_000.0);
        run.reach = reach;
        NamedRun::new(format!("{name}-{kernel}"), run)
    };
    let near = known("cuda", "NVIDIA H200", 10_000.0, 1_000.0, 5_000.0, 1_000.0);
    let (stock, further) = (reached(Some(BrowserMode::Stock), 30_000.0), reached(Some(BrowserMode::Unsafe), 11_000.0));
    let found = tax(&[stock.clone(), near.clone(), further], None, false, Pairing::Same).expect("one GPU");
    let ways: Vec<_> = found.runs.iter().map(|run| (run.route.target.as_str(), run.route.reach)).collect();
    assert_eq!(ways, [("cuda", None), ("browser", Some(BrowserMode::Unsafe)), ("browser", Some(BrowserMode::Stock))]);
    let shown = tax_table(&found);
    let labels: Vec<&str> = shown.rows.iter().map(|row| row[1].text.as_str()).collect();
    assert_eq!(labels, ["cuda", "browser-11000 (unsafe)", "browser-30000 (stock)"]);
    let twice = tax(&[stock.clone(), near, reached(Some(BrowserMode::Stock), 31_000.0)], None, false, Pairing::Same);
    assert_eq!(twice, Err(TaxError::Twice("browser (stock)".to_owned())));
}

#[test]
fn browsers_and_checks_have_columns_of_their_own() {
    let with = |target: &str, fact: Option<(&str, &str)>, reach: Option<BrowserMode>| {
        let NamedRun { name, mut run } = known(target, "NVIDIA H200", 10_000.0, 1_000.0, 5_000.0, 1_000.0);
        run.environment.extend(fact.map(|(key, value)| (key.to_owned(), value.to_owned())));
        run.reach = reach;
        NamedRun::new(name, run)
    };
    let [firefox, chromium] =
        ["Gecko/20100101 Firefox/153.0", "HeadlessChrome/156.0"].map(|it| Some(("user_agent", it)));
    let runs = [
        with("browser", firefox, Some(BrowserMode::Stock)),
        with("browser", chromium, Some(BrowserMode::Stock)),
        with("wgpu", Some((WGSL_CHECKS, "all")), None),
        with("browser", chromium, Some(BrowserMode::Unsafe)),
        with("wgpu", None, None),
        with("cuda", None, None),
    ];
    let found = tax(&runs, None, false, Pairing::Same).expect("one GPU");
    let rows: Vec<String> = tax_table(&found).rows.iter().map(|row| row[1].text.clone()).collect();
    let want =
        ["cuda", "wgpu", "wgpu (checks: all)", "browser (unsafe)", "browser (stock)", "browser (Firefox, stock)"];
    assert_eq!(rows, want);
    let twice = tax(&[runs[0].clone(), runs[0].clone()], None, false, Pairing::Same);
    assert_eq!(twice, Err(TaxError::Twice("browser (Firefox, stock)".to_owned())));
}

#[test]
fn runs_of_two_cards_are_no_tax_and_those_of_unknown_ones_say_so() {
    let at = |pci: Option<&str>, target: &str| {
        let mut named = known(target, "NVIDIA H200", 10_000.0, 1_000.0, 5_000.0, 1_000.0);
        named.run.devices[0].identity.pci = pci.map(str::to_owned);
        named
    };
    let (first, second) = (Some("0000:65:00.0"), Some("0000:66:00.0"));
    for same_gpu in [false, true] {
        let refused = tax(&[at(first, "cuda"), at(second, "wgpu")], None, same_gpu, Pairing::Same);
        let said = refused.expect_err("two cards").to_string();
        assert!(said.contains("0000:65:00.0") && said.contains("another card"), "{said}");
    }
    let sure = tax(&[at(first, "cuda"), at(first, "wgpu")], None, false, Pairing::Same).expect("one card");
    assert_eq!(sure.notes, Vec::<String>::new());
    let unsure = tax(&[at(first, "cuda"), at(None, "browser")], None, false, Pairing::Same).expect("one name");
    assert_eq!(unsure.notes, ["the device's name alone shows that browser ran on the same card as cuda"]);
}

#[test]
fn the_kernel_is_the_slope_and_the_intercept_is_no_call() {
    let mut one = known("cuda", "X", 10_000.0, 8_000.0, 5_000.0, 1_000.0);
    measured(&mut one.run, CASE).timing.as_mut().expect("timed").slope = Some(Slope {
        short: 1,
        execution: Nanos(9_000.0),
        low: Nanos(8_900.0),
        high: Nanos(9_100.0),
        fixed: Nanos(100.0),
        host_execution: Nanos(9_000.0),
        host_fixed: Nanos(7_000.0),
    });
    let two = known("wgpu", "X", 12_000.0, 1_000.0, 5_000.0, 1_000.0);
    let found = tax(&[one, two], None, false, Pairing::Same).expect("one GPU");
    let call = found.cases[0].calls[0].expect("timed");
    assert_eq!((call.kernel, call.completion), (Nanos(9_000.0), Some(Nanos(6_000.0))), "of a call of 15 µs");
    assert_eq!(call.whole(), Some(Nanos(16_000.0)));
    assert_eq!(call.dispatch, Some(Nanos(9_000.0)), "two launches at 8 µs are no more than the kernel time");
}

#[test]
fn runs_without_a_baseline_still_show_kernels() {
    let runs = ["cuda", "wgpu"].map(|target| NamedRun::new(target, run(target, "X", &[(CASE, vec![100.0; 9])])));
    let found = tax(&runs, None, false, Pairing::Same).expect("one GPU");
    assert_eq!(found.cases[0].calls[1].expect("timed").whole(), None);
    assert!(found.cases[0].words.ends_with("not measured: dispatch, completion, readback"), "{:?}", found.cases[0]);
    assert!(tax_table(&found).rows[1].contains(&"–".into()));
    let none =
        |name: &str| found.notes.iter().any(|note| note.starts_with(&format!("{name} has batches and no calls")));
    assert!(none("cuda") && none("wgpu"), "{:?}", found.notes);
}

#[test]
fn a_step_in_waiting_is_told_beside_the_calls() {
    let near = known("cuda", "X", 10_000.0, 1_000.0, 5_000.0, 1_000.0);
    let mut far = known("browser", "X", 12_000.0, 1_000.0, 2.4e6, -1_000.0);
    let waited = |device, done| Waited { device: Nanos(device), done: Summary::of(&[done; 9]).expect("samples") };
    let waits = vec![waited(0.0, 1.2e5), waited(6e4, 2.5e6)];
    far.run.baseline.as_mut().expect("known").timer.waits = waits;
    let found = tax(&[near, far], None, false, Pairing::Same).expect("one GPU");
    assert!(found.notes.iter().any(|note| note.contains("only after 2.50 ms")), "{:?}", found.notes);
    assert_eq!(found.cases[0].calls[1].expect("timed").whole(), Some(Nanos(2.411e6)), "a part may be negative");
}

#[test]
fn best_with_best_says_which_variants_they_are() {
    let case = |variant| format!("attention/fwd/b1,h1,s4,d2/f16/{variant}");
    let (flash, mma) = (case("flash"), case("flash_mma"));
    let near = run("cuda", "X", &[(&flash, vec![400.0; 9]), (&mma, vec![100.0; 9])]);
    let far = run("wgpu", "X", &[(&flash, vec![600.0; 9])]);
    let mut runs = [NamedRun::new("cuda", near), NamedRun::new("wgpu", far)];
    runs[0].run.devices[0].caps.dialect = parallax_schema::device::Dialect::Cuda;
    runs.iter_mut().for_each(|named| named.run.devices[0].identity.pci = Some("0000:65:00.0".to_owned()));
    let like = tax(&runs, None, false, Pairing::Same).expect("one GPU");
    let ratio = |found: &Tax| found.runs[1].kernel_ratio.expect("a case");
    assert_eq!((like.cases.len(), &like.cases[0].case, ratio(&like).round()), (1, &flash, 2.0));
    let best = tax(&runs, None, false, Pairing::Best).expect("one GPU");
    assert_eq!((best.cases.len(), ratio(&best).round()), (1, 6.0));
    assert_eq!(best.cases[0].variants, [Some("flash_mma".to_owned()), Some("flash".to_owned())]);
    let shown = tax_table(&best);
    assert!(shown.rows[0][1].text.contains("flash_mma") && shown.notes[0].contains("best with best"), "{shown:?}");
    assert!(tax_table(&like).notes[0].contains("like with like"));
    assert!(like.notes.iter().chain(&best.notes).all(|n| n.contains("no calls")), "these files know the new names");

    // A file from before the split.
    runs[0].run.version = 2;
    let like = tax(&runs, None, false, Pairing::Same).expect("one GPU");
    assert!(like.notes.iter().any(|n| n.contains("flash_mma, on tensor cores")), "{:?}", like.notes);
    assert!(tax_table(&like).notes.contains(&like.notes[0]));
    let compared = parallax_analysis::compare::compare(&runs, &Default::default()).expect("a pair");
    assert!(compared.notes.iter().all(|note| like.notes.contains(note)), "{:?}", compared.notes);
    assert!(parallax_report::comparison_table(&compared).notes.contains(&like.notes[0]));
}

#[test]
fn other_gpus_are_refused_unless_asserted() {
    let runs =
        [known("cuda", "NVIDIA H200", 1.0, 1.0, 1.0, 1.0), known("browser", "nvidia hopper", 1.0, 1.0, 1.0, 1.0)];
    let error = tax(&runs, None, false, Pairing::Same).expect_err("the names differ").to_string();
    assert!(error.contains("--same-gpu") && error.contains("nvidia hopper"), "{error}");
    assert!(tax(&runs, None, true, Pairing::Same).is_ok());
    let twice = [runs[0].clone(), runs[0].clone()];
    assert_eq!(tax(&twice, None, false, Pairing::Same), Err(TaxError::Twice("cuda".to_owned())));
    assert_eq!(tax(&runs[..1], None, false, Pairing::Same), Err(TaxError::TooFew(1)));
}
