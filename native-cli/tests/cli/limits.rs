//! Limits of memory and files, closed streams and ignored signals, as in services and containers.

use std::fs::read_to_string;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use parallax_schema::record::Run;
use serde_json::{Value, json};

use crate::comparing::recorded;
use crate::interrupting::recorded_in;
use crate::{TINY, WIDE, folder, parallax};

/// The program in a shell that sets limits first.
fn limited(folder: &Path, limits: &str, args: &str) -> Output {
    let script = format!("{limits}; exec '{}' {args}", env!("CARGO_BIN_EXE_parallax"));
    Command::new("sh").args(["-c", &script]).envs([WIDE]).current_dir(folder).output().expect("a shell")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A run file with this in place of its readings of the reference kernel.
fn with_drift(folder: &Path, drift: &Value) -> String {
    recorded(folder, "a.json", "cpu", "X", 1.0);
    let mut run: Value = serde_json::from_str(&read_to_string(folder.join("a.json")).expect("a file")).expect("JSON");
    run["drift"] = drift.clone();
    run.to_string()
}

/// 65 536 rows of 30 kB are 2 GB.
#[test]
fn a_column_list_takes_no_more_memory_than_its_file_allows() {
    let dir = folder();
    let long = "x".repeat(30_000);
    let indices = vec![0; 20_000];
    for (name, rows, columns) in [
        ("unknown", 65_536, json!({"at": {"all": 1}, "canary": {"all": 1}, "x": {"all": long}})),
        ("runs", 65_536, json!({"at": {"runs": [[1, 65_536]]}, "canary": {"all": 1}, "x": {"runs": [[long, 65_536]]}})),
        (
            "nested",
            20_000,
            json!({"at": {"steps": indices}, "canary": {"all": 1}, "conditions.throttle": {"all": [long]}}),
        ),
        (
            "words",
            20_000,
            json!({"at": {"steps": indices}, "canary": {"all": 1},
            "conditions.throttle": {"words": [[[&long[..9000]]], indices]}}),
        ),
    ] {
        let file = with_drift(dir.path(), &json!({"rows": rows, "columns": columns}));
        std::fs::write(dir.path().join("bomb.json"), file).expect("writable");
        // The program itself maps a few hundred megabytes of code and stacks.
        let output = limited(dir.path(), "ulimit -v 1000000", "report bomb.json");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains("bomb.json") && said.lines().count() == 1, "{name}: {said}");
    }
    // Additional readings of a newer program are ignored.
    let columns = json!({"at": {"steps": indices}, "canary": {"each": vec![1; 20_000]}, "x": {"all": long}});
    let file = with_drift(dir.path(), &json!({"rows": 20_000, "columns": columns}));
    std::fs::write(dir.path().join("newer.json"), file).expect("writable");
    let output = limited(dir.path(), "ulimit -v 1000000", "report newer.json");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_limit_on_memory_bounds_the_plan() {
    let dir = folder();
    let big = "run --target cpu --case copy/fwd/n134217728/f32/host --budget 0.3 --ceilings off --out out";
    let output = limited(dir.path(), "ulimit -v 1000000", big);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("needs 1.07 GB of host memory, half of which is"), "{said}");
}

#[test]
fn a_limit_on_files_is_told_as_a_full_disk_is() {
    let dir = folder();
    let run = format!("run --target cpu --case {TINY} --budget 0.2 --ceilings off --out out");
    let output = limited(dir.path(), "ulimit -f 1", &run);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "no signal ends it: {said}");
    assert!(said.contains("cannot write"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_closed_standard_output_is_a_failure_to_write() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cpu", "X", 1.0);
    for args in ["report a.json", "schema", "--help", "list --target cpu"] {
        let output = limited(dir.path(), "exec >&-", args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {said}");
        assert!(said.lines().count() == 1 && said.contains("cannot write to standard output"), "{args}: {said}");
    }
    // A command without output needs none, and output to the null device is written.
    let output = limited(dir.path(), "exec >&-", "report a.json --output b.txt");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").expect("there");
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    let status = command.args(["report", "a.json"]).current_dir(dir.path()).stdout(null).status();
    assert!(status.expect("the program starts").success());
}

/// A run of some seconds, whose file is there.
fn running(folder: &Path, before: &str) -> std::process::Child {
    let run = format!("run --target cpu --case {TINY} --budget 4 --precision 0.0000001 --ceilings off --out out");
    let script = format!("{before}; exec '{}' {run}", env!("CARGO_BIN_EXE_parallax"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    let child = shell.spawn().expect("a shell");
    let give_up = Instant::now() + Duration::from_secs(120);
    while recorded_in(&folder.join("out")).is_none_or(|text| Run::parse(&text).is_err()) {
        assert!(Instant::now() < give_up, "no file within two minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn a_run_that_ignores_its_terminal_outlives_it() {
    let dir = folder();
    let mut child = running(dir.path(), "trap '' HUP");
    std::thread::sleep(Duration::from_millis(500));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().expect("kill is there").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let run = Run::parse(&recorded_in(&dir.path().join("out")).expect("a file")).expect("a run");
    assert_eq!((run.records.len(), run.interrupted), (1, None));
}

#[test]
fn a_run_that_goes_on_cannot_be_resumed() {
    let dir = folder();
    let mut child = running(dir.path(), ":");
    let out = dir.path().join("out");
    let file = std::fs::read_dir(&out).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = file.filter(|path| !path.to_string_lossy().contains(".trace.")).last().expect("a run");
    let refused = parallax(dir.path(), &["run", "--resume", &file.display().to_string()]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("in progress") && said.lines().count() == 1, "{said}");
    assert!(child.wait().expect("it ends").success(), "the run itself goes on");
    let run = Run::parse(&recorded_in(&out).expect("a file")).expect("a run");
    assert_eq!((run.records.len(), run.interrupted), (1, None));
}

#[test]
fn a_run_that_is_stopped_and_continued_is_not_charged_for_the_pause() {
    let dir = folder();
    let mut child = running(dir.path(), ":");
    let id = child.id().to_string();
    let signal =
        |name: &str| assert!(Command::new("kill").args([name, &id]).status().expect("kill is there").success());
    let sampled = || {
        let text = recorded_in(&dir.path().join("out")).unwrap_or_default();
        text.matches("\"event\":\"samples\"").count()
    };
    let give_up = Instant::now() + Duration::from_secs(120);
    while sampled() == 0 {
        assert!(Instant::now() < give_up, "no samples within two minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(6));
    let before = sampled();
    signal("-CONT");
    assert!(child.wait().expect("it ends").success());
    let run = Run::parse(&recorded_in(&dir.path().join("out")).expect("a file")).expect("a run");
    let timing = run.records[0].timing().expect("timed");
    let longest = timing.samples.iter().copied().fold(0.0, f64::max);
    assert!(longest * f64::from(timing.repeats) < 5e9, "the pause is no sample: {longest} ns");
    // Four seconds are to be spent on samples; the pause alone is longer.
    assert!(timing.spent.wall.secs() < 6.0, "{} s", timing.spent.wall.secs());
    // The first sample has an event of another name, and one sample may be under way when the program is stopped.
    let after = timing.samples.len();
    assert!(after > before + 2, "sampling ended with the pause: {before} events before it, {after} samples");
}
