//! `report`: run files as they are.

use std::path::PathBuf;

use clap::Args;
use parallax_core::compare::{Scaled, scaled};
use parallax_core::report::{self as tables, html, sheet};

use crate::commands::run_files::{Format, Made, Written, emit, read};
use crate::commands::scaling;
use crate::console::width;
use crate::{flamegraph, table};

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
    let made = match args.written.format() {
        Format::Text => {
            let of_runs = runs.iter().map(|(_, run)| table::run(run, width()));
            let along = scaling::of_named(&runs, None);
            Made::Tables(table::below_each_other(of_runs.chain(Some(along).filter(|along| !along.is_empty()))))
        }
        Format::Markdown => {
            let along: Vec<Scaled> = scaled(&runs, None);
            let along = along.iter().map(tables::scaling_table);
            let all = runs.iter().map(|(_, run)| tables::table(run)).chain(along);
            Made::Text(all.map(|table| table.markdown()).collect::<Vec<_>>().join("\n"))
        }
        Format::Csv => Made::Text(sheet::csv(&sheet::rows(&runs, None))),
        Format::Json => Made::Text(serde_json::to_string(&sheet::rows(&runs, None))? + "\n"),
        Format::Html => Made::Text(html::page(&runs, None, None)),
        Format::Flamegraph => Made::Text(flamegraph::svg(&runs)?),
    };
    emit(&args.written, &args.files, &made)
}
