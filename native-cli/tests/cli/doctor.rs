//! `doctor` on this machine. Unit tests cover its conclusions.

use crate::{folder, mistake, parallax, parallax_with};

#[test]
fn the_doctor_tells_what_is_missing_and_answers_with_its_exit_code() {
    let dir = folder();
    let said = |args: &[&str]| {
        let output = parallax(dir.path(), &[&["doctor"], args].concat());
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let (code, text) = said(&["--target", "cpu"]);
    assert!(code == Some(0) && text.starts_with("Ready: cpu.\n\ncpu: works\n"), "{text}");
    let absent = ["--target", "browser", "--target", "cpu", "--page", "no-page", "--browser", "/no/such/browser"];
    let (code, text) = said(&absent);
    assert_eq!(code, Some(1), "{text}");
    for part in ["browser: does not run\n", "no index.html in no-page", "/no/such/browser", "`./x page`", "Not ready: "]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let narrow = parallax_with(dir.path(), &[&["doctor"], &absent[..]].concat(), &[("COLUMNS", "60")]);
    for line in String::from_utf8(narrow.stdout).expect("UTF-8").lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
    let (code, text) = said(&[&absent[..], &["--json"]].concat());
    assert_eq!(code, Some(1));
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&all[0]["target"], &all[0]["state"]), (&"browser".into(), &"missing".into()), "{all}");
    mistake(
        dir.path(),
        &["doctor", "--target", "gpu"],
        &["unknown target `gpu`: did you mean `wgpu`? choose one of cuda, wgpu, browser, cpu"],
    );
}
