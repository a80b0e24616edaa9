//! Input of run files and output of tables and pages, shared by `compare` and `report`.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use parallax_engine::plan::did_you_mean;
use parallax_schema::record::{NamedRun, Run};
use parallax_schema::spec::filter::any_keeps;

use crate::args::RESULTS;
use crate::console::Painted;
use crate::{console, files, reading};

/// How and where `compare` and `report` write.
#[derive(Debug, Args)]
pub struct Written {
    /// text, markdown, csv, json, parquet, html, junit; of `report` also flamegraph (SVG), bmf, customSmallerIsBetter, pytorch
    ///
    /// html is one page with plots. parquet has the rows of csv, for DuckDB, pandas and polars. junit has a test for each case. bmf is the Bencher Metric Format. customSmallerIsBetter is a tool of
    /// github-action-benchmark. pytorch is version 3 of PyTorch's OSS benchmark database. Default: text.
    #[arg(long, value_enum, help_heading = RESULTS, hide_possible_values = true)]
    pub format: Option<Format>,
    /// File for the output [default: stdout]
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub output: Option<PathBuf>,
    /// Short for --format json
    #[arg(long, help_heading = RESULTS, conflicts_with_all = ["markdown", "format"])]
    pub json: bool,
    /// Short for --format markdown
    #[arg(long, help_heading = RESULTS, conflicts_with = "format", hide_short_help = true)]
    pub markdown: bool,
    /// Append a summary in Markdown to the file of GITHUB_STEP_SUMMARY
    ///
    /// The page of a job of GitHub Actions shows it. Without the variable nothing is written.
    #[arg(long, help_heading = RESULTS, hide_short_help = true)]
    pub summary: bool,
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
    /// The rows of csv as columns, for DuckDB, pandas and polars
    Parquet,
    /// One page with plots
    Html,
    /// JUnit XML, a test for each case
    Junit,
    /// Device time by stage as an SVG, for `report` alone
    Flamegraph,
    /// Bencher Metric Format, for `report` alone
    Bmf,
    /// A tool of github-action-benchmark, for `report` alone
    #[value(name = "customSmallerIsBetter", alias = "custom-smaller-is-better")]
    CustomSmallerIsBetter,
    /// PyTorch's OSS benchmark database, version 3, for `report` alone
    Pytorch,
}

impl Written {
    /// Returns the requested format, from its long or short option.
    pub fn format(&self) -> Format {
        match (self.format, self.json, self.markdown) {
            (Some(format), ..) => format,
            (None, true, _) => Format::Json,
            (None, _, true) => Format::Markdown,
            _ => Format::Text,
        }
    }
}

/// The cases that `compare` and `report` show.
#[derive(Debug, Args)]
pub struct Shown {
    /// Keep matching cases, as in attention*flash; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub filter: Vec<String>,
}

impl Shown {
    /// Removes the other cases from these runs.
    ///
    /// # Errors
    /// No case left.
    pub fn keep(&self, runs: &mut [NamedRun]) -> anyhow::Result<()> {
        let kept = |case: &str| any_keeps(&self.filter, case);
        for NamedRun { run, .. } in runs.iter_mut() {
            run.retain(kept);
        }
        if !self.filter.is_empty() && runs.iter().all(|NamedRun { run, .. }| run.records.is_empty()) {
            bail!("no case of these runs matches filter `{}`{}", self.filter.join("`, `"), did_you_mean(&self.filter));
        }
        Ok(())
    }
}

/// Output of `compare` and `report`.
pub enum Made {
    /// Tables for people. Files get them without colours.
    Tables(Painted),
    /// Text in another format.
    Text(String),
    /// Binary format.
    Bytes(Vec<u8>),
}

/// Writes the output of these run files to its destination.
pub fn emit(written: &Written, read: &[PathBuf], made: &Made) -> anyhow::Result<()> {
    match (&written.output, made) {
        (Some(path), made) => {
            files::not_an_input(path, read.iter().map(PathBuf::as_path))?;
            match made {
                Made::Tables(tables) => files::write_text(path, &(tables.plain() + "\n"))?,
                Made::Text(text) => files::write_text(path, text)?,
                Made::Bytes(bytes) => files::write(path, |to| to.write_all(bytes))?,
            }
        }
        (None, Made::Tables(tables)) => console::show(tables),
        (None, Made::Text(text)) => console::bytes(text.as_bytes()),
        (None, Made::Bytes(_)) if std::io::stdout().is_terminal() => {
            bail!("parquet is no text: name a file with --output FILE")
        }
        (None, Made::Bytes(bytes)) => console::bytes(bytes),
    }
    Ok(())
}

/// Reads run files. Names are the targets if those are unique, else the file stems if unique, else the paths.
pub fn read(files: &[PathBuf]) -> anyhow::Result<Vec<NamedRun>> {
    let (origins, runs): (Vec<&Path>, Vec<Run>) = reading::runs(files)?.into_iter().unzip();
    // A compressed file has two extensions.
    let stem = |path: &Path| match path.file_stem() {
        Some(stem) => stem.to_string_lossy().trim_end_matches(".json").to_owned(),
        None => path.display().to_string(),
    };
    let targets: Vec<String> = runs.iter().map(|run| run.target.clone()).collect();
    let stems: Vec<String> = origins.iter().map(|path| stem(path)).collect();
    let paths: Vec<String> = origins.iter().map(|path| path.display().to_string()).collect();
    let distinct = |names: &&Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let names = [&targets, &stems].into_iter().find(distinct).unwrap_or(&paths);
    Ok(names.iter().zip(runs).map(|(name, run)| NamedRun::new(name.clone(), run)).collect())
}
