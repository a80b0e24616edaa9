//! Text of a run file is shown, and never executed: by a terminal, a viewer of Markdown, or a spreadsheet.

use crate::comparing::recorded;
use crate::{folder, parallax};

/// A title for the terminal's window, a turn of the writing's direction, a second line, and the end of a table's cell.
const NAME: &str = "X\u{1b}]0;owned\u{7}\u{202e}\nsecond | <b>\u{9b}31m";
/// A formula that a spreadsheet would run.
const FORMULA: &str = "=cmd|' /C calc'!A0";

#[test]
fn nothing_in_a_run_file_commands_its_reader() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", NAME, 1.0);
    recorded(dir.path(), "b.json", FORMULA, FORMULA, 2.0);
    // The case and the reason come from the same file.
    let file = dir.path().join("a.json");
    let mut run: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    let mut failed = run["records"][0].clone();
    failed["case"] = format!("{}{NAME}", failed["case"].as_str().expect("text")).into();
    failed["outcome"] = "error".into();
    failed["reason"] = format!("{FORMULA}{NAME}").into();
    run["records"].as_array_mut().expect("records").push(failed);
    run["interrupted"] = NAME.into();
    parallax_schema::record::Run::parse(&run.to_string()).expect("the reader takes it");
    std::fs::write(&file, run.to_string()).expect("writable");

    for command in [&["report", "a.json", "b.json"][..], &["compare", "a.json", "b.json"]] {
        for format in ["text", "markdown", "csv", "html"] {
            let output = parallax(dir.path(), &[command, &["--format", format]].concat());
            let said = String::from_utf8(output.stdout).expect("text");
            assert!(output.status.success(), "{command:?} {format}: {}", String::from_utf8_lossy(&output.stderr));
            let acting = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!said.contains(acting), "{command:?} {format}: {said:?}");
            assert!(!said.lines().any(|line| line.starts_with("second")), "{command:?} {format}: {said}");
            if matches!(format, "text" | "markdown") && command[0] == "compare" {
                continue;
            }
            assert!(said.contains(r"X\u{1b}]0;owned\u{7}\u{202e}\nsecond"), "{command:?} {format}: {said}");
        }
        let output = parallax(dir.path(), &[command, &["--format", "csv"]].concat());
        let fields = String::from_utf8(output.stdout).expect("text").replace('\n', ",");
        assert!(fields.contains(&format!(",'{FORMULA},")), "{fields}");
        assert!(!fields.contains(&format!(",{FORMULA}")) && !fields.contains(",\"="), "{fields}");
    }
    // Mistakes name their object.
    let output = parallax(dir.path(), &["compare", "a.json", "b.json", "--tax"]);
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.code() == Some(2) && said.contains(r"X\u{1b}]0;"), "{said:?}");
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{said:?}");
    // Programs get the file's text.
    let output = parallax(dir.path(), &["report", "a.json", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows[0]["device"], NAME);
}
