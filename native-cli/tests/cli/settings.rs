//! The settings file.

use crate::{folder, mistake, parallax};

#[test]
fn a_settings_file_is_read_and_flags_win_over_it() {
    let dir = folder();
    std::fs::write(dir.path().join("parallax.toml"), "filter = '*conv2d'\ndirection = ['fwd', 'bwd']\nbudget = 3\n")
        .expect("written");
    std::fs::write(dir.path().join("other.toml"), "filter = ['matmul', 'copy']\nceilings = false\n").expect("written");
    let shown = |args: &[&str]| -> Vec<(String, String, String)> {
        let output = parallax(dir.path(), &[&["config", "--json"], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        let values = |row: &serde_json::Value| {
            let values = row["values"].as_array().expect("a list");
            values.iter().map(|v| v.as_str().expect("text")).collect::<Vec<_>>().join(" ")
        };
        let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
        rows.iter().map(|row| (text(&row["setting"]), values(row), text(&row["from"]))).collect()
    };
    let row = |name: &str, value: &str, from: &str| (name.to_owned(), value.to_owned(), from.to_owned());
    let usual = shown(&["--budget", "9", "--with-stack"]);
    for expected in [
        row("filter", "*conv2d", "parallax.toml"),
        row("direction", "fwd bwd", "parallax.toml"),
        row("budget", "9", "--budget"),
        row("with-stack", "on", "--with-stack"),
        row("preset", "quick", "default"),
        row("precision", "", "default"),
    ] {
        assert!(usual.contains(&expected), "{expected:?} in {usual:?}");
    }
    let other = shown(&["--config", "other.toml", "--filter", "fma", "--direction", "fwd+bwd", "--ceilings", "on"]);
    for expected in [
        row("filter", "fma", "--filter"),
        row("direction", "fwd+bwd", "--direction"),
        row("ceilings", "on", "--ceilings"),
        row("budget", "45", "default"),
    ] {
        assert!(other.contains(&expected), "{expected:?} in {other:?}");
    }
    let said = parallax(dir.path(), &["list", "--target", "cpu"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("depthwise_conv2d/") && !said.contains("attention/"), "{said}");
    std::fs::write(dir.path().join("parallax.toml"), "presett = 'quick'\n").expect("written");
    mistake(
        dir.path(),
        &["list", "--target", "cpu"],
        &["parallax.toml: unknown setting `presett`", "did you mean `preset`?"],
    );
}
