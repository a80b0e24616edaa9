//! `report`: run files as they are.

use std::path::PathBuf;

use clap::Args;
use parallax_core::record::Run;
use parallax_core::report::{self as tables, html, sheet};

use crate::commands::run_files::{Format, Written, emit, read};
use crate::table;

/// `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Run files; `-` is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub written: Written,
}

/// Show runs as they are.
pub fn report(args: &Report) -> anyhow::Result<()> {
    let runs = read(&args.files)?;
    let each = |one: fn(&Run) -> String, gap: &str| runs.iter().map(|(_, run)| one(run)).collect::<Vec<_>>().join(gap);
    let text = match args.written.format() {
        Format::Text => each(table::run, "\n\n") + "\n",
        Format::Markdown => each(|run| tables::table(run).markdown(), "\n"),
        Format::Csv => sheet::csv(&sheet::rows(&runs, None)),
        Format::Json => serde_json::to_string(&sheet::rows(&runs, None))? + "\n",
        Format::Html => html::page(&runs, None, None),
    };
    emit(&args.written, &args.files, &text)
}
