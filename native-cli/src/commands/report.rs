//! `report`: tables and pages of run files.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use parallax_analysis::compare::{over_gpus, scaled};
use parallax_report as tables;
use parallax_report::{ci, html, sheet};
use parallax_schema::record::NamedRun;
use parallax_workloads::Registry;
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::run_files::{Format, Made, Shown, Written, emit, read};
use crate::commands::{baseline, scaling};
use crate::console::{noteln, width};
use crate::{flamegraph, parquet, recorded, summary, table};

/// `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Run files; `-` is standard input
    ///
    /// Default: the newest of the folder for the results.
    pub files: Vec<PathBuf>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results", hide_short_help = true)]
    pub out: PathBuf,
    /// Summarise a recorded session in Markdown: a folder with manifest.toml and run files
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "filter", "format", "json", "summary"], hide_short_help = true)]
    pub session: Option<PathBuf>,
    /// A row for each sample in place of each case, with csv, json or parquet
    #[arg(long, hide_short_help = true)]
    pub samples: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub shown: Shown,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub written: Written,
}

/// Shows runs without a comparison.
pub fn report(args: &Report) -> anyhow::Result<()> {
    let format = args.written.format();
    if args.samples && !matches!(format, Format::Csv | Format::Json | Format::Parquet) {
        bail!("--samples gives rows: name --format csv, json or parquet");
    }
    if let Some(folder) = &args.session {
        let summary = recorded::read(folder)?.summary();
        return emit(&args.written, &[], &Made::Text(summary));
    }
    let files = match args.files.is_empty() {
        false => args.files.clone(),
        true => {
            let newest = baseline::newest(&args.out, 1)?;
            newest.iter().for_each(|path| noteln!("shown: {}", path.display()));
            newest
        }
    };
    let mut runs = read(&files)?;
    args.shown.keep(&mut runs)?;
    let made = match format {
        Format::Text => {
            let of_runs = runs.iter().flat_map(|NamedRun { run, .. }| {
                let model = tables::model_table(run).map(|model| table::text(&model, width()));
                std::iter::once(table::run(run, width())).chain(model)
            });
            let along = scaling::of_named(&runs, None);
            Made::Tables(table::below_each_other(of_runs.chain(Some(along).filter(|along| !along.is_empty()))))
        }
        Format::Markdown => {
            let (along, over_gpus) = (scaled(&Registry, &runs, None), over_gpus(&Registry, &runs));
            let along = along.iter().map(tables::scaling_table).chain(over_gpus.iter().map(tables::gpus_table));
            let of_run = |NamedRun { run, .. }: &NamedRun| {
                std::iter::once(tables::table(&Registry, run)).chain(tables::model_table(run)).collect::<Vec<_>>()
            };
            let all = runs.iter().flat_map(of_run).chain(along);
            Made::Text(all.map(|table| table.markdown()).collect::<Vec<_>>().join("\n"))
        }
        Format::Csv | Format::Json | Format::Parquet if args.samples => rows(format, &sheet::samples(&runs))?,
        Format::Csv | Format::Json | Format::Parquet => rows(format, &sheet::rows(&runs, None))?,
        Format::Html => Made::Text(html::page(&Registry, &runs, None, None)),
        Format::Flamegraph => Made::Text(flamegraph::svg(&runs)?),
        Format::Junit => Made::Text(ci::junit(&runs)),
        Format::Bmf => Made::Text(ci::bmf(&runs)),
        Format::CustomSmallerIsBetter => Made::Text(ci::custom_smaller_is_better(&runs)),
        Format::Pytorch => Made::Text(ci::pytorch(&runs)),
    };
    emit(&args.written, &files, &made)?;
    if args.written.summary {
        summary::append(&ci::run_summary(&Registry, &runs))?;
    }
    Ok(())
}

/// Returns rows as JSON, Parquet or CSV.
fn rows<Row: Serialize + JsonSchema>(format: Format, rows: &[Row]) -> anyhow::Result<Made> {
    Ok(match format {
        Format::Json => Made::Text(serde_json::to_string(rows)? + "\n"),
        Format::Parquet => Made::Bytes(parquet::file(rows)?),
        _ => Made::Text(sheet::csv(rows)),
    })
}
