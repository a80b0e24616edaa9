//! The hosted site of the recorded runs.

use anyhow::Result;

use crate::programs::build_page;
use crate::shell::Shell;

const RECORDED: &str = "docs/results";
const TARGETS: [&str; 3] = ["cuda", "wgpu", "browser"];
/// Newest session on the H200 with every column, and its run files, nearest to the hardware first.
const COLUMNS: (&str, [&str; 6]) =
    ("2026-11-29-h200-tax", ["cuda", "wgpu", "wgpu-checked", "browser-stock", "browser-firefox", "browser-unsafe"]);
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

/// Writes the site: the newest runs of the quick preset and of transformer blocks, for each GPU; figures of other libraries; guides,
/// recorded sessions and the notebook.
///
/// # Errors
/// A program that fails.
pub fn build(shell: &Shell, program: &str, page: &str, folder: &str) -> Result<()> {
    let mut line = vec!["site".to_owned()];
    for target in TARGETS {
        for part in ["", "-attention-block", "-encoder-layer"] {
            line.push(format!("{RECORDED}/2026-11-27-h100/{target}{part}.json"));
        }
    }
    let (session, files) = COLUMNS;
    line.extend(files.map(|name| format!("{RECORDED}/{session}/{name}.json")));
    for session in PEERS {
        line.extend(["--peers".to_owned(), format!("{RECORDED}/{session}/peers.json")]);
    }
    line.extend(["--history", RECORDED, "--docs", "docs", "--page", page, "--out", folder].map(str::to_owned));
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    shell.run_words(program, &line, &shell.path(""))
}
