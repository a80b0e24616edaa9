//! Scripts of continuous integration.

use crate::comparing::recorded;
use crate::folder;

/// The script of the action and of the nightly job.
#[test]
fn folders_of_runs_are_compared_target_by_target() {
    let dir = folder();
    for (folder, factor) in [("old", 1.0), ("new", 1.5)] {
        std::fs::create_dir(dir.path().join(folder)).expect("writable");
        recorded(&dir.path().join(folder), "cuda-20260101T000000Z.json", "cuda", "X", factor);
        std::fs::write(dir.path().join(folder).join("cuda-20260101T000000Z.trace.json"), "{}").expect("writable");
    }
    recorded(&dir.path().join("old"), "cuda-20250101T000000Z.json", "cuda", "X", 9.0);
    recorded(&dir.path().join("new"), "wgpu-20260101T000000Z.json", "wgpu", "X", 1.0);
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/compare");
    for (limit, code) in [("5%", 1), ("80%", 0), ("much", 2)] {
        let mut command = std::process::Command::new(&script);
        command.args(["old", "new", "out.md", "--fail-if-slower", limit]).current_dir(dir.path());
        command.env("PARALLAX_BIN", env!("CARGO_BIN_EXE_parallax"));
        let output = command.env("GITHUB_STEP_SUMMARY", dir.path().join("summary.md")).output().expect("bash starts");
        assert_eq!(output.status.code(), Some(code), "{limit}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let args = ["old", "new", "out.md"];
    let mut command = std::process::Command::new(&script);
    let output =
        command.args(args).current_dir(dir.path()).env("PARALLAX_BIN", env!("CARGO_BIN_EXE_parallax")).output();
    assert!(output.expect("bash starts").status.success());
    let text = std::fs::read_to_string(dir.path().join("out.md")).expect("a file");
    assert!(text.contains("1.500×") && text.contains("no baseline of target wgpu"), "{text}");
    let summary = std::fs::read_to_string(dir.path().join("summary.md")).expect("a file");
    assert_eq!(summary.matches("### Comparison with").count(), 2, "{summary}");
}
