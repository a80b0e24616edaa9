//! Destinations of output: links, pipes and devices, the program's own input, full disks and closed pipes.
//!
//! Devices are reached through links in a temporary folder, so that a mistake never harms the machine's own.

use std::fs::{read_to_string, symlink_metadata};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::comparing::recorded;
use crate::{TINY, WIDE, folder, mistake, parallax, save};

/// The same program in a shell, which can redirect and limit.
fn shell(folder: &Path, script: &str) -> Output {
    let script = script.replace("PARALLAX", &format!("'{}'", env!("CARGO_BIN_EXE_parallax")));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).envs([WIDE]).current_dir(folder).output().expect("a shell")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn links_are_followed_and_modes_kept() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    let expected = text(&parallax(dir.path(), &["report", "a.json"]).stdout);
    std::fs::create_dir(at("elsewhere")).expect("writable");
    std::fs::write(at("elsewhere/old"), "old").expect("writable");
    std::fs::set_permissions(at("elsewhere/old"), PermissionsExt::from_mode(0o640)).expect("ours");
    // A link to a link to a file, and a link to nothing.
    symlink("elsewhere/old", at("near")).expect("writable");
    symlink(at("near"), at("far")).expect("writable");
    symlink("elsewhere/new", at("dangling")).expect("writable");
    for (link, file) in [("far", "elsewhere/old"), ("dangling", "elsewhere/new")] {
        let output = parallax(dir.path(), &["report", "a.json", "--output", link]);
        assert!(output.status.success(), "{link}: {}", text(&output.stderr));
        assert!(symlink_metadata(at(link)).expect("there").is_symlink(), "{link} is still a link");
        assert!(symlink_metadata(at(file)).expect("there").is_file());
        assert_eq!(read_to_string(at(file)).expect("a file"), expected);
    }
    assert!(symlink_metadata(at("near")).expect("there").is_symlink());
    assert_eq!(at("elsewhere/old").metadata().expect("there").permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(at("elsewhere")).expect("a folder").count(), 2, "nothing is left beside them");
    // A new file has the mode that the user's mask gives any other.
    let output = shell(dir.path(), "umask 027; PARALLAX report a.json --output masked");
    assert!(output.status.success());
    assert_eq!(at("masked").metadata().expect("there").permissions().mode() & 0o777, 0o640);
    symlink("circle", at("circle")).expect("writable");
    mistake(dir.path(), &["report", "a.json", "--output", "circle"], &["cannot write circle"]);
}

#[test]
fn pipes_and_devices_are_written_to() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    let expected = text(&parallax(dir.path(), &["report", "a.json"]).stdout);
    assert!(Command::new("mkfifo").arg(at("fifo")).status().expect("mkfifo is there").success());
    let output = shell(dir.path(), "cat fifo > got & PARALLAX report a.json --output fifo; wait");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(symlink_metadata(at("fifo")).expect("there").file_type().is_fifo(), "it is still a pipe");
    assert_eq!(read_to_string(at("got")).expect("a file"), expected);

    for (link, device) in [("out", "/dev/stdout"), ("null", "/dev/null"), ("full", "/dev/full")] {
        symlink(device, at(link)).expect("writable");
    }
    let output = parallax(dir.path(), &["report", "a.json", "--output", "out"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), expected.clone()));
    assert!(parallax(dir.path(), &["report", "a.json", "--output", "null"]).status.success());
    for link in ["out", "null"] {
        assert!(symlink_metadata(at(link)).expect("there").is_symlink(), "{link} is still a link");
    }
    // Standard output in a file: earlier content stays, and later output follows.
    let script = "echo before > log; (PARALLAX report a.json --output out; echo after) >> log";
    assert!(shell(dir.path(), script).status.success());
    assert_eq!(read_to_string(at("log")).expect("a file"), format!("before\n{expected}after\n"));
    if Path::new("/dev/full").exists() {
        mistake(dir.path(), &["report", "a.json", "--output", "full"], &["cannot write full", "No space left"]);
        assert!(symlink_metadata(at("full")).expect("there").is_symlink());
    }
}

#[test]
fn an_input_is_never_overwritten() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    recorded(dir.path(), "b.json", "wgpu", "X", 1.0);
    let before = read_to_string(at("b.json")).expect("a file");
    symlink("b.json", at("link")).expect("writable");
    std::fs::hard_link(at("b.json"), at("hard")).expect("writable");
    for output in ["b.json", "./b.json", "link", "hard"] {
        mistake(dir.path(), &["compare", "a.json", "b.json", "--output", output], &[output, "not overwritten"]);
        mistake(dir.path(), &["report", "b.json", "--json", "--output", output], &[output, "not overwritten"]);
        assert_eq!(read_to_string(at("b.json")).expect("a file"), before);
    }

    save(&at("out.npy"), &[1, 1, 3, 2], &[1.0; 6]);
    let before = std::fs::read(at("out.npy")).expect("a file");
    let inputs = ["--input", "q=out.npy", "--input", "k=out.npy", "--input", "v=out.npy"];
    let args = [&["eval", TINY, "--target", "cpu", "--output-dir", "."], &inputs[..]].concat();
    mistake(dir.path(), &args, &["out.npy", "not overwritten"]);
    assert_eq!(std::fs::read(at("out.npy")).expect("a file"), before);
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    let file = dir.path().join("locked");
    std::fs::write(&file, "locked").expect("writable");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o444)).expect("ours");
    let output = parallax(dir.path(), &["report", "a.json", "--output", "locked"]);
    // The superuser may write to anything.
    if std::fs::File::options().write(true).open(&file).is_ok() {
        assert!(output.status.success());
    } else {
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(read_to_string(&file).expect("a file"), "locked");
    }
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o444);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let dir = folder();
    recorded(dir.path(), "base.json", "cpu", "X", 1.0);
    recorded(dir.path(), "slow.json", "cpu", "X", 2.0);
    for (args, code) in [
        (&["schema"][..], 0),
        (&["report", "base.json"], 0),
        (&["list", "--target", "cpu", "--preset", "full"], 0),
        (&["--help"], 0),
        // The gate still reports its result.
        (&["compare", "base.json", "slow.json", "--fail-if-slower", "5%"], 1),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        let output = command.args(args).current_dir(dir.path()).stdout(writer).stderr(Stdio::piped()).output();
        let output = output.expect("the program starts");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(code), String::new()), "{args:?}");
    }
    // Standard error has no reader either.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    let status = command.args(["report", "absent.json"]).current_dir(dir.path()).stderr(writer).status();
    assert_eq!(status.expect("the program starts").code(), Some(2));
    // A run whose reader has seen enough is still kept.
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.args(["run", "--target", "cpu", "--case", TINY, "--budget", "1", "--out", "out"]).current_dir(dir.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    // Expected duration and progress of the run; no message about the reader.
    assert!(output.status.success() && said.lines().all(|line| line.starts_with("cpu")), "{said}");
    assert_eq!(std::fs::read_dir(dir.path().join("out")).expect("a folder").count(), 2, "the run and its trace");
}

#[test]
fn a_full_device_is_told() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let dir = folder();
    recorded(dir.path(), "a.json", "cpu", "X", 1.0);
    for args in ["report a.json", "schema", "--help", "list --target cpu"] {
        let output = shell(dir.path(), &format!("PARALLAX {args} > /dev/full"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {said}");
        assert!(said.lines().count() == 1 && said.contains("cannot write to standard output"), "{args}: {said}");
    }
}

/// A limit on the size of files stands for a full disk: writes beyond it fail, also for root.
#[test]
fn a_full_disk_spares_the_run() {
    let dir = folder();
    let mut without_trace = 0;
    // Blocks of 512 or of 1024 bytes, as the shell likes.
    for (i, blocks) in [1, 8, 32, 64, 128, 4096].into_iter().enumerate() {
        let run = format!("PARALLAX run --target cpu --case {TINY} --budget 1 --ceilings off --out out{i}");
        let output = shell(dir.path(), &format!("trap '' XFSZ; ulimit -f {blocks}; exec {run}"));
        let (shown, said) = (text(&output.stdout), text(&output.stderr));
        assert!(!said.contains("panicked"), "{blocks}: {said}");
        let files: Vec<_> = std::fs::read_dir(dir.path().join(format!("out{i}")))
            .expect("a folder")
            .map(|file| file.expect("readable").path())
            .collect();
        let (traces, runs): (Vec<_>, Vec<_>) =
            files.iter().partition(|path| path.to_string_lossy().ends_with(".trace.json"));
        for trace in &traces {
            let json: serde_json::Value =
                serde_json::from_str(&read_to_string(trace).expect("a file")).expect("a valid trace");
            assert!(json["traceEvents"].is_array());
        }
        if runs.is_empty() {
            // Not even the beginning had room; nothing was measured.
            assert_eq!((output.status.code(), traces.len()), (Some(2), 0), "{blocks}: {said}");
            assert!(said.contains("cannot write"), "{blocks}: {said}");
            continue;
        }
        assert_eq!((runs.len(), files.len() - traces.len()), (1, 1), "no temporary files: {files:?}");
        let read = parallax_schema::record::Run::parse(&read_to_string(runs[0]).expect("a file")).expect("a whole run");
        assert!(shown.contains("1 pass"), "{blocks}: the table is shown: {shown}{said}");
        if traces.is_empty() {
            assert_eq!(output.status.code(), Some(2), "{blocks}: {said}");
            let whole = said.contains("is left out");
            assert!(said.contains("cannot write"), "{blocks}: {said}");
            assert!(!whole || read.records.len() == 1 && read.interrupted.is_none(), "{blocks}: {said}");
            assert!(read.records.len() <= 1);
            without_trace += usize::from(read.records.len() == 1);
        } else {
            assert_eq!(output.status.code(), Some(0), "{blocks}: {said}");
            assert_eq!(read.records.len(), 1);
        }
    }
    assert!(without_trace > 0, "some limit lies between the run and its trace");
}
