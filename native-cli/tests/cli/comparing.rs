//! Comparisons, gates and reports of recorded runs.

use std::path::Path;

use parallax_schema::record::stats::Summary;
use parallax_schema::testing;

use crate::{TINY, folder, mistake, parallax};

#[test]
fn runs_with_nothing_in_common_cannot_be_compared() {
    let dir = folder();
    for (out, case) in [("a", TINY), ("b", "attention/fwd/b1,h1,s4,d2/f32/host")] {
        let output = parallax(dir.path(), &["run", "--target", "cpu", "--case", case, "--budget", "1", "--out", out]);
        assert!(output.status.success());
    }
    let file = |out: &str| run_in(&dir.path().join(out));
    mistake(dir.path(), &["compare", &file("a"), &file("b")], &["no timed case and no score in common", "--preset"]);
    mistake(dir.path(), &["compare", &file("a")], &["at least two runs"]);
}

/// The run file in a folder that has one.
pub fn run_in(folder: &Path) -> String {
    let mut entries = std::fs::read_dir(folder).expect("the folder");
    let is_run = |p: &std::path::PathBuf| !p.to_string_lossy().ends_with(".trace.json");
    entries.find_map(|e| Some(e.expect("readable").path()).filter(is_run)).expect("a run").display().to_string()
}

#[test]
fn devices_stand_at_the_heads_of_columns_under_the_names_that_they_were_given() {
    let dir = folder();
    for (out, name) in [("a", " Ann's\tlaptop"), ("b", "Bob's")] {
        let args = ["run", "--target", "cpu", "--case", TINY, "--budget", "1", "--out", out, "--name", name];
        assert!(parallax(dir.path(), &args).status.success());
    }
    let [ann, bob] = ["a", "b"].map(|out| run_in(&dir.path().join(out)));
    let told = |args: &[&str]| {
        let output = parallax(dir.path(), &[&["compare", "--markdown"], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = told(&[&ann, &bob]);
    assert!(said.starts_with("| case | Ann's laptop | Bob's | Bob's ÷ Ann's laptop |"), "{said}");
    let said = told(&[&ann, &bob, "--base", "Bob's"]);
    assert!(said.contains("| Ann's laptop ÷ Bob's |"), "{said}");
    // Devices by their own names; of one device the targets; and a file is a name for --base all the same.
    recorded(dir.path(), "x.json", "cuda", "X", 1.0);
    recorded(dir.path(), "y.json", "cuda", "Y", 1.0);
    recorded(dir.path(), "far.json", "browser", "X", 1.0);
    assert!(told(&["x.json", "y.json"]).contains("| Y ÷ X |"));
    assert!(told(&["x.json", "y.json", "--base", "y"]).contains("| X ÷ Y |"));
    assert!(told(&["x.json", "far.json"]).contains("| browser ÷ cuda |"));
}

/// Writes a run of one case whose times are multiplied by `factor`, and returns the file's name.
pub fn recorded(folder: &Path, name: &str, target: &str, device: &str, factor: f64) -> String {
    let samples = (0..9).map(|i| factor * (99.9 + 0.1 * f64::from(i % 3))).collect();
    let run = testing::run(target, device, &[(TINY, samples)]);
    std::fs::write(folder.join(name), serde_json::to_string(&run).expect("JSON")).expect("writable");
    name.to_owned()
}

#[test]
fn a_gate_fails_on_what_is_surely_slower() {
    let dir = folder();
    for (name, factor) in [("base.json", 1.0), ("slow.json", 1.1), ("same.json", 1.003), ("fast.json", 0.5)] {
        recorded(dir.path(), name, "cpu", "X", factor);
    }
    for (other, limit, code, part) in [
        ("slow.json", "5%", 1, "slower by more than 5.00 %"),
        ("slow.json", "0.05", 1, TINY),
        ("slow.json", "20%", 0, "no case is slower by more than 20.0 %"),
        ("same.json", "0", 0, "no case is slower"),
        ("fast.json", "5%", 0, "no case is slower"),
    ] {
        let args = ["compare", "base.json", other, "--fail-if-slower", limit];
        let output = parallax(dir.path(), &args);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said} lacks {part}");
    }
    // From the other side, the slow run is the base.
    for base in ["slow", "2"] {
        let args = ["compare", "base.json", "slow.json", "--base", base, "--fail-if-slower", "5%", "--json"];
        let output = parallax(dir.path(), &args);
        assert!(output.status.success(), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no case is slower"), "stdout is for machines");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
        assert_eq!((&json["base"], &json["pairs"][0]["ratios"][0]["verdict"]), (&1.into(), &"faster".into()));
    }
    let files = ["compare", "base.json", "slow.json"];
    for (more, parts) in [
        (&["--fail-if-slower", "5"][..], &["--fail-if-slower `5`", "5%"][..]),
        (&["--fail-if-slower", "much"], &["`much`", "0.05"]),
        (&["--resolution", "-1%"], &["--resolution `-1%`"]),
        (&["--base", "third"], &["no run `third`", "base, slow"]),
        (&["--output", "no/such/folder/x"], &["cannot write no/such/folder/x"]),
    ] {
        mistake(dir.path(), &[&files[..], more].concat(), parts);
    }
}

#[test]
fn a_gate_fails_on_what_failed_vanished_or_is_open() {
    let dir = folder();
    recorded(dir.path(), "base.json", "cpu", "X", 1.0);
    let text = std::fs::read_to_string(dir.path().join("base.json")).expect("readable");
    let whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let write = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut run = whole.clone();
        change(&mut run);
        std::fs::write(dir.path().join(name), run.to_string()).expect("writable");
    };
    let other = "attention/fwd/b1,h1,s4,d2/f32/host";
    write("two.json", &|run| {
        let mut record = run["records"][0].clone();
        record["case"] = other.into();
        run["records"].as_array_mut().expect("a list").push(record);
    });
    write("failed.json", &|run| {
        let mut record = run["records"][0].clone();
        let object = record.as_object_mut().expect("an object");
        object.retain(|key, _| ["case", "actual", "cost", "parts"].contains(&key.as_str()));
        object.insert("outcome".to_owned(), "error".into());
        object.insert("reason".to_owned(), "the device was lost".into());
        object.insert("case".to_owned(), other.into());
        run["records"].as_array_mut().expect("a list").push(record);
    });
    // With fewer than six samples nothing can be said.
    write("few.json", &|run| {
        let timing = &mut run["records"][0]["timing"];
        for samples in ["samples", "host_samples"] {
            timing[samples].as_array_mut().expect("a list").truncate(3);
        }
        timing["summary"] = serde_json::json!(Summary::of(&[99.9, 100.0, 100.1]));
    });
    let slower = ["--fail-if-slower", "5%"];
    for (files, flags, code, parts) in [
        (["two.json", "two.json"], &slower[..], 0, &["no case is slower by more than 5.00 %"][..]),
        (
            ["two.json", "base.json"],
            &slower,
            1,
            &["lost: base ", other, "missing", "of the remaining cases none is slower"],
        ),
        (["two.json", "failed.json"], &slower, 1, &["lost: failed ", other, "error: the device was lost"]),
        (["base.json", "few.json"], &slower, 0, &["1 undecided"]),
        (["base.json", "few.json"], &["--fail-if-undecided"], 1, &["undecided: few ", TINY]),
        (["two.json", "base.json"], &["--fail-if-undecided"], 1, &["lost: base "]),
        (["base.json", "two.json"], &["--fail-if-undecided"], 0, &[]),
        (["two.json", "base.json"], &[], 0, &[]),
    ] {
        let args = [&["compare"], &files[..], flags].concat();
        let output = parallax(dir.path(), &args);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        for part in parts {
            assert!(said.contains(part), "{args:?}: {said} lacks {part}");
        }
    }
}

#[test]
fn comparisons_and_reports_come_in_every_format() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    recorded(dir.path(), "b.json", "browser", "X", 2.0);
    recorded(dir.path(), "c.json", "wgpu", "Y", 2.0);
    for (format, compared, reported) in [
        ("text", "2.000× [1.996, 2.004] slower", "1 pass"),
        ("markdown", "| --- |", "| --- |"),
        ("csv", ",slower,", "case,workload,"),
        ("json", "\"verdict\":\"slower\"", "\"median_ns\":200.0"),
        ("html", "<svg", "<svg"),
    ] {
        for (args, part) in [(&["compare", "a.json", "b.json"][..], compared), (&["report", "b.json"], reported)] {
            let shown = parallax(dir.path(), &[args, &["--format", format]].concat());
            let text = String::from_utf8_lossy(&shown.stdout).into_owned();
            assert!(shown.status.success() && text.contains(part), "{args:?} {format}: {text} lacks {part}");
            let written = parallax(dir.path(), &[args, &["--format", format, "--output", "out"]].concat());
            assert!(written.status.success() && written.stdout.is_empty());
            assert_eq!(std::fs::read_to_string(dir.path().join("out")).expect("a file"), text, "the same in a file");
        }
    }
    let tax = parallax(dir.path(), &["compare", "b.json", "a.json", "--tax"]);
    let said = String::from_utf8_lossy(&tax.stdout);
    assert!(tax.status.success() && said.starts_with("In the browser, the same kernel takes 2.00×"), "{said}");
    assert!(!said.contains("browser against cuda"), "{said}");
    let tax = parallax(dir.path(), &["compare", "b.json", "a.json", "--tax", "--all"]);
    let said = String::from_utf8_lossy(&tax.stdout);
    assert!(tax.status.success() && said.contains("browser against cuda"), "{said}");
    mistake(dir.path(), &["compare", "a.json", "c.json", "--tax"], &["cuda ran on `X` and wgpu on `Y`", "--same-gpu"]);
    assert!(parallax(dir.path(), &["compare", "a.json", "c.json", "--tax", "--same-gpu"]).status.success());
}

#[test]
fn a_file_with_impossible_numbers_is_refused_by_name() {
    let dir = folder();
    recorded(dir.path(), "good.json", "cpu", "X", 1.0);
    let text = std::fs::read_to_string(dir.path().join("good.json")).expect("readable");
    for (pointer, value, part) in [
        ("/version", serde_json::json!(0), "`version` is 0"),
        ("/records/0/timing/samples", serde_json::json!([]), "`timing.samples` is empty"),
        ("/records/0/timing/samples", serde_json::json!(vec![-1e308; 9]), "`timing.samples[0]` is -1e308"),
        ("/records/0/timing/samples", serde_json::json!(vec![1e308; 9]), "`timing.samples[0]` is 1e308"),
        ("/records/0/timing/samples", serde_json::json!(vec![5e-324; 9]), "`timing.samples[0]` is 5e-324"),
        ("/records/0/timing/summary/median", serde_json::json!(50.0), "`timing.summary.median` is 50"),
    ] {
        let mut run: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        *run.pointer_mut(pointer).expect("there") = value;
        std::fs::write(dir.path().join("bad.json"), run.to_string()).expect("writable");
        mistake(dir.path(), &["compare", "good.json", "bad.json", "--format", "html"], &["bad.json", part]);
        mistake(dir.path(), &["report", "bad.json", "--format", "html"], &["bad.json", part]);
    }
}

#[test]
fn a_run_may_come_from_standard_input() {
    let dir = folder();
    let old = recorded(dir.path(), "old.json", "cpu", "a device", 1.0);
    let new = recorded(dir.path(), "new.json", "cpu", "a device", 2.0);
    let piped = |args: &[&str]| {
        let input = std::fs::File::open(dir.path().join(&new)).expect("a file");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_parallax"));
        let output = command.args(args).current_dir(dir.path()).stdin(input).output().expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(piped(&["report", "-", "--format", "csv"]), piped(&["report", &new, "--format", "csv"]));
    let compared = String::from_utf8(piped(&["compare", &old, "-"])).expect("UTF-8");
    assert!(compared.contains("slower"), "{compared}");
    mistake(dir.path(), &["compare", "-", "-"], &["standard input (`-`) can be read only once"]);
}

/// Sets when a file was written, so that the newest is known.
fn written(folder: &Path, name: &str, seconds: u64) {
    let file = std::fs::File::options().write(true).open(folder.join(name)).expect("a file");
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).expect("a time");
}

#[test]
fn the_newest_runs_and_those_kept_under_a_name_need_no_path() {
    let dir = folder();
    let results = dir.path().join("results");
    let said = |args: &[&str]| {
        let output = parallax(dir.path(), args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    mistake(dir.path(), &["compare"], &["there are 0 runs in results", "--out"]);
    std::fs::create_dir(&results).expect("writable");
    for (age, (name, factor)) in [("old.json", 3.0), ("base.json", 1.0), ("new.json", 1.1)].into_iter().enumerate() {
        recorded(&results, name, "cpu", "X", factor);
        written(&results, name, 1_000_000 + age as u64);
    }
    std::fs::write(results.join("new.trace.json"), "[]").expect("writable");
    let (code, shown, told) = said(&["compare"]);
    assert!(code == Some(0) && shown.contains("1.100×") && told.contains("new.json"), "{shown}{told}");

    let (code, kept, _) = said(&["baseline", "save", "v1", "results/old.json"]);
    assert!(code == Some(0) && kept.contains("saved as v1"), "{kept}");
    let (code, shown, _) = said(&["compare", "--baseline", "v1"]);
    assert!(code == Some(0) && shown.contains("0.367×"), "the newest against the baseline: {shown}");
    let (_, shown, _) = said(&["compare", "--baseline", "v1", "results/base.json"]);
    assert!(shown.contains("0.333×"), "{shown}");
    let (code, _, _) = said(&["baseline", "save", "v1"]);
    assert_eq!(code, Some(0), "the newest takes its place");
    let (_, shown, _) = said(&["compare", "--baseline", "v1", "results/base.json"]);
    assert!(shown.contains("0.909×"), "{shown}");
    for folder in [&["--out", "results"][..], &[]] {
        let (code, listed, _) = said(&[&["baseline", "list"], folder].concat());
        assert!(code == Some(0) && listed.contains("v1"), "{listed}");
    }
    let (_, listed, _) = said(&["baseline", "list"]);
    assert!(listed.contains("v1") && listed.contains("cpu"), "{listed}");
    mistake(dir.path(), &["compare", "--baseline", "v2"], &["no baseline `v2`", "baseline list"]);
    mistake(dir.path(), &["baseline", "save", "../v3"], &["cannot name a baseline"]);
    mistake(dir.path(), &["baseline", "save", "v3", "nowhere.json"], &["nowhere.json"]);
}
