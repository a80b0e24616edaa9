//! `trace`: differences of trace files.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use parallax_analysis::trace::diff::TraceDiff;
use parallax_report::trace_diff_table;
use serde::Serialize;

use crate::args::RESULTS;
use crate::commands::run_files::{Made, Written, emit};
use crate::console::width;
use crate::{table, trace_input};

/// `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Action.
    #[command(subcommand)]
    pub action: Action,
}

/// Actions on trace files.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Compare the stages of two traces, the largest growth first
    ///
    /// Stages are aligned by case and label. A stage is slower or faster if the 95 % intervals of both medians lie apart, and
    /// undecided if they overlap.
    Diff(Diff),
}

/// `trace diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// Trace A, the base: a .trace.json or .trace.json.gz of `run`, or a trace of PyTorch's profiler
    pub a: PathBuf,
    /// Trace B
    pub b: PathBuf,
    /// Keep matching cases, as in attention*flash; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub filter: Vec<String>,
    /// text, markdown or json
    #[arg(long, value_enum, help_heading = RESULTS, hide_possible_values = true, default_value_t = DiffFormat::Text)]
    pub format: DiffFormat,
    /// Short for --format json
    #[arg(long, help_heading = RESULTS, conflicts_with = "format")]
    pub json: bool,
    /// File for the output [default: stdout]
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub output: Option<PathBuf>,
}

/// Formats of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// A table for the terminal
    Text,
    /// A table for documents
    Markdown,
    /// Every figure in full
    Json,
}

/// JSON of a difference.
#[derive(Serialize)]
struct Output<'a> {
    a: String,
    b: String,
    #[serde(flatten)]
    diff: &'a TraceDiff,
}

/// Executes an action on trace files.
pub fn trace(args: &TraceArgs) -> anyhow::Result<()> {
    match &args.action {
        Action::Diff(args) => diff(args),
    }
}

fn diff(args: &Diff) -> anyhow::Result<()> {
    let diff = TraceDiff::of(&trace_input::read(&args.a)?, &trace_input::read(&args.b)?, &args.filter);
    if diff.stages.is_empty() {
        bail!("no case of these traces matches filter `{}`", args.filter.join("`, `"));
    }
    let [a, b] = [&args.a, &args.b].map(|path| path.display().to_string());
    let mut shown = trace_diff_table(&diff);
    shown.heading = vec![format!("A: {a}"), format!("B: {b}")];
    let made = match if args.json { DiffFormat::Json } else { args.format } {
        DiffFormat::Text => Made::Tables(table::text(&shown, width())),
        DiffFormat::Markdown => Made::Text(shown.markdown()),
        DiffFormat::Json => Made::Text(serde_json::to_string(&Output { a, b, diff: &diff })? + "\n"),
    };
    let written = Written { format: None, output: args.output.clone(), json: false, markdown: false, summary: false };
    emit(&written, &[args.a.clone(), args.b.clone()], &made)
}
