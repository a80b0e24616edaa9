//! The hosted site of the recorded runs.

use std::fs;

use anyhow::{Context, Result};

use crate::programs::build_page;
use crate::shell::Shell;

const RECORDED: &str = "docs/results";
const TARGETS: [&str; 3] = ["cuda", "wgpu", "browser"];
/// Newest complete session on the H200. Its manifest lists the run files of the site. Runs on another card would be another device.
const NEWEST: &str = "2026-11-29-h200";
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
/// A manifest without its list; a program that fails.
pub fn build(shell: &Shell, program: &str, page: &str, folder: &str) -> Result<()> {
    let mut line = vec!["site".to_owned()];
    for target in TARGETS {
        for part in ["", "-attention-block", "-encoder-layer"] {
            line.push(format!("{RECORDED}/2026-11-27-h100/{target}{part}.json"));
        }
    }
    let manifest = shell.path(&format!("{RECORDED}/{NEWEST}/manifest.toml"));
    let manifest = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    let listed = listed(&manifest).with_context(|| format!("{NEWEST}: the manifest lists no files in `site`"))?;
    line.extend(listed.iter().map(|name| format!("{RECORDED}/{NEWEST}/{name}.json")));
    for session in PEERS {
        line.extend(["--peers".to_owned(), format!("{RECORDED}/{session}/peers.json")]);
    }
    line.extend(["--docs", "docs", "--page", page, "--out", folder].map(str::to_owned));
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    shell.run_words(program, &line, &shell.path(""))
}

/// Returns the names in the line `site = ["cuda", "wgpu"]` of a manifest; `None` without one.
fn listed(manifest: &str) -> Option<Vec<&str>> {
    let names = manifest.lines().find_map(|line| line.strip_prefix("site = [")?.strip_suffix(']'))?;
    names.split(',').map(|name| name.trim().strip_prefix('"')?.strip_suffix('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_list_the_files_of_the_site() {
        assert_eq!(listed("a = 1\nsite = [\"cuda\", \"wgpu-checked\"]\n"), Some(vec!["cuda", "wgpu-checked"]));
        for text in ["", "site = []", "site = [cuda]", "site = [\"cuda\""] {
            assert_eq!(listed(text), None, "{text}");
        }
    }
}
