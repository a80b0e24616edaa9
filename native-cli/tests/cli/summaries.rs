//! Summaries of jobs.

use crate::comparing::recorded;
use crate::{TINY, WIDE, folder, parallax, parallax_with};

#[test]
fn a_summary_is_written_on_request_inside_a_job_and_never_otherwise() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    recorded(dir.path(), "b.json", "browser", "X", 2.0);
    let path = dir.path().join("summary.md");
    let inside = [WIDE, ("GITHUB_STEP_SUMMARY", path.to_str().expect("UTF-8"))];
    let run = ["run", "--target", "cpu", "--case", TINY, "--budget", "1"];
    for (args, part) in [
        (&["report", "a.json"][..], "### X (mock) as target cuda"),
        (&["compare", "a.json", "b.json"], "### Comparison with cuda"),
        (&["compare", "a.json", "b.json", "--fail-if-slower", "150%"], "- no case is slower by more than 150 %"),
        (&["compare", "a.json", "b.json", "--tax"], "| --- |"),
        (&run, "1 pass"),
    ] {
        let wanted = [args, &["--summary"]].concat();
        let plain = parallax_with(dir.path(), args, &inside);
        assert!(plain.status.success() && !path.exists(), "{args:?}: {}", String::from_utf8_lossy(&plain.stderr));
        let outside = parallax_with(dir.path(), &wanted, &[WIDE, ("GITHUB_STEP_SUMMARY", "")]);
        let said = String::from_utf8_lossy(&outside.stderr);
        assert!(outside.status.success() && said.contains("GITHUB_STEP_SUMMARY is not set"), "{wanted:?}: {said}");
        let written = parallax_with(dir.path(), &wanted, &inside);
        assert!(written.status.success(), "{wanted:?}: {}", String::from_utf8_lossy(&written.stderr));
        let text = std::fs::read_to_string(&path).expect("a summary");
        assert!(text.contains(part), "{wanted:?}: {text} lacks {part}");
        std::fs::remove_file(&path).expect("there");
    }
    for _ in 0..2 {
        parallax_with(dir.path(), &["report", "a.json", "--summary"], &inside);
    }
    assert_eq!(std::fs::read_to_string(&path).expect("a summary").matches("### X").count(), 2, "one below the other");
    assert_eq!(parallax(dir.path(), &["report", "--session", ".", "--summary"]).status.code(), Some(2));
}
