//! Runs that are stopped or killed keep their results.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use parallax_schema::record::{NamedRun, Outcome, Run, StopReason, Suite, UNFINISHED};

use crate::{TINY, folder, parallax};

/// Ctrl-C ends a run with the cases that have samples enough: their figures stand, and the file says that it was stopped.
#[test]
fn an_interrupted_run_keeps_what_was_finished() {
    let dir = folder();
    let cases = [TINY, "attention/fwd/b1,h1,s4,d2/f32/host", "attention/fwd/b1,h1,s5,d2/f32/host"];
    let mut args = vec!["run", "--target", "cpu", "--budget", "600", "--precision", "0.0000001", "--ceilings", "off"];
    args.extend(["--out", "out"]);
    args.extend(cases.iter().flat_map(|case| ["--case", case]));
    let mut child = started(dir.path(), &args);
    let read = || recorded_in(&dir.path().join("out")).and_then(|text| Run::parse(&text).ok());
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while read().is_none() {
        assert!(std::time::Instant::now() < give_up, "no file within two minutes");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // Long enough for the rounds to have begun, and far from the end of the budget.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill is there").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "it was stopped");
    let run = read().expect("a whole file");
    assert_eq!(run.interrupted.as_deref(), Some("stopped on request"));
    assert_eq!(run.records.len() + run.missing().count(), cases.len());
    let asked = |r: &parallax_schema::record::Record| {
        r.timing().is_some_and(|t| t.stopped == parallax_schema::record::StopReason::Asked && t.samples.len() >= 6)
    };
    assert!(run.records.iter().any(asked), "{:?}", run.records);
}

/// The program at work, without a reader of its output.
fn started(folder: &Path, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(args)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts")
}

/// The text of the run file in a folder.
pub fn recorded_in(folder: &Path) -> Option<String> {
    let file = std::fs::read_dir(folder).ok()?.find_map(|e| {
        let path = e.ok()?.path();
        (path.extension()? == "json" && !path.to_string_lossy().ends_with(".trace.json")).then_some(path)
    })?;
    Some(String::from_utf8_lossy(&std::fs::read(file).ok()?).into_owned())
}

/// A run that is killed leaves a file that loads, with every finished record, and that can be cut off anywhere.
#[test]
fn a_killed_run_leaves_every_finished_record() {
    let dir = folder();
    // Too many cases for one group, so that records come while others are still measured.
    let cases: Vec<String> = (3..200).map(|s| format!("attention/fwd/b1,h1,s{s},d2/f32/host")).collect();
    let mut args = vec!["run", "--target", "cpu", "--budget", "20", "--ceilings", "off", "--out", "out"];
    args.extend(cases.iter().flat_map(|case| ["--case", case]));
    let mut child = started(dir.path(), &args);
    let out = dir.path().join("out");
    let records = |text: &str| text.matches("\n{\"event\":\"record\"").count();
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(240);
    while recorded_in(&out).is_none_or(|text| records(&text) < 5) {
        assert!(std::time::Instant::now() < give_up, "no five records within four minutes");
        assert!(child.try_wait().expect("known").is_none(), "the run ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().expect("alive");
    child.wait().expect("dead");

    let text = recorded_in(&out).expect("a file");
    let run = Run::parse(&text).expect("it loads");
    let whole = text.rsplit_once('\n').map_or(0, |(whole, _)| records(&format!("{whole}\n")));
    assert!(whole >= 5 && finished(&run) >= whole, "{} of {whole}", finished(&run));
    assert!(run.records.iter().all(|r| r.timing().is_some()), "all of them are finished");
    assert_eq!(run.interrupted.as_deref(), Some(UNFINISHED));
    assert_eq!(run.records.len() + run.missing().count(), cases.len());
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writable");
    file("killed.json", &text);
    let shown = parallax(dir.path(), &["report", "killed.json"]);
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && said.contains("the file is not closed"), "{said}");
    let compared = parallax(dir.path(), &["compare", "killed.json", "killed.json"]);
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));

    // Wherever it is cut off, at most one record is lost.
    let header = text.find('\n').expect("a header");
    let step = (text.len() - header) / 300 + 1;
    for at in (header..text.len()).step_by(step).filter(|at| text.is_char_boundary(*at)) {
        let read = Run::parse(&text[..at]).unwrap_or_else(|e| panic!("{at}: {e}"));
        let begun = records(&text[..at]);
        assert!((begun.saturating_sub(1)..=begun).contains(&finished(&read)), "{at}: {} of {begun}", finished(&read));
    }
}

/// The program in the middle of one long computation.
fn computing(folder: &Path) -> Child {
    // One execution of the reference takes many seconds.
    let long = ["--case", "matmul/fwd/m4096,n4096,k4096/f32/host"];
    let args = ["run", "--target", "cpu", "--ceilings", "off", "--out", "out", "--case", TINY];
    let child = started(folder, &[&args[..], &long].concat());
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while recorded_in(&folder.join("out")).is_none() {
        assert!(std::time::Instant::now() < give_up, "no file within two minutes");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    child
}

/// The second one ends the program without waiting for its computation.
#[test]
fn the_second_ctrl_c_ends_the_program_at_once() {
    let dir = folder();
    let mut child = computing(dir.path());
    let id = child.id().to_string();
    let interrupt = || assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill is there").success());
    interrupt();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(child.try_wait().expect("known"), None, "the first one lets it finish");
    interrupt();
    let told = std::time::Instant::now();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(told.elapsed() < std::time::Duration::from_secs(2), "{:?}", told.elapsed());
}

/// Senders of these signals kill a lingering program. It ends in time, also within one long computation, and its file
/// says that the run was not finished.
#[test]
#[cfg(unix)]
fn a_run_that_is_told_to_end_is_gone_within_two_seconds() {
    // A program that `nohup` started ignores SIGHUP, and so do those that it starts; a handler here is the default there.
    let handled = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, handled).expect("a handler");
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let dir = folder();
        let mut child = computing(dir.path());
        let told = std::time::Instant::now();
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill is there").success());
        let status = child.wait().expect("it ends");
        assert!(told.elapsed() < std::time::Duration::from_secs(2), "{signal}: {:?}", told.elapsed());
        assert!([Some(code), Some(1)].contains(&status.code()), "{signal}: {status}");
        let text = recorded_in(&dir.path().join("out")).expect("a file");
        let run = Run::parse(&text).expect("it loads");
        assert!(run.interrupted.is_some(), "{signal}: {run:?}");
    }
}

/// Records that are whole.
fn finished(run: &Run) -> usize {
    run.records.iter().filter(|record| !record.cut_off()).count()
}

/// The only run file of a folder: its name, and the run.
fn only_run(folder: &Path) -> NamedRun {
    let mut files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = files.find(|path| !path.to_string_lossy().contains(".trace.")).expect("a run");
    let text = std::fs::read_to_string(&file).expect("readable");
    NamedRun::new(file.display().to_string(), Run::parse(&text).expect("it loads"))
}

#[test]
fn a_killed_run_keeps_its_samples_and_is_gone_on_with() {
    let dir = folder();
    let out = dir.path().join("out");
    let cases = ["s3", "s4", "s5", "s6"].map(|s| format!("attention/fwd/b1,h1,{s},d2/f32/host"));
    let mut args = vec!["run", "--target", "cpu", "--budget", "6", "--ceilings", "off", "--out", "out"];
    args.extend(cases.iter().flat_map(|case| ["--case", case]));
    let mut child = started(dir.path(), &args);
    // All four are one group, whose records come when they are precise, near the end.
    let figures = |text: &str| Run::parse(text).map_or(0, |run| run.records.len());
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while recorded_in(&out).is_none_or(|text| figures(&text) < cases.len()) {
        assert!(std::time::Instant::now() < give_up, "not samples enough within two minutes");
        assert!(child.try_wait().expect("known").is_none(), "the run ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().expect("alive");
    child.wait().expect("dead");

    let text = recorded_in(&out).expect("a file");
    let first = text.lines().next().expect("a line");
    assert!(first.contains(UNFINISHED), "the first line already says that the run goes on");
    let NamedRun { name: file, run: killed } = only_run(&out);
    assert_eq!(killed.records.len(), 4);
    for record in killed.records.iter().filter(|record| record.cut_off()) {
        let timing = record.timing().expect("samples");
        assert!(timing.summary.n >= 6 && timing.caveat.as_ref().is_some_and(|c| c.contains("killed")), "{timing:?}");
    }

    // Flags that would change the file's settings, and another build, are refused; the file stays as it is.
    let resume = |more: &[&str]| parallax(dir.path(), &[&["run", "--resume", &file][..], more].concat());
    for (more, said) in [(&["--budget", "3"][..], "settings"), (&["--target", "wgpu"], "target cpu")] {
        let refused = resume(more);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && error.contains(said), "{more:?}: {error}");
    }
    let foreign = dir.path().join("foreign.json");
    let other = Run { suite: Suite { commit: "0".to_owned(), ..killed.suite.clone() }, ..killed };
    std::fs::write(&foreign, serde_json::to_string(&other).expect("JSON")).expect("writable");
    let refused = parallax(dir.path(), &["run", "--resume", "foreign.json"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("its build is"), "{error}");
    assert_eq!(recorded_in(&out).as_deref(), Some(text.as_str()));

    // One of the four is finished, as if the others had come in a later group.
    let NamedRun { run: mut partly, .. } = only_run(&out);
    let Outcome::Pass(measured) = &mut partly.records[0].outcome else { panic!("{partly:?}") };
    measured.timing.as_mut().expect("timed").stopped = StopReason::Budget;
    for record in &mut partly.records[1..] {
        let Outcome::Pass(measured) = &mut record.outcome else { panic!("{record:?}") };
        measured.timing.as_mut().expect("timed").stopped = StopReason::Killed;
    }
    let kept = partly.records[0].clone();
    let sampled: Vec<_> = partly.records[1..].to_vec();
    std::fs::write(&file, serde_json::to_string(&partly).expect("JSON")).expect("writable");
    let resumed = resume(&[]);
    let error = String::from_utf8_lossy(&resumed.stderr);
    assert!(resumed.status.success() && error.contains("3 of 4 cases are missing"), "{error}");
    let NamedRun { name: again, run } = only_run(&out);
    assert_eq!((again, run.interrupted.as_deref(), finished(&run)), (file.clone(), None, 4));
    assert_eq!(run.records[0], kept);
    for earlier in sampled {
        let later = run.records.iter().find(|record| record.case == earlier.case).and_then(|record| record.timing());
        let (earlier, later) = (earlier.timing().expect("samples"), later.expect("timed"));
        assert!(
            later.samples.starts_with(&earlier.samples),
            "its samples count: {:?} {:?}",
            earlier.samples,
            later.samples
        );
    }
    assert_eq!(run.missing().count(), 0);
    let moments: Vec<f64> = run.drift.iter().map(|drift| drift.at.0).collect();
    assert!(moments.is_sorted(), "one clock for both parts: {moments:?}");
    let nothing = resume(&[]);
    let error = String::from_utf8_lossy(&nothing.stderr);
    assert!(nothing.status.code() == Some(2) && error.contains("nothing is missing"), "{error}");
}
