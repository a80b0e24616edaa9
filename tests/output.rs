//! Written output keeps its format: JSON against its schema, tables and traces against the snapshots in `snapshots/`.
//!
//! `./x bless` accepts new snapshots and a new schema; `cargo insta review` goes through snapshots one by one.

use std::path::PathBuf;

use insta::assert_snapshot;
use parallax::console::Painted;
use parallax::table;
use parallax_analysis::compare::{Options, compare};
use parallax_engine::coverage::coverage;
use parallax_engine::measure::runner;
use parallax_engine::measure::runner::Flow;
use parallax_engine::plan::plan;
use parallax_report::{a_a_table, compared_runs, comparison_table, tax_table};
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{
    Event, NamedRun, Outcome, ReadError, Record, Run, SCHEMA_ID, SCHEMA_PATH, StopReason, Suite, VERSION, json_schema,
};
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;
use parallax_schema::testing::caps;
use parallax_testing::mock::{Fault, Mock, Script};
use parallax_workloads::Registry;
use serde_json::Value;

#[path = "../core/engine/tests/suite/published/mod.rs"]
pub mod published;
#[path = "../core/engine/tests/suite/rules/mod.rs"]
mod rules;

/// A run of a few cases on the mock: right, selected, skipped. Its contents are the same every time.
fn run(target: &str, time: Script) -> Run {
    let spec = Spec::from_pairs([
        ("case", "attention/fwd/b1,h2,s7,d5,causal/f32/flash"),
        ("case", "attention/fwd/b1,h2,s7,d5,causal/f16/manual"),
        ("case", "hash_embedding/fwd/r20,g3,d7,sorted/f32/auto"),
        ("case", "hash_embedding/fwd/r20,g3,d7,unsorted/f32/basic"),
        ("case", "depthwise_conv2d/fwd/n1,c2,h5,k3,p1,nhwc/bf16/tiled"),
    ])
    .expect("valid");
    let plan = plan(&spec, &caps()).expect("cases");
    let mut mock = Mock::new(time, Fault::None);
    let suite = Suite { version: "0.0.0".to_owned(), commit: "0000000".to_owned() };
    let mut run = Run { started: 1_700_000_000, ..plan.begin(target, suite, &mock, &spec) };
    pollster::block_on(runner::run(&plan, &spec, Mode::Measure, &mut mock, &Default::default(), |event| {
        // Results of the cases, without the course of the run.
        if matches!(event, Event::Record { .. }) {
            run.apply(event);
        }
        Flow::Continue
    }));
    run
}

fn steady(i: u64) -> f64 {
    1e5 + (i % 7) as f64 * 100.0
}

fn slower(i: u64) -> f64 {
    1.5 * steady(i)
}

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schema/run.schema.json");
    published::assert_is(&path, &(serde_json::to_string_pretty(&json_schema()).expect("JSON") + "\n"));
    assert!(SCHEMA_ID.ends_with(SCHEMA_PATH) && SCHEMA_PATH.contains(&format!(".v{VERSION}.")), "{SCHEMA_ID}");
}

#[test]
fn the_table_of_what_there_is_is_true() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/coverage.md");
    published::assert_is(&path, &coverage());
}

#[test]
fn a_run_survives_its_file_and_fits_the_schema() {
    let run = run("mock", steady);
    assert_eq!(run.missing().count(), 0);
    let text = serde_json::to_string(&run).expect("serialisable");
    let read = Run::parse(&text).expect("its own reader");
    assert_eq!(serde_json::to_string(&read).expect("serialisable"), text);
    // Samples are rounded when they are taken, so figures derived from them are the same before and after.
    for (old, new) in run.records.iter().zip(&read.records) {
        let figures =
            |r: &Record| r.timing().map(|t| (t.samples.clone(), t.host_samples.clone(), Summary::of(&t.samples)));
        assert_eq!(figures(old), figures(new), "{}", old.case);
    }
    let validator = jsonschema::validator_for(&json_schema()).expect("a valid schema");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    let errors: Vec<String> = validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
    value["records"][0]["parts"]["dtype"] = "f8".into();
    assert!(!validator.is_valid(&value), "the schema and the reader must refuse the same files");
}

/// Every run file in `docs/results`.
fn recorded() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/results")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the recorded results") {
            let path = entry.expect("readable").path();
            let name = path.file_name().expect("named").to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".json") && !name.ends_with(".trace.json") && name != "peers.json" {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 10, "{found:?}");
    found
}

/// Names of the device classes, under which a tuning would be stored.
#[test]
fn recorded_devices_have_a_class() {
    let mut seen = std::collections::BTreeSet::new();
    for path in recorded() {
        let Ok(run) = Run::parse(&std::fs::read_to_string(&path).expect("readable")) else { continue };
        let class = run.device().class();
        match run.target.as_str() {
            "browser" => assert_eq!(class, "browser", "{}", path.display()),
            _ => assert!(
                ["nvidia-h200", "2-nvidia-h200", "nvidia-h100-80gb-hbm3", "llvmpipe", "amd-epyc"]
                    .contains(&class.as_str()),
                "{}: {class}",
                path.display()
            ),
        }
        seen.insert(class);
    }
    assert!(seen.contains("browser") && seen.contains("nvidia-h200"), "{seen:?}");
}

/// Runs of every version load. Written again, they are shorter, fit the current schema, and have the same contents.
#[test]
fn recorded_results_load_and_are_written_shorter() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
    let older: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("run.v2.schema.json")).expect("readable"))
            .expect("JSON");
    let older = jsonschema::validator_for(&older).expect("a valid schema");
    let newest = jsonschema::validator_for(&json_schema()).expect("a valid schema");
    let mut cases = 0;
    for path in recorded() {
        let name = path.display();
        let text = std::fs::read_to_string(&path).expect("readable");
        let run = Run::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert!(if run.version < 3 { &older } else { &newest }.is_valid(&value), "{name}");

        let again = serde_json::to_string(&run).expect("serialisable");
        let value: Value = serde_json::from_str(&again).expect("JSON");
        let errors: Vec<String> = newest.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let read = Run::parse(&again).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((read.records.len(), read.version), (run.records.len(), 3), "{name}");
        for (old, new) in run.records.iter().zip(&read.records) {
            assert_eq!(old.verdict(), new.verdict(), "{name}");
            let (Some(old), Some(new)) = (old.timing(), new.timing()) else { continue };
            cases += 1;
            let ends = |s: Summary| [s.median.0, s.low.0, s.high.0, s.q1.0, s.q3.0, s.min.0, s.max.0];
            let derived = Summary::of(&new.samples).expect("samples");
            for (old, new) in ends(old.summary).into_iter().zip(ends(derived)) {
                assert!((old - new).abs() <= 1e-6 * old, "{name}: {old} {new}");
            }
            assert_eq!(old.conditions.len(), new.conditions.len(), "{name}");
            assert_eq!(old.discarded.len(), new.discarded.len(), "{name}");
        }
        let spans = |run: &Run| -> usize {
            run.records.iter().filter_map(|r| Some(r.measured()?.trace.as_ref()?.spans.len())).sum()
        };
        assert_eq!((run.drift.len(), spans(&run)), (read.drift.len(), spans(&read)), "{name}");
        assert_eq!(serde_json::to_string(&read).expect("serialisable"), again, "{name}: it does not change any more");
        println!("{name}: {} bytes become {}", text.len(), again.len());
        if run.version < 3 {
            assert!(again.len() < text.len(), "{name}: {} bytes become {}", text.len(), again.len());
        }
        if path.ends_with("2026-11-21-h200/wgpu.json") || path.ends_with("2026-11-21-h200/cuda.json") {
            assert!(again.len() < 1_000_000, "{name}: {} bytes", again.len());
        }
    }
    assert!(cases > 100, "{cases} timed cases");
}

#[test]
fn foreign_broken_and_newer_files_are_told_apart() {
    assert!(matches!(Run::parse("{"), Err(ReadError::Malformed(_))));
    assert!(matches!(Run::parse("[1]"), Err(ReadError::NoSchema)));
    assert!(matches!(Run::parse(r#"{"schema":"other.thing"}"#), Err(ReadError::Schema(s)) if s == "other.thing"));
    assert!(matches!(Run::parse(r#"{"schema":"parallax.run","version":99}"#), Err(ReadError::Newer(99))));
    assert!(matches!(Run::parse(r#"{"schema":"parallax.run","version":1}"#), Err(ReadError::Malformed(_))));
}

/// Checks a table at the widths of terminals.
fn at_each_width(name: &str, table: impl Fn(usize) -> Painted) {
    for width in [60, 80, 120] {
        assert_snapshot!(format!("{name}.{width}.txt"), table(width).plain());
    }
}

#[test]
fn tables_keep_their_form() {
    let base = run("mock", steady);
    at_each_width("run", |width| table::run(&base, width));
    at_each_width("verify", |width| table::checks(&base, width));
    assert_snapshot!("run.md", parallax_report::table(&Registry, &base).markdown());
    let runs = [NamedRun::new("one", base), NamedRun::new("two", run("mock", slower))];
    at_each_width("compared_runs", |width| table::text(&compared_runs(&runs), width));
    let compared = comparison_table(&compare(&runs, &Options::default()).expect("pairs"));
    at_each_width("compare", |width| table::text(&compared, width));
    assert_snapshot!("compare.md", compared.markdown());
}

#[test]
fn every_table_of_a_run_says_why_it_ended_early() {
    let mut run = run("mock", steady);
    let last = run.records.pop().expect("cases").case;
    run.interrupted = Some("the browser ended".to_owned());
    let want = format!("ended early: the browser ended; not reached: {last}");
    for said in [table::run(&run, 400), table::checks(&run, 400)] {
        assert!(said.plain().contains(&want), "{}", said.plain());
    }
}

#[test]
fn tables_of_targets_and_of_a_machine_against_itself_keep_their_form() {
    let runs = [("wgpu", slower as Script), ("cuda", steady)].map(|(t, time)| NamedRun::new(t, run(t, time)));
    let tax = tax_table(
        &parallax_analysis::compare::tax::tax(&runs, None, false, parallax_analysis::compare::tax::Pairing::Same)
            .expect("one GPU"),
    );
    at_each_width("tax", |width| table::text(&tax, width));
    assert_snapshot!("tax.md", tax.markdown());
    let aa = a_a_table(&parallax_analysis::compare::aa::a_a(&[
        run("mock", steady),
        run("mock", steady),
        run("mock", slower),
    ]));
    at_each_width("aa", |width| table::text(&aa, width));
    assert_snapshot!("aa.md", aa.markdown());
}

/// Competing variants, imprecise figures, and a pair that a coarse clock cannot distinguish.
#[test]
fn what_is_not_plain_is_marked_and_summed_up() {
    let of = |flash: f64, clock_error: f64| {
        let base = run("mock", steady);
        let known = base.records.iter().find(|r| r.case.ends_with("causal/f32/flash")).expect("it ran");
        let record = |(variant, median, width): (&str, f64, f64)| {
            let mut record = known.clone();
            record.case = known.case.replace("flash", variant);
            record.parts.variant = variant.to_owned();
            let Outcome::Pass(measured) = &mut record.outcome else { panic!("{} passed", known.case) };
            let timing = measured.timing.as_mut().expect("timed");
            // Unsorted and evenly spread.
            timing.samples = (0..40).map(|i| median * (1.0 + width * (f64::from(i * 7 % 40) / 20.0 - 1.0))).collect();
            timing.summary = Summary::of(&timing.samples).expect("samples");
            timing.clock_error = clock_error;
            timing.stopped = StopReason::Budget;
            record
        };
        let variants =
            [("naive", 4e5, 0.002), ("flash", flash, 0.002), ("manual", 1.6e5, 0.06), ("vendor", 9.99e4, 0.002)];
        let records: Vec<Record> = variants.into_iter().map(record).collect();
        Run { planned: records.iter().map(|r| r.case.clone()).collect(), records, ..base }
    };
    let runs = [NamedRun::new("before", of(1e5, 0.0)), NamedRun::new("after", of(1.03e5, 0.04))];
    at_each_width("summary", |width| table::run(&runs[0].run, width));
    let compared = comparison_table(&compare(&runs, &Options::default()).expect("pairs"));
    at_each_width("footnotes", |width| table::text(&compared, width));
}

/// Every recorded table fits, and every case remains legible.
#[test]
fn tables_of_recorded_results_fit_the_terminal() {
    for path in recorded() {
        let Ok(run) = Run::parse(&std::fs::read_to_string(&path).expect("readable")) else { continue };
        for room in [40, 60, 80, 120] {
            let shown = table::run(&run, room).plain();
            let name = format!("{} in {room} columns", path.display());
            for line in shown.lines() {
                assert!(line.chars().count() <= room, "{name}: {line}");
                assert_eq!(line, line.trim_end(), "{name}");
            }
            // The first column alone: everything before the first gap.
            let rows = shown.lines().skip_while(|line| !line.starts_with('─'));
            let bare: String = rows.filter_map(|line| line.trim_start().split("  ").next()).collect();
            for record in run.records.iter().filter(|r| parallax_report::has_row(r)) {
                let (problem, _) = record.case.rsplit_once('/').expect("a variant");
                assert!(bare.contains(problem), "{name}: {problem} is not in {bare}");
            }
        }
    }
}

#[test]
fn traces_keep_their_form() {
    let run = run("mock", steady);
    let text = parallax_analysis::trace::text(&run, &Registry);
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    assert_snapshot!("trace.json", serde_json::to_string_pretty(&trace).expect("JSON"));
    let traced = run.records.iter().filter(|r| r.measured().is_some()).count();
    assert_eq!(rules::slices_nest(&trace), 2, "host and device");
    assert_eq!(rules::analysable(&text), traced, "the mock has one kernel in each execution");
    assert_eq!(rules::arrows_have_both_ends(&trace), traced);
}
