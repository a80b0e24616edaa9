//! Layout of tables: width and colours on request.

use crate::comparing::recorded;
use crate::{folder, parallax_with};

const COMPARE: [&str; 3] = ["compare", "a.json", "b.json"];

#[test]
fn tables_are_as_wide_as_the_terminal_or_80_columns() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    recorded(dir.path(), "b.json", "cuda", "X", 1.1);
    for (columns, has, lacks) in [
        (None, "1.100× [", "\n  h1,"),
        (Some("120"), "MDE  \n", ""),
        (Some("40"), "1.100× slower", "1.100× ["),
        (Some("0"), "1.100× [", "\n  h1,"),
        (Some("wide"), "1.100× [", "\n  h1,"),
    ] {
        let variables: Vec<(&str, &str)> = columns.iter().map(|columns| ("COLUMNS", *columns)).collect();
        let output = parallax_with(dir.path(), &COMPARE, &variables);
        let said = String::from_utf8(output.stdout).expect("text");
        let room = columns.and_then(|columns| columns.parse().ok()).filter(|n| *n > 0).unwrap_or(80);
        assert!(said.lines().all(|line| line.chars().count() <= room), "{columns:?}: {said}");
        assert!(said.contains(has.trim()), "{columns:?}: {said} lacks {has}");
        assert!(lacks.is_empty() || !said.contains(lacks), "{columns:?}: {said} has {lacks}");
    }
}

#[test]
fn colours_are_for_those_who_want_them() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    recorded(dir.path(), "b.json", "cuda", "X", 1.1);
    const RED: &str = "\u{1b}[";
    for (flags, variables, coloured) in [
        (&[][..], &[][..], false),
        (&["--color", "auto"], &[], false),
        (&["--color", "always"], &[], true),
        (&["--color", "always"], &[("NO_COLOR", "1")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
        (&["--color", "always", "--markdown"], &[], false),
        (&["--color", "always", "--format", "csv"], &[], false),
        (&["--color", "always", "--output", "/dev/stdout"], &[], false),
    ] {
        let output = parallax_with(dir.path(), &[&COMPARE[..], flags].concat(), variables);
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && said.contains("1.1"), "{flags:?}: {said}");
        assert_eq!(said.contains(RED), coloured, "{flags:?} {variables:?}: {said:?}");
    }
}
