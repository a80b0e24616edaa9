//! Verdicts on two programs, for `git bisect run`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::comparing::recorded;
use crate::{TINY, folder, parallax, parallax_with};

/// Writes a program that prints a run and notes its name and options in `calls`.
fn program(folder: &Path, name: &str, run: &str) {
    let text = format!(
        "#!/bin/sh\necho \"{name} $*\" >> '{0}/calls'\nprintf '['\ncat '{0}/{run}'\nprintf ']'\n",
        folder.display()
    );
    script(&folder.join(name), &text);
}

/// Writes an executable file. A process that is forked meanwhile would hold an open file, which does not start: another process
/// writes it.
fn script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat > \"$0\" && chmod +x \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut child = shell.spawn().expect("the shell starts");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn the_exit_code_is_the_verdict_on_two_programs() {
    let dir = folder();
    for (name, factor) in [("base", 1.0), ("slow", 1.5), ("same", 1.001), ("fast", 0.5)] {
        recorded(dir.path(), &format!("{name}.json"), "cuda", "X", factor);
        program(dir.path(), name, &format!("{name}.json"));
    }
    // Its runs differ among each other by more than it differs from the base.
    let odd = "if [ -e odd ]; then rm odd; else touch odd; fi\n[ -e odd ] && run=base || run=slow\nprintf '['; cat $run.json; printf ']'";
    script(&dir.path().join("uneven"), &format!("#!/bin/sh\ncd '{}'\n{odd}\n", dir.path().display()));
    script(&dir.path().join("broken"), "#!/bin/sh\nexit 3\n");
    std::fs::write(dir.path().join("plain"), "no program").expect("writable");
    for (bad, code, part) in [
        ("slow", 1, "bad: 1 of 1 cases slower"),
        ("same", 0, "good: no case is slower"),
        ("fast", 0, "good: no case is slower, 1 faster"),
        ("uneven", 125, "undecided: 1 of 1 cases"),
        ("broken", 125, "broken ended with exit status: 3 and printed no run"),
        ("plain", 125, "cannot start"),
        ("absent", 125, "`absent` is no program"),
    ] {
        let output = parallax(dir.path(), &["bisect", TINY, "--good", "base", "--bad", bad]);
        let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
        assert_eq!(output.status.code(), Some(code), "{bad}: {said}");
        assert!(said.contains(part), "{bad}: {said} lacks {part}");
    }
}

#[test]
fn programs_run_in_turn_with_the_same_options() {
    let dir = folder();
    for name in ["base", "slow"] {
        recorded(dir.path(), &format!("{name}.json"), "cuda", "X", 1.0);
        program(dir.path(), name, &format!("{name}.json"));
    }
    let more = ["--rounds", "2", "--budget", "16", "--json", "--", "--seed", "7"];
    let output =
        parallax(dir.path(), &[&["bisect", "att*host", "--good", "base", "--bad", "slow"], &more[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    let count = &json["pairs"][0]["figures"][1]["n"];
    assert_eq!((count, &json["runs"][0]["name"]), (&36.into(), &"good".into()), "nine samples of each of four runs");
    let calls = std::fs::read_to_string(dir.path().join("calls")).expect("notes");
    let order: Vec<&str> = calls.lines().filter_map(|call| call.split(' ').next()).collect();
    assert_eq!(order, ["base", "slow", "slow", "base", "base", "slow", "slow", "base"]);
    for (number, call) in calls.lines().enumerate() {
        assert!(call.contains("run --quiet --json --filter att*host --budget 2 --out "), "{call}");
        assert_eq!(call.contains("--target cuda"), number > 0, "{call}");
        assert!(call.ends_with("--seed 7"), "{call}");
    }
}

/// A checkout whose commits write down the run of their program.
#[test]
fn commits_are_built_and_git_finds_the_slow_one() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    for (name, factor) in [("quick", 1.0), ("slow", 1.5)] {
        recorded(dir.path(), &format!("{name}.json"), "cuda", "X", factor);
        program(dir.path(), name, &format!("{name}.json"));
    }
    let checkout = path("checkout");
    std::fs::create_dir(&checkout).expect("writable");
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").args(identity).args(args).current_dir(&checkout).output().expect("git starts");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    git(&["init", "--quiet"]);
    std::fs::write(checkout.join(".gitignore"), "target\n").expect("writable");
    for (number, version) in ["quick", "quick", "none", "quick", "slow", "slow"].into_iter().enumerate() {
        std::fs::write(checkout.join("version"), format!("{version}\n{number}\n")).expect("writable");
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message", &format!("commit {number}")]);
    }
    let build = format!(
        "echo building >&1; mkdir -p \"$CARGO_TARGET_DIR/release\" && cp '{}'/\"$(head -n 1 version)\" \"$CARGO_TARGET_DIR/release/parallax\"",
        dir.path().display()
    );
    let judged = |more: &[&str]| {
        let args = [&["bisect", TINY, "--rounds", "1", "--build", &build], more].concat();
        let output = parallax_with(&checkout, &args, &[]);
        (output.status.code(), [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let (code, [shown, said]) = judged(&["--good", "HEAD~5", "--bad", "HEAD"]);
    assert_eq!(code, Some(1), "{shown}{said}");
    assert!(!shown.contains("building") && said.contains("building"), "{shown}{said}");
    assert_eq!(judged(&["--good", "HEAD~5", "--bad", "HEAD~2"]).0, Some(0));
    let (code, [_, said]) = judged(&["--good", "HEAD~5", "--bad", "HEAD~3"]);
    assert!(code == Some(125) && said.contains("cannot build HEAD~3"), "{said}");
    let (code, [_, said]) = judged(&["--good", "no-such-commit"]);
    assert!(code == Some(125) && said.contains("`no-such-commit` is neither a program nor a commit"), "{said}");
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1, "no worktree is left");

    // The present checkout is the candidate.
    git(&["bisect", "start", "HEAD", "HEAD~5"]);
    let quick = path("quick").display().to_string();
    let program = env!("CARGO_BIN_EXE_parallax");
    let found = git(&["bisect", "run", program, "bisect", TINY, "--good", &quick, "--rounds", "1", "--build", &build]);
    assert!(found.contains("is the first bad commit") && found.contains("commit 4"), "{found}");
}
