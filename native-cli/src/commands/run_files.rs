//! Run files in, tables and pages out: what `compare` and `report` share.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use parallax_core::record::Run;
use serde_json::Value;

use crate::args::RESULTS;
use crate::console::Painted;
use crate::{console, files};

/// How and where `compare` and `report` write.
#[derive(Debug, Args)]
pub struct Written {
    /// text, markdown, csv, json, html (one page with plots) or, of `report`, flamegraph (SVG) [default: text]
    #[arg(long, value_enum, help_heading = RESULTS, hide_possible_values = true)]
    pub format: Option<Format>,
    /// Where to write it; stdout when left out
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub output: Option<PathBuf>,
    /// Short for --format json
    #[arg(long, help_heading = RESULTS, conflicts_with_all = ["markdown", "format"])]
    pub json: bool,
    /// Short for --format markdown
    #[arg(long, help_heading = RESULTS, conflicts_with = "format", hide_short_help = true)]
    pub markdown: bool,
}

/// How tables and pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for the terminal
    Text,
    /// A table for documents
    Markdown,
    /// One row per case and run, every figure in full
    Csv,
    /// The same for programs
    Json,
    /// One page with plots
    Html,
    /// Device time by stage as an SVG, for `report` alone
    Flamegraph,
}

impl Written {
    /// The format asked for, in its long or its short form.
    pub fn format(&self) -> Format {
        match (self.format, self.json, self.markdown) {
            (Some(format), ..) => format,
            (None, true, _) => Format::Json,
            (None, _, true) => Format::Markdown,
            _ => Format::Text,
        }
    }
}

/// What `compare` and `report` make of run files.
pub enum Made {
    /// For people; colours do not go into files.
    Tables(Painted),
    /// In a format of its own.
    Text(String),
}

/// Write what was made of these run files where it was asked for.
pub fn emit(written: &Written, read: &[PathBuf], made: &Made) -> anyhow::Result<()> {
    match (&written.output, made) {
        (Some(path), made) => {
            let text = match made {
                Made::Tables(tables) => tables.plain() + "\n",
                Made::Text(text) => text.clone(),
            };
            files::not_an_input(path, read.iter().map(PathBuf::as_path))?;
            files::write_text(path, &text)?;
        }
        (None, Made::Tables(tables)) => console::show(tables),
        (None, Made::Text(text)) => console::bytes(text.as_bytes()),
    }
    Ok(())
}

/// Stands for standard input among files.
const STDIN: &str = "-";

fn contents(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new(STDIN) {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The runs of a text: one, or a list of them as `run --json` prints it.
fn parse(text: &str) -> anyhow::Result<Vec<Run>> {
    match serde_json::from_str::<Vec<Value>>(text.trim_start_matches('\u{feff}')) {
        Ok(several) if !several.is_empty() => {
            several.into_iter().map(|one| Ok(Run::parse(&one.to_string())?)).collect()
        }
        _ => Ok(vec![Run::parse(text)?]),
    }
}

/// Read run files. Their names are the targets while those tell them apart, then the files' stems, then the paths.
pub fn read(files: &[PathBuf]) -> anyhow::Result<Vec<(String, Run)>> {
    if files.iter().filter(|path| *path == Path::new(STDIN)).count() > 1 {
        bail!("standard input (`{STDIN}`) can be read only once");
    }
    let mut runs = Vec::new();
    let mut origins = Vec::new();
    for path in files {
        // Lossy, because a file that was cut off may end within a letter.
        let bytes = contents(path).with_context(|| format!("cannot read {}", path.display()))?;
        let parsed = parse(&String::from_utf8_lossy(&bytes)).with_context(|| path.display().to_string())?;
        origins.extend(parsed.iter().map(|_| path));
        runs.extend(parsed);
    }
    let stem =
        |path: &Path| path.file_stem().map_or_else(|| path.display().to_string(), |s| s.to_string_lossy().into());
    let targets: Vec<String> = runs.iter().map(|run| run.target.clone()).collect();
    let stems: Vec<String> = origins.iter().map(|path| stem(path)).collect();
    let paths: Vec<String> = origins.iter().map(|path| path.display().to_string()).collect();
    let distinct = |names: &&Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let names = [&targets, &stems].into_iter().find(distinct).unwrap_or(&paths);
    Ok(names.iter().cloned().zip(runs).collect())
}
