//! Exit codes, for scripts.

use parallax::help::EXIT_CODES;

use crate::comparing::recorded;
use crate::{TINY, folder, parallax};

#[test]
fn each_exit_code_means_what_the_help_says() {
    let dir = folder();
    let old = recorded(dir.path(), "old.json", "cpu", "a device", 1.0);
    let new = recorded(dir.path(), "new.json", "cpu", "a device", 2.0);
    let elsewhere = "attention/fwd/b1,h1,s3,d2/f32/flash";
    for (code, args) in [
        (0, &["--help"][..]),
        (0, &["list", "--target", "cpu"]),
        (0, &["verify", "--target", "cpu", "--case", TINY]),
        (0, &["compare", &old, &new]),
        (0, &["compare", &old, &new, "--fail-if-slower", "150%"]),
        // A gate does not hold.
        (1, &["compare", &old, &new, "--fail-if-slower", "5%"]),
        // A case that was named ran nowhere.
        (1, &["verify", "--target", "cpu", "--case", elsewhere]),
        // Mistakes in the call, in a setting, in a file.
        (2, &["--no-such-option"]),
        (2, &["no-such-command"]),
        (2, &["compare"]),
        (2, &["run", "--budget", "0"]),
        (2, &["report", "absent.json"]),
        // Something that cannot be written.
        (2, &["report", &old, "--output", "old.json/page.html"]),
    ] {
        let output = parallax(dir.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(EXIT_CODES.iter().any(|(known, _)| *known == code.to_string()));
    }
}

#[test]
fn the_guide_has_the_table_of_the_help() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/run.md");
    let guide = std::fs::read_to_string(path).expect("beside the crates");
    for (code, what) in EXIT_CODES {
        let row = format!("| {code} | {what} |");
        assert!(guide.contains(&row), "docs/guide/run.md lacks the row: {row}");
    }
}
