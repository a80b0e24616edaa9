//! Run files as they are in the field: beside their traces, compressed, in UTF-16, large, or with a mistake in one record.

use parallax_workloads::Registry;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::comparing::recorded;
use crate::{folder, mistake, parallax};

/// Two runs in the program's own folder, each with its trace, and other files of the program.
fn results(dir: &Path) -> Vec<String> {
    let folder = dir.join("results");
    std::fs::create_dir_all(folder.join("baselines")).expect("writable");
    for (name, factor) in [("cpu-1", 1.0), ("cpu-2", 1.1)] {
        recorded(&folder, &format!("{name}.json"), "cpu", "X", factor);
        let run = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("a file");
        let run = parallax_schema::record::Run::parse(&run).expect("a run");
        std::fs::write(folder.join(format!("{name}.trace.json")), parallax_analysis::trace::text(&run, &Registry))
            .expect("writable");
    }
    let trace = std::fs::read(folder.join("cpu-2.trace.json")).expect("a trace");
    std::fs::write(folder.join("cpu-2.resumed-1.trace.json.gz"), gzip(&trace)).expect("writable");
    std::fs::write(folder.join("a-a-cpu.md"), "| case |\n| --- |\n").expect("writable");
    let mut all: Vec<String> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| format!("results/{}", entry.expect("readable").file_name().display()))
        .collect();
    all.sort();
    all
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn the_programs_own_folder_can_be_given_as_a_glob() {
    let dir = folder();
    let files = results(dir.path());
    assert_eq!(files.len(), 7, "{files:?}");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    for (command, more) in [("compare", &[][..]), ("report", &[]), ("site", &["--no-page"])] {
        let output = parallax(dir.path(), &[&[command], &files[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {said}");
        let notes: Vec<&str> = said.lines().filter(|line| line.starts_with("passed over: ")).collect();
        let [note] = notes[..] else { panic!("{command}: {said}") };
        for part in [
            "results/a-a-cpu.md (a table)",
            "results/baselines (a folder)",
            "results/cpu-1.trace.json (a trace)",
            "results/cpu-2.resumed-1.trace.json.gz (a trace)",
        ] {
            assert!(note.contains(part), "{command}: {note}");
        }
    }
    // A trace in the place of a run has a message, too.
    let output = parallax(dir.path(), &["report", "results/cpu-1.json", "results/cpu-2.trace.json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let part = "results/cpu-2.trace.json (the trace of results/cpu-2.json, which was not named)";
    assert!(output.status.success() && said.contains(part), "{said}");
}

#[test]
fn a_trace_given_alone_names_its_run() {
    let dir = folder();
    results(dir.path());
    std::fs::rename(dir.path().join("results/cpu-1.trace.json"), dir.path().join("x.json")).expect("renamed");
    std::fs::copy(dir.path().join("x.json"), dir.path().join("y.trace.json")).expect("copied");
    for (args, part) in [
        (&["report", "results/cpu-2.trace.json"][..], "this is the trace of results/cpu-2.json; name that file"),
        (
            &["report", "results/cpu-2.resumed-1.trace.json.gz"],
            "this is the trace of results/cpu-2.json; name that file",
        ),
        (&["report", "y.trace.json"], "this is the trace of y.json, which is not there"),
        (&["compare", "x.json", "y.trace.json"], "x.json: this is a trace and no run"),
        (&["baseline", "save", "v1", "x.json"], "x.json: this is a trace and no run"),
        (&["run", "--resume", "x.json"], "x.json: this is a trace and no run"),
        (&["report", "results"], "results: this is a folder"),
    ] {
        mistake(dir.path(), args, &[part]);
    }
}

#[test]
fn a_run_is_read_in_every_form_that_shells_and_editors_write() {
    let dir = folder();
    recorded(dir.path(), "plain.json", "cpu", "Größe 显卡", 1.0);
    let text = std::fs::read_to_string(dir.path().join("plain.json")).expect("a file");
    let report = |file: &str| {
        let output = parallax(dir.path(), &["report", file]);
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let plain = report("plain.json");
    assert!(plain.contains("Größe 显卡"), "{plain}");
    let units = |mark: &[u8], unit: fn(u16) -> [u8; 2]| {
        [mark, &text.encode_utf16().flat_map(unit).collect::<Vec<u8>>()].concat()
    };
    for (name, bytes) in [
        ("powershell.json", units(&[0xff, 0xfe], u16::to_le_bytes)),
        ("big.json", units(&[0xfe, 0xff], u16::to_be_bytes)),
        ("notepad.json", [&[0xef, 0xbb, 0xbf], text.as_bytes()].concat()),
        ("packed.json.gz", gzip(text.as_bytes())),
        ("packed.json", gzip(&units(&[0xff, 0xfe], u16::to_le_bytes))),
        ("list.json", format!("\u{feff} [{text}]").into_bytes()),
    ] {
        std::fs::write(dir.path().join(name), bytes).expect("writable");
        assert_eq!(report(name), plain, "{name}");
    }
    mistake(dir.path(), &["run", "--resume", "packed.json.gz"], &["packed.json.gz", "gzip", "unpack"]);
}

#[test]
fn a_mistake_in_a_file_is_said_once_and_briefly() {
    let dir = folder();
    recorded(dir.path(), "good.json", "cpu", "X", 1.0);
    let good = std::fs::read_to_string(dir.path().join("good.json")).expect("a file");
    let long = "x".repeat(16 << 10);
    let broken = |pointer: &str| {
        let mut run: serde_json::Value = serde_json::from_str(&good).expect("JSON");
        *run.pointer_mut(pointer).expect(pointer) = long.clone().into();
        run.to_string()
    };
    for (text, parts) in [
        ("/* C */".to_owned(), &["expected value at line 1 column 1"][..]),
        (String::new(), &["EOF while parsing"]),
        (broken("/schema"), &["its schema is `xxx"]),
        (broken("/version"), &["invalid type: string"]),
        (broken("/records/0/timing"), &["the record of `attention/fwd", "invalid type: string"]),
        (broken("/records/0/outcome"), &["the record of `attention/fwd", "unknown variant"]),
        (format!("[{good}, {}]", broken("/records/0/cost")), &["run 2 of the list", "the record of `attention/fwd"]),
    ] {
        std::fs::write(dir.path().join("broken.json"), &text).expect("writable");
        mistake(dir.path(), &["report", "broken.json"], parts);
        let said = String::from_utf8(parallax(dir.path(), &["report", "broken.json"]).stderr).expect("text");
        assert!(said.len() < 400, "{} bytes: {said}", said.len());
        for once in ["broken.json"].iter().chain(parts) {
            assert_eq!(said.matches(once).count(), 1, "{once}: {said}");
        }
    }
}

/// A folder for temporary files that is not there, is none, or takes nothing: it is named, and nothing else is blamed.
#[cfg(unix)]
#[test]
fn a_folder_for_temporary_files_that_is_not_there_is_named() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("page")).expect("writable");
    std::fs::write(dir.path().join("page/index.html"), "").expect("writable");
    std::fs::write(dir.path().join("file"), "").expect("writable");
    for temporary in ["nowhere", "file"] {
        let temporary = dir.path().join(temporary).display().to_string();
        for args in [
            &["run", "--target", "browser", "--page", "page", "--browser", "/bin/true", "--case", crate::TINY][..],
            &["verify", "--target", "cpu", "--case", crate::TINY],
        ] {
            let output = crate::parallax_with(dir.path(), args, &[("TMPDIR", &temporary)]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            let message = format!("cannot write temporary files to {temporary}: ");
            assert!(said.contains(&message) && said.contains("TMPDIR") && !said.contains("does not start"), "{said}");
        }
    }
}
