//! `history`: series of many run files, their changes, and the causes.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use parallax_analysis::history::{History as Found, HistoryBuilder, Unreadable};
use parallax_engine::plan::did_you_mean;
use parallax_report::{self as report, html, sheet};
use parallax_schema::spec::filter::any_keeps;

use crate::commands::compare::share;
use crate::commands::run_files::{Format, Made, Shown, Written, emit};
use crate::console::{errln, outln, width};
use crate::places::{Place, files_of, places, read_each};
use crate::{parquet, table};

/// Help heading of gates.
const GATES: &str = "Gates";

/// `history`.
#[derive(Debug, Args)]
pub struct History {
    /// Folders, patterns such as 'nightly/*.json', run files, or object stores such as s3://BUCKET/PREFIX
    ///
    /// Folders are searched with their subfolders; traces are passed over. Stores are s3://, gs://, az:// and file://, with the
    /// variables of their own tools: AWS_…, GOOGLE_… and AZURE_….
    #[arg(value_name = "DIR|PATTERN|FILE|URL", default_value = "results")]
    pub paths: Vec<PathBuf>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub shown: Shown,
    /// Smallest difference that counts, as in 5% or 0.05
    ///
    /// Default: 1 % on a GPU and 5 % on an emulated one, or coarser for runs with more noise.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub resolution: Option<String>,
    /// Exit with code 1 if a kernel is slower since the newest change of its series
    #[arg(long, help_heading = GATES)]
    pub fail_if_changed: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub written: Written,
}

/// Error message for the other formats.
const NO_HISTORY: &str =
    "this format is of single runs and has no history: `parallax report FILE --format FORMAT` writes it";

/// Reads run files, and shows the changes of their series.
pub fn history(args: &History) -> anyhow::Result<ExitCode> {
    let resolution = args.resolution.as_deref().map(|text| share("--resolution", text)).transpose()?;
    // Other formats are refused before the files are read.
    let made = writer(args.written.format())?;
    let places = places(&args.paths)?;
    let found = read(&places, &args.shown.filter).finish(resolution);
    if found.runs.is_empty() {
        bail!("{}", nothing(&args.paths, &found.unreadable));
    }
    if found.series.is_empty() {
        match args.shown.filter.is_empty() {
            true => bail!("no run of these files has a timed case; `parallax run` measures some"),
            false => bail!(
                "no timed case of these runs matches filter `{}`{}",
                args.shown.filter.join("`, `"),
                did_you_mean(&args.shown.filter)
            ),
        }
    }
    emit(&args.written, &files_of(&places), &made(&found)?)?;
    match args.fail_if_changed {
        true => Ok(gate(&args.written, &report::history::slowdowns(&found))),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// Prints the findings of a gate. Returns exit code 1 if there are any.
pub(super) fn gate(written: &Written, findings: &[String]) -> ExitCode {
    // Text for people goes to stdout, unless stdout carries machine-readable output.
    let machines = written.output.is_none() && written.format() != Format::Text;
    for line in findings.iter().map(|line| report::escape(line)) {
        if machines { errln!("{line}") } else { outln!("{line}") }
    }
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Returns the message about files without a run.
pub(super) fn nothing(paths: &[PathBuf], unreadable: &[Unreadable]) -> String {
    let names = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    match unreadable {
        [] => format!("no run file in {names}; `parallax run` writes one"),
        [first, ..] => format!(
            "no readable run in {names}; the first of {} is {}: {}",
            parallax_schema::units::counted(unreadable.len(), "file"),
            first.file,
            first.reason
        ),
    }
}

/// Returns the function that writes a history in a format.
///
/// # Errors
/// Format of single runs.
fn writer(format: Format) -> anyhow::Result<fn(&Found) -> anyhow::Result<Made>> {
    Ok(match format {
        Format::Text => |found| Ok(Made::Tables(table::text(&report::history::table(found), width()))),
        Format::Markdown => |found| Ok(Made::Text(report::history::table(found).markdown())),
        Format::Csv => |found| Ok(Made::Text(sheet::csv(&report::history::rows(found)))),
        Format::Parquet => |found| Ok(Made::Bytes(parquet::file(&report::history::rows(found))?)),
        Format::Json => |found| Ok(Made::Text(serde_json::to_string(found)? + "\n")),
        Format::Html => |found| Ok(Made::Text(html::history(found))),
        _ => bail!(NO_HISTORY),
    })
}

/// Reads the places, and reduces each to its points.
pub(super) fn read(places: &[Place], filter: &[String]) -> HistoryBuilder {
    read_each(places, HistoryBuilder::default(), |builder, name, read| match read {
        Ok(runs) => runs.iter().for_each(|run| builder.add(&name, run, |case| any_keeps(filter, case))),
        Err(reason) => builder.skip(name, reason),
    })
}
