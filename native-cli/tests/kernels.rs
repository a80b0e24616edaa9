//! Commands for authors of kernels: `dev`, `tune`, and values of tunables.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

fn parallax(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parallax")).args(args).current_dir(folder).output().expect("the program starts")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const CASE: &str = "copy/fwd/n1000/f32/scalar";
const TILED: &str = "matmul/fwd/m33,n35,k37/f32/tiled";

/// The shipped text of [`CASE`], in a folder of kernels.
fn kernels() -> (tempfile::TempDir, std::path::PathBuf, String) {
    let folder = folder();
    let file = folder.path().join("shaders/copy/scalar.wgsl");
    std::fs::create_dir_all(file.parent().expect("below")).expect("writable");
    let text = include_str!("../../shaders/kernels/copy/scalar.wgsl").to_owned();
    std::fs::write(&file, &text).expect("writable");
    (folder, file, text)
}

#[test]
fn one_look_shows_interface_verdicts_and_time() {
    let dir = folder();
    let output = parallax(dir.path(), &["dev", "--once", "--target", "wgpu", "--budget", "0.2", CASE]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for part in
        ["save 1", "copy_scalar: @0.0 x (read), @0.1 ", "threads", "passed: ", "awkward shapes", "save to figure"]
    {
        assert!(said.contains(part), "{said} lacks {part}");
    }
}

#[test]
fn one_look_at_broken_or_wrong_kernels_fails_with_file_and_line() {
    let (dir, file, text) = kernels();
    let args = ["dev", "--once", "--target", "wgpu", "--budget", "0.2", "--kernels", ".", CASE];
    std::fs::write(&file, text.replace("@compute", "let;\n@compute")).expect("writable");
    let broken = parallax(dir.path(), &args);
    let line = 1 + text.lines().position(|l| l.starts_with("@compute")).expect("an entry");
    assert_eq!(broken.status.code(), Some(1), "{}", said(&broken));
    assert!(said(&broken).contains(&format!("copy/scalar.wgsl:{line}: ")), "{}", said(&broken));
    std::fs::write(&file, text.replace("= x[", "= 2.0 * x[")).expect("writable");
    let wrong = parallax(dir.path(), &args);
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    assert!(said(&wrong).contains("should be"), "{}", said(&wrong));
}

/// A running `dev`, ended with the test.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn begin(kernels: &Path) -> Watching {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parallax"))
            .args(["dev", "--target", "wgpu", "--budget", "0.2", "--kernels", ".", CASE])
            .current_dir(kernels)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Watching { child, lines }
    }

    /// Lines until one contains `part`, that one included.
    fn until(&self, part: &str) -> String {
        let mut seen = String::new();
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(120));
            let line = line.unwrap_or_else(|_| panic!("no line contains `{part}`:\n{seen}"));
            seen += &format!("{line}\n");
            if line.contains(part) {
                return seen;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has noticed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_save_is_compiled_checked_and_compared_and_none_ends_the_watch() {
    let (dir, file, text) = kernels();
    let mut watching = Watching::begin(dir.path());
    watching.until("watching");
    std::fs::write(&file, format!("{text}// changed\n")).expect("writable");
    let second = watching.until("from save to figure");
    assert!(second.contains("save 2") && second.contains("against the last save and best, 1"), "{second}");
    std::fs::write(&file, text.replace("@compute", "let;\n@compute")).expect("writable");
    let broken = watching.until("copy/scalar.wgsl:");
    assert!(broken.contains("save 3"), "{broken}");
    std::fs::write(&file, format!("{text}// mended\n")).expect("writable");
    let mended = watching.until("from save to figure");
    assert!(mended.contains("save 4") && mended.contains("against "), "{mended}");
    assert!(watching.child.try_wait().expect("its state").is_none(), "it still watches");
}

#[test]
fn what_cannot_be_watched_is_a_mistake() {
    let dir = folder();
    for (args, part) in [
        (&["dev", "--target", "wgpu", CASE][..], "--kernels"),
        (&["dev", "--target", "cpu", "--once", CASE], "no kernel sources"),
        (&["dev", "--target", "wgpu", "--once", "copy"], "is not a case"),
        (&["dev", "--target", "wgpu", "--once", "--kernels", "nowhere", CASE], "nowhere"),
    ] {
        let output = parallax(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(part), "{args:?}: {}", said(&output));
    }
}

#[test]
fn values_come_from_flags_before_the_file_before_the_default() {
    let dir = folder();
    let depth = |args: &[&str]| {
        let output = parallax(dir.path(), &[&["kernel", TILED, "--target", "wgpu"], args].concat());
        let text = said(&output);
        let line = text.lines().find(|line| line.starts_with("const BLOCK_K: u32 = ")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{text}"))
    };
    assert_eq!(depth(&[]), "const BLOCK_K: u32 = 16u;");
    assert_eq!(depth(&["--set", "DEPTH=8"]), "const BLOCK_K: u32 = 8u;");
    std::fs::create_dir(dir.path().join("tuning")).expect("writable");
    std::fs::write(dir.path().join("tuning/llvmpipe.toml"), "[wgsl.matmul.tiled]\nDEPTH = 32\n").expect("writable");
    assert_eq!(depth(&[]), "const BLOCK_K: u32 = 32u;");
    assert_eq!(depth(&["--set", "matmul.tiled.DEPTH=8"]), "const BLOCK_K: u32 = 8u;");
    assert_eq!(depth(&["--tuning", "off"]), "const BLOCK_K: u32 = 16u;");

    for (set, part) in [
        ("DEPHT=8", "unknown tunable `DEPHT`: choose one of attention.flash.DEPTH"),
        ("matmul.tiled.DEPTH=7", "cannot be 7: it is one of 8, 16, 32"),
    ] {
        let output = parallax(dir.path(), &["list", "--target", "wgpu", "--set", set]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(part), "{}", said(&output));
    }
    std::fs::write(dir.path().join("tuning/llvmpipe.toml"), "[wgsl.matmul.tiled]\nDEPTH = 5\n").expect("writable");
    let output = parallax(dir.path(), &["list", "--target", "wgpu"]);
    assert!(!output.status.success() && said(&output).contains("llvmpipe.toml"), "{}", said(&output));
}

#[test]
fn records_say_which_values_were_used() {
    let dir = folder();
    let args = ["run", "--target", "wgpu", "--case", TILED, "--set", "DEPTH=8", "--ceilings", "off", "--budget", "0.5"];
    let output = parallax(dir.path(), &[&args[..], &["--json"]].concat());
    let runs: Vec<parallax_schema::record::Run> =
        serde_json::from_slice(&output.stdout).expect("a JSON array on stdout");
    let run = &runs[0];
    let options = &run.records[0].measured().expect("right").compiled.options;
    assert!(options.contains(&"DEPTH=8".to_owned()) && options.contains(&"LARGE_FROM=100".to_owned()), "{options:?}");
    assert_eq!(run.spec.set, ["DEPTH=8"]);
    assert!(run.device().caps.tuning.values().any(|(key, value)| (key, value) == ("matmul.tiled.DEPTH", 8)));
}

#[test]
fn a_search_writes_the_file_that_runs_read() {
    let dir = folder();
    let args = ["tune", "--target", "wgpu", "--budget", "4", "hash_embedding/fwd/r257,g83,d64,sorted/f32/owner"];
    let output = parallax(dir.path(), &args);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("hash_embedding.owner: 1 cases") && told.contains("MOST_LANES="), "{told}");
    let text = std::fs::read_to_string(dir.path().join("tuning/llvmpipe.toml")).expect("the file");
    assert!(text.contains("[wgsl.hash_embedding.owner]") && text.contains("MOST_COLUMNS = "), "{text}");
    assert!(parallax(dir.path(), &["list", "--target", "wgpu"]).status.success(), "{text}");
    let nothing = parallax(dir.path(), &["tune", "--target", "wgpu", "copy"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", said(&nothing));
}
