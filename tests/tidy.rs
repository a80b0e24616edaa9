//! House rules that no compiler checks.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("readable").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// `cargo fmt` does not see modules that a build script declares.
#[test]
fn workloads_are_formatted() {
    let mut found = Vec::new();
    files(&root().join("core/src/suite/workloads"), &mut found);
    assert!(found.len() >= 3);
    let status =
        Command::new("rustfmt").args(["--edition", "2024", "--check"]).args(&found).current_dir(root()).status();
    assert!(status.expect("rustfmt is installed").success(), "run rustfmt on core/src/suite/workloads");
}

/// Core decides and computes; it has no clock, touches no file, prints nothing and knows no GPU interface.
#[test]
fn core_stays_pure() {
    let mut found = Vec::new();
    files(&root().join("core/src"), &mut found);
    for path in found {
        let text = std::fs::read_to_string(&path).expect("readable");
        let code: String = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        for word in ["std::time", "std::fs", "std::net", "std::env", "println!", "eprintln!", "wgpu::", "cudarc"] {
            assert!(!code.contains(word), "{} uses {word}", path.display());
        }
    }
}
