//! `fleet`: cards that differ from the others of their kind, by many run files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use parallax_analysis::fleet::{Fleet as Found, FleetBuilder};
use parallax_report::{self as report, html, sheet};
use parallax_schema::spec::filter::any_keeps;

use crate::commands::compare::share;
use crate::commands::history::{gate, nothing};
use crate::commands::run_files::{Format, Made, Shown, Written, emit};
use crate::console::width;
use crate::places::{Place, files_of, places, read_each};
use crate::{parquet, table};

/// Help heading of gates.
const GATES: &str = "Gates";

/// `fleet`.
#[derive(Debug, Args)]
pub struct Fleet {
    /// Folders, patterns such as 'nodes/*.json', run files, or object stores such as s3://BUCKET/PREFIX
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
    /// Default: 1 % on GPUs and 5 % on emulated ones. A card also has to be an outlier among its kind.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub resolution: Option<String>,
    /// Exit with code 1 if a card is slow, slow at times, or has wrong results
    #[arg(long, help_heading = GATES)]
    pub fail_if_faulty: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub written: Written,
}

/// Error message for the other formats.
const NO_FLEET: &str =
    "this format is of single runs and has no fleet: `parallax report FILE --format FORMAT` writes it";

/// Reads run files, and shows the cards that differ.
pub fn fleet(args: &Fleet) -> anyhow::Result<ExitCode> {
    let resolution = args.resolution.as_deref().map(|text| share("--resolution", text)).transpose()?;
    // Other formats are refused before the files are read.
    let made = writer(args.written.format())?;
    let places = places(&args.paths)?;
    let found = collected(&places, &args.shown.filter).finish(resolution);
    if found.runs == 0 {
        bail!("{}", nothing(&args.paths, &found.unreadable));
    }
    emit(&args.written, &files_of(&places), &made(&found)?)?;
    let faults: Vec<String> =
        found.faults().map(|alarm| format!("{}: {}", found.cards[alarm.card].key.name(), alarm.fault.name())).collect();
    Ok(if args.fail_if_faulty { gate(&args.written, &faults) } else { ExitCode::SUCCESS })
}

/// Returns the function that writes a fleet in a format.
///
/// # Errors
/// Format of single runs.
fn writer(format: Format) -> anyhow::Result<fn(&Found) -> anyhow::Result<Made>> {
    Ok(match format {
        Format::Text => |found| Ok(Made::Tables(table::text(&report::fleet::table(found), width()))),
        Format::Markdown => |found| Ok(Made::Text(report::fleet::table(found).markdown())),
        Format::Csv => |found| Ok(Made::Text(sheet::csv(&report::fleet::rows(found)))),
        Format::Parquet => |found| Ok(Made::Bytes(parquet::file(&report::fleet::rows(found))?)),
        Format::Json => |found| Ok(Made::Text(serde_json::to_string(found)? + "\n")),
        Format::Html => |found| Ok(Made::Text(html::fleet(found))),
        _ => bail!(NO_FLEET),
    })
}

/// Reads the places, and reduces each to its times.
fn collected(places: &[Place], filter: &[String]) -> FleetBuilder {
    read_each(places, FleetBuilder::default(), |builder, name, read| match read {
        Ok(runs) => runs.iter().for_each(|run| builder.add(&name, run, |case| any_keeps(filter, case))),
        Err(reason) => builder.skip(name, reason),
    })
}
