//! Formats of other services.

use serde_json::Value;

use crate::comparing::recorded;
use crate::{TINY, folder, mistake, parallax};

#[test]
fn reports_and_comparisons_come_in_the_formats_of_other_services() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    recorded(dir.path(), "b.json", "cuda", "X", 2.0);
    let text = |args: &[&str], code| {
        let output = parallax(dir.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let json = |format| -> Value {
        serde_json::from_str(&text(&["report", "a.json", "--format", format], 0)).expect("JSON and nothing else")
    };
    assert_eq!(json("bmf")[TINY]["latency"]["value"], 100.0);
    assert_eq!(json("customSmallerIsBetter")[0]["value"], 100.0);
    assert_eq!(json("pytorch")[0]["metric"]["benchmark_values"][0], 100.0);
    let shown = text(&["report", "a.json", "--format", "junit"], 0);
    assert!(shown.starts_with("<?xml") && shown.contains("failures=\"0\""), "{shown}");
    for (limit, code, failures) in [("5%", 1, "failures=\"1\""), ("150%", 0, "failures=\"0\"")] {
        let args = ["compare", "a.json", "b.json", "--format", "junit", "--fail-if-slower", limit];
        let shown = text(&args, code);
        assert!(shown.contains(failures) && shown.trim_end().ends_with("</testsuites>"), "{shown}");
    }
    let pair = ["compare", "a.json", "b.json", "--format"];
    for format in ["bmf", "customSmallerIsBetter", "pytorch"] {
        mistake(dir.path(), &[&pair[..], &[format]].concat(), &["no verdicts", "parallax report"]);
    }
    recorded(dir.path(), "c.json", "browser", "X", 2.0);
    let tax = ["compare", "a.json", "c.json", "--tax", "--format", "junit"];
    mistake(dir.path(), &tax, &["leave --tax and --by out"]);
}

#[test]
fn rows_and_samples_come_as_parquet_and_csv() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    recorded(dir.path(), "b.json", "cuda", "X", 2.0);
    let write = |args: &[&str]| {
        let output = parallax(dir.path(), &[args, &["--output", "out"]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(dir.path().join("out")).expect("a file")
    };
    for args in [
        &["report", "a.json", "--format", "parquet"][..],
        &["report", "a.json", "--samples", "--format", "parquet"],
        &["compare", "a.json", "b.json", "--format", "parquet"],
        &["history", "a.json", "b.json", "--format", "parquet"],
    ] {
        let bytes = write(args);
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{args:?}");
    }
    let samples = String::from_utf8(write(&["report", "a.json", "--samples", "--format", "csv"])).expect("UTF-8");
    assert!(samples.starts_with("case,run,target,device,started,sample,ns,host_ns\n") && samples.lines().count() > 6);
    mistake(dir.path(), &["report", "a.json", "--samples"], &["--samples gives rows", "parquet"]);
}
