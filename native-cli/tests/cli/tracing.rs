//! Differences of traces.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::comparing::recorded;
use crate::{TINY, folder, mistake, parallax};

/// A trace with stages of one case: name, time in microseconds, executions.
fn trace(stages: &[(&str, f64, usize)]) -> String {
    let event = |(name, micros, count): &(&str, f64, usize)| {
        let event =
            format!(r#"{{"ph":"X","cat":"kernel","name":"{name}","ts":0,"dur":{micros},"args":{{"case":"{TINY}"}}}}"#);
        vec![event; *count].join(",")
    };
    format!(r#"{{"traceEvents":[{}]}}"#, stages.iter().map(event).collect::<Vec<_>>().join(","))
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn traces_are_compared_by_stage() {
    let dir = folder();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("writable");
    write("a.trace.json", trace(&[("one", 10.0, 9), ("two", 5.0, 9), ("old", 1.0, 9)]).as_bytes());
    write("b.trace.json.gz", &gzip(&trace(&[("one", 15.0, 9), ("two", 2.0, 9), ("new", 1.0, 3)])));
    let shown = |more: &[&str]| {
        let output = parallax(dir.path(), &[&["trace", "diff", "a.trace.json", "b.trace.json.gz"], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let text = shown(&[]);
    for part in
        ["A: a.trace.json", "+5.00 µs", "−3.00 µs", "of 4 stages: 1 slower, 1 faster, 0 undecided, 1 came, 1 went"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(shown(&["--format", "markdown"]).contains("| one | 10.0 µs | 15.0 µs | +5.00 µs |"));
    let json: Value = serde_json::from_str(&shown(&["--json"])).expect("JSON and nothing else");
    let first = &json["stages"][0];
    assert_eq!(
        (&json["b"], &first["stage"], &first["verdict"]),
        (&"b.trace.json.gz".into(), &"one".into(), &"slower".into())
    );
    assert_eq!((&first["growth"], &first["a"]["count"]), (&5000.0.into(), &9.into()));
    shown(&["--output", "diff.txt"]);
    assert!(std::fs::read_to_string(dir.path().join("diff.txt")).expect("a file").contains("slower"));
}

#[test]
fn a_recorded_trace_compared_with_itself_has_no_slower_stage() {
    let dir = folder();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/trace/cuda.trace.json");
    let path = path.to_str().expect("UTF-8");
    let output = parallax(dir.path(), &["trace", "diff", path, path, "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stages = json["stages"].as_array().expect("a list");
    assert!(stages.len() >= 3 && stages.iter().all(|stage| stage["verdict"] == "undecided"), "{stages:?}");
}

#[test]
fn a_file_that_is_no_trace_ends_in_one_line() {
    let dir = folder();
    recorded(dir.path(), "run.json", "cuda", "X", 1.0);
    let good = trace(&[("one", 1.0, 1)]);
    let packed = gzip(&good);
    for (name, bytes) in [
        ("good.json", good.as_bytes()),
        ("cut.json", &good.as_bytes()[..good.len() - 3]),
        ("cut.json.gz", &packed[..packed.len() - 9]),
        ("typed.json", good.replace("1,\"args\"", "\"1\",\"args\"").as_bytes()),
        ("empty.json", b""),
        ("none.json", b"{\"traceEvents\":[]}"),
    ] {
        std::fs::write(dir.path().join(name), bytes).expect("writable");
    }
    for (name, part) in [
        ("absent.json", "cannot read absent.json"),
        ("run.json", "no `traceEvents`"),
        ("cut.json", "EOF"),
        ("cut.json.gz", "cannot read cut.json.gz"),
        ("typed.json", "invalid type"),
        ("empty.json", "EOF"),
        ("none.json", "no kernel"),
        (".", "is a folder"),
    ] {
        mistake(dir.path(), &["trace", "diff", name, "good.json"], &[part]);
        mistake(dir.path(), &["trace", "diff", "good.json", name], &[part]);
    }
    mistake(dir.path(), &["trace", "diff", "good.json", "good.json", "--filter", "copy"], &["matches filter `copy`"]);
    mistake(dir.path(), &["trace", "diff", "good.json", "good.json", "--output", "good.json"], &["is an input file"]);
}
