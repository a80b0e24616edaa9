//! What is written keeps its form: JSON against its schema, tables and traces against files in `golden/`.
//!
//! `PARALLAX_BLESS=1 cargo test -p parallax-tests` rewrites the golden files and the published schema.

use std::path::PathBuf;

use parallax_core::compare::compare;
use parallax_core::mock::{Fault, Mock, Script, caps};
use parallax_core::plan::plan;
use parallax_core::profiler::Profiler;
use parallax_core::record::{ReadError, Run, SCHEMA, Suite, VERSION, json_schema};
use parallax_core::runner::{self, Event, Flow, Mode};
use parallax_core::spec::Spec;
use serde_json::Value;

/// A run of a few cases on the mock: right, selected, skipped; everything in it is the same every time.
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
    let skips = plan.skips.iter().map(|s| s.case.to_string());
    let mut run = Run {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        suite: Suite { version: "0.0.0".to_owned(), commit: "0000000".to_owned() },
        target: target.to_owned(),
        started: 1_700_000_000,
        device: mock.device().clone(),
        environment: Default::default(),
        clock: mock.clock().clone(),
        spec: spec.clone(),
        planned: skips.chain(plan.cases.iter().map(|p| p.case.to_string())).collect(),
        records: Vec::new(),
        interrupted: None,
    };
    pollster::block_on(runner::run(&plan, &spec, Mode::Measure, &mut mock, 0, |event| {
        if let Event::Finished(record) = event {
            run.records.push(record.clone());
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

fn golden(name: &str, got: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    same_as_file(&path, got);
}

fn same_as_file(path: &std::path::Path, got: &str) {
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable tree");
        std::fs::write(path, got).expect("writable tree");
        return;
    }
    let want = std::fs::read_to_string(path).unwrap_or_default();
    let name = path.display();
    assert!(want == got, "{name} differs; PARALLAX_BLESS=1 accepts the new text:\n{got}");
}

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schema/run.schema.json");
    same_as_file(&path, &(serde_json::to_string_pretty(&json_schema()).expect("JSON") + "\n"));
}

#[test]
fn a_run_survives_its_file_and_fits_the_schema() {
    let run = run("mock", steady);
    assert_eq!(run.missing().count(), 0);
    let text = serde_json::to_string(&run).expect("serialisable");
    assert_eq!(Run::parse(&text).expect("its own reader"), run);
    let validator = jsonschema::validator_for(&json_schema()).expect("a valid schema");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    let errors: Vec<String> = validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
    value["records"][0]["parts"]["dtype"] = "f8".into();
    assert!(!validator.is_valid(&value), "the schema must refuse what the reader refuses");
}

#[test]
fn recorded_results_fit_the_schema() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/results");
    let validator = jsonschema::validator_for(&json_schema()).expect("a valid schema");
    let mut seen = 0;
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("readable").path();
            let name = path.file_name().expect("named").to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".json") && !name.ends_with(".trace.json") {
                let text = std::fs::read_to_string(&path).expect("readable");
                Run::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let value = serde_json::from_str(&text).expect("JSON");
                assert!(validator.is_valid(&value), "{}", path.display());
                seen += 1;
            }
        }
    }
    println!("{seen} recorded runs");
}

#[test]
fn foreign_broken_and_newer_files_are_told_apart() {
    assert!(matches!(Run::parse("{"), Err(ReadError::Malformed(_))));
    assert!(matches!(Run::parse("[1]"), Err(ReadError::Schema(s)) if s == "absent"));
    assert!(matches!(Run::parse(r#"{"schema":"other.thing"}"#), Err(ReadError::Schema(s)) if s == "other.thing"));
    assert!(matches!(Run::parse(r#"{"schema":"parallax.run","version":99}"#), Err(ReadError::Newer(99))));
    assert!(matches!(Run::parse(r#"{"schema":"parallax.run","version":1}"#), Err(ReadError::Malformed(_))));
}

#[test]
fn tables_keep_their_form() {
    let base = run("mock", steady);
    golden("run.txt", &(parallax::table::run(&base) + "\n"));
    golden("verify.txt", &(parallax::table::checks(&base) + "\n"));
    let runs = [("one".to_owned(), base), ("two".to_owned(), run("mock", slower))];
    golden("compare.txt", &(parallax::table::comparison(&compare(&runs).expect("pairs")) + "\n"));
}

#[test]
fn traces_keep_their_form() {
    let trace = parallax_core::trace::chrome(&run("mock", steady));
    golden("trace.json", &(serde_json::to_string_pretty(&trace).expect("JSON") + "\n"));
    well_formed(&trace);
}

/// The rules by which Perfetto accepts a trace: on each thread, slices nest or follow each other; flows have both ends.
fn well_formed(trace: &Value) {
    let events = trace["traceEvents"].as_array().expect("events");
    let of = |phase: &str| events.iter().filter(move |e| e["ph"] == phase).collect::<Vec<_>>();
    for thread in [1, 2] {
        let mut slices: Vec<(f64, f64, &str)> = of("X")
            .into_iter()
            .filter(|e| e["tid"] == thread)
            .map(|e| {
                let (ts, dur) = (e["ts"].as_f64().expect("number"), e["dur"].as_f64().expect("number"));
                (ts, ts + dur, e["name"].as_str().expect("name"))
            })
            .collect();
        assert!(!slices.is_empty(), "thread {thread} is empty");
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<(f64, &str)> = Vec::new();
        for (start, end, name) in slices {
            open.retain(|(until, _)| *until > start + 1e-6);
            for (until, outer) in &open {
                assert!(end <= until + 1e-6, "{name} leaves {outer} on thread {thread}");
            }
            open.push((end, name));
        }
    }
    let ids = |phase: &str| of(phase).iter().map(|e| e["id"].clone()).collect::<Vec<_>>();
    assert!(!ids("s").is_empty());
    assert_eq!(ids("s"), ids("f"));
    assert!(!of("C").is_empty(), "memory counters");
    assert_eq!(of("M").len(), 3, "process and thread names");
}
