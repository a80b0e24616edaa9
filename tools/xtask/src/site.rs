//! The hosted site of the recorded runs.

use anyhow::Result;

use crate::programs::build_page;
use crate::shell::Shell;

const RECORDED: &str = "docs/results";
const TARGETS: [&str; 3] = ["cuda", "wgpu", "browser"];
/// Sessions that measured other libraries.
const PEERS: [&str; 4] = ["2026-11-25-h100", "2026-11-26-h100", "2026-11-23-h200", "2026-11-25-h200"];

/// Builds the page and the program, and writes the site to a folder.
///
/// # Errors
/// A build that fails.
pub fn build_anew(shell: &Shell, folder: &str) -> Result<()> {
    build_page(&mut shell.clone())?;
    shell.run("cargo build --release --quiet")?;
    let program = shell.target().join("release/parallax");
    build(shell, &program.to_string_lossy(), "dist", folder)
}

/// Writes the site: the newest runs of the quick preset and of transformer blocks on three targets, for each GPU; figures of other
/// libraries; guides, recorded sessions and the notebook.
///
/// # Errors
/// A program that fails.
pub fn build(shell: &Shell, program: &str, page: &str, folder: &str) -> Result<()> {
    let mut line = vec!["site".to_owned()];
    for target in TARGETS {
        for part in ["", "-attention-block", "-encoder-layer"] {
            line.push(format!("{RECORDED}/2026-11-27-h100/{target}{part}.json"));
        }
        line.push(format!("{RECORDED}/2026-11-23-h200/{target}.json"));
        for part in ["attention-block", "encoder-layer"] {
            line.push(format!("{RECORDED}/2026-11-22-h200-blocks/{target}-{part}.json"));
        }
    }
    for session in PEERS {
        line.extend(["--peers".to_owned(), format!("{RECORDED}/{session}/peers.json")]);
    }
    line.extend(["--docs", "docs", "--page", page, "--out", folder].map(str::to_owned));
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    shell.run_words(program, &line, &shell.path(""))
}
