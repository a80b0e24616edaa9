//! Histories of folders of run files.

use std::path::Path;

use parallax_schema::testing;

use crate::{folder, mistake, parallax};

const CASES: [&str; 2] = ["matmul/fwd/m512,n512,k512/f16/tiled", "copy/fwd/n16777216/f32/vec4"];

/// Number of runs.
const RUNS: u64 = 24;
/// First run after the step.
const STEP: u64 = 16;

/// Writes a run file per night. Times of the first case grow by 6 % with the step.
fn nightly(folder: &Path) {
    for night in 0..RUNS {
        let noise = 1.0 + 0.001 * ((night * 7) % 5) as f64;
        let step = if night >= STEP { 1.06 } else { 1.0 };
        let cases = [
            (CASES[0], testing::spread(1e5 * noise * step, 0.004, 12)),
            (CASES[1], testing::spread(2e5 * noise, 0.004, 12)),
        ];
        let mut run = testing::run("cuda", "NVIDIA H200", &cases);
        run.started = 1_700_000_000 + 86_400 * night;
        run.suite.commit = format!("c0ffee{night:02}");
        run.drift = testing::drift(&testing::spread(5e4 * noise, 0.002, 12));
        let month = folder.join(format!("month{}", night / 12));
        std::fs::create_dir_all(&month).expect("a folder");
        std::fs::write(month.join(format!("{night:02}.json")), serde_json::to_string(&run).expect("JSON"))
            .expect("a file");
    }
}

#[test]
fn a_folder_of_runs_gives_a_history_in_each_format() {
    let dir = folder();
    nightly(&dir.path().join("results"));
    let at = |name: &str| dir.path().join("results").join(name);
    std::fs::write(at("broken.json"), "{\"schema\": \"parallax.run\", \"version\": 3").expect("a file");
    std::fs::write(at("empty.json"), "").expect("a file");
    std::fs::copy(at("month0/03.json"), at("copy.json")).expect("a file");
    let run = testing::run("cuda", "NVIDIA H200", &[]);
    let trace = parallax_analysis::trace::text(&run, &parallax_workloads::Registry);
    for name in ["03.trace.json", "renamed.json"] {
        std::fs::write(at(name), &trace).expect("a file");
    }
    let output = |args: &[&str]| {
        let done = parallax(dir.path(), &[&["history"], args].concat());
        let [said, noted] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        (done.status.code(), said, noted)
    };
    let (code, said, noted) = output(&[]);
    assert_eq!((code, noted.as_str()), (Some(0), ""), "{said}");
    for part in [
        "24 runs from 2023-11-14 22:13:20Z to 2023-12-07 22:13:20Z",
        CASES[0],
        "] slower  kernel",
        "c0ffee16",
        "8 of 24",
        "2 series: 1 changed, 1 stable",
        "counted once: 1",
        "not read: results/broken.json: ",
        "not read: results/empty.json: ",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    assert!(!said.contains("trace") && !said.contains("renamed"), "{said}");
    for (args, parts) in [
        (&["results/**/*.json", "--markdown"][..], &["| case | on |", "| kernel | c0ffee16 |"][..]),
        (&["--json"], &["\"kind\":\"kernel\"", "\"commit\":\"c0ffee16\"", "\"duplicates\":1"]),
        (&["--format", "html"], &["<svg", "Stable series", "c0ffee16"]),
        (&["--filter", "copy"], &["1 series: 0 changed, 1 stable"]),
        (&["--resolution", "20%"], &["0 changed, 2 stable"]),
    ] {
        let (code, said, _) = output(args);
        assert_eq!(code, Some(0), "{args:?}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{args:?}: {part} is not in {said}"));
    }
    let (_, rows, _) = output(&["--format", "csv"]);
    assert_eq!(rows.lines().count() as u64, 1 + 2 * RUNS, "a row for each point");
    let (code, said, _) = output(&["--fail-if-changed"]);
    assert!(code == Some(1) && said.contains(&format!("slower: {} on nvidia-h200, cuda: 1.06", CASES[0])), "{said}");
    assert_eq!(output(&["--fail-if-changed", "--filter", "copy"]).0, Some(0));
    let (code, _, noted) = output(&["--fail-if-changed", "--json"]);
    assert!(code == Some(1) && noted.starts_with("slower: "), "{noted}");
}

#[test]
fn a_history_without_a_run_names_the_files() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("none")).expect("a folder");
    std::fs::write(dir.path().join("broken.json"), "{").expect("a file");
    std::fs::create_dir(dir.path().join("nights")).expect("a folder");
    nightly(&dir.path().join("nights"));
    for (args, parts) in [
        (&["none"][..], &["no run file in none", "parallax run"][..]),
        (&["absent"], &["cannot read absent", "no such file or folder"]),
        (&["absent/*.json"], &["no file matches `absent/*.json`"]),
        (&["a["], &["`a[` is no pattern"]),
        (&["broken.json"], &["no readable run in broken.json", "EOF"]),
        (&["nights", "--filter", "nothing"], &["no timed case of these runs matches filter `nothing`"]),
        (&["nights", "--resolution", "5"], &["--resolution `5`"]),
        (&["nights", "--format", "flamegraph"], &["has no history", "parallax report FILE --format"]),
        (&["nights", "--output", "nights/month0/00.json"], &["is an input file"]),
    ] {
        mistake(dir.path(), &[&["history"], args].concat(), parts);
    }
}
