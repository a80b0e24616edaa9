//! `compare`: comparison of run files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use parallax_analysis::compare;
use parallax_analysis::compare::tax::{Pairing, Tax, tax};
use parallax_analysis::compare::{Comparison, Cost, Gate, ImplementationTable, Options, cost_on};
use parallax_report as report;
use parallax_report::{ci, html, sheet};
use parallax_schema::record::NamedRun;
use parallax_workloads::Registry;

use crate::commands::baseline;
use crate::commands::run_files::{Format, Made, Shown, Written, emit, read};
use crate::console::{Painted, errln, noteln, outln, width};
use crate::{parquet, summary, table};

/// Help heading of the options that set exit code 1.
const GATES: &str = "Gates";
/// Help heading of the options that split calls.
const TAX: &str = "The portability tax";

/// `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Run files; `-` is standard input
    ///
    /// Default: the newest two of the folder for the results, the older one first; with --baseline the newest.
    pub files: Vec<PathBuf>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub shown: Shown,
    /// Print every case [default: totals and the largest differences]
    #[arg(long)]
    pub all: bool,
    /// Base: a run that `parallax baseline save` saved
    #[arg(long, value_name = "NAME", conflicts_with = "base")]
    pub baseline: Option<String>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results", hide_short_help = true)]
    pub out: PathBuf,
    /// Base of the comparison [default: the first run]
    ///
    /// Its number, counted from 1, or its name in the table. Default with --tax: the run nearest to the hardware.
    #[arg(long, value_name = "N|NAME")]
    pub base: Option<String>,
    /// Smallest difference that counts, as in 5% or 0.05
    ///
    /// Default: 1 % on a GPU and 5 % on an emulated one, or coarser for runs with more noise.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub resolution: Option<String>,
    /// Exit with code 1 if a case is certainly slower by more, as in 5%
    ///
    /// Scores count too, and cases that failed, were wrong, or lost their figure.
    #[arg(long, help_heading = GATES, value_name = "SHARE", conflicts_with = "tax", allow_hyphen_values = true)]
    pub fail_if_slower: Option<String>,
    /// Exit with code 1 if a case or a score is undecided
    ///
    /// Also if one failed, was wrong, or has no figure and the base has one.
    #[arg(long, help_heading = GATES, conflicts_with = "tax")]
    pub fail_if_undecided: bool,
    /// Split the time of one call: one GPU, several targets
    #[arg(long, help_heading = TAX, group = "of_one_gpu")]
    pub tax: bool,
    /// With --tax or --by: treat the runs as of one GPU, also under different names
    #[arg(long, help_heading = TAX, requires = "of_one_gpu", hide_short_help = true)]
    pub same_gpu: bool,
    /// With --tax: compare each target's fastest variant, not the same one
    #[arg(long, help_heading = TAX, requires = "tax", hide_short_help = true)]
    pub best: bool,
    /// Group by dialect: cost of one CubeCL source against kernels by hand
    ///
    /// One GPU on several targets: each problem in each of its languages.
    #[arg(long, value_name = "GROUP", value_enum, hide_possible_values = true, group = "of_one_gpu", hide_short_help = true,
          conflicts_with_all = ["tax", "base", "fail_if_slower", "fail_if_undecided", "resolution"])]
    pub by: Option<By>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub written: Written,
}

/// Grouping of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// WGSL and CUDA by hand, one source in CubeCL on each target, the vendor's library
    Dialect,
}

/// Compares run files with a base, or splits the calls of several targets.
pub fn compare(args: &Compare) -> anyhow::Result<ExitCode> {
    let asked = args.resolution.as_deref().map(|text| share("--resolution", text)).transpose()?;
    let limit = args.fail_if_slower.as_deref().map(|text| share("--fail-if-slower", text)).transpose()?;
    let files = files(args)?;
    let mut runs = read(&files)?;
    args.shown.keep(&mut runs)?;
    let names = |runs: &[NamedRun]| -> Vec<String> { runs.iter().map(|NamedRun { name, .. }| name.clone()).collect() };
    let find = |names: &[String]| args.base.as_deref().map(|wanted| compare::find_base(names, wanted)).transpose();
    if args.by == Some(By::Dialect) {
        let voices = compare::voices(&runs, args.same_gpu)?;
        emit(&args.written, &files, &spoken(&voices, args.written.format())?)?;
        summarise(args, || spoken(&voices, Format::Markdown))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.tax {
        let base = find(&names(&runs))?;
        let pairing = if args.best { Pairing::Best } else { Pairing::Same };
        let tax = tax(&runs, base, args.same_gpu, pairing)?;
        let made = match args.written.format() {
            Format::Text if !args.all => Made::Tables(answered(&tax, &runs, args.same_gpu)?),
            format => taxed(&tax, &runs, format)?,
        };
        emit(&args.written, &files, &made)?;
        summarise(args, || taxed(&tax, &runs, Format::Markdown))?;
        return Ok(ExitCode::SUCCESS);
    }
    // The table shows headings; the base may also be named by its file.
    let by_file = find(&names(&runs));
    let runs = report::headed(runs);
    let base = find(&names(&runs)).or_else(|mistake| by_file.map_err(|_| mistake))?;
    let comparison = compare::compare(&runs, &Options { base: base.unwrap_or(0), resolution: asked })?;
    let gate = Gate { slower: limit, undecided: args.fail_if_undecided };
    let made = match args.written.format() {
        Format::Text if !args.all && comparison.pairs.len() > 2 * MOST => Made::Tables(briefly(&comparison, &runs)),
        format => compared(&comparison, &runs, gate, format)?,
    };
    emit(&args.written, &files, &made)?;
    let gated = (gate != Gate::default()).then(|| comparison.gate(gate));
    let lines = gated.as_ref().map_or(&[][..], |(_, lines)| lines);
    summarise(args, || Ok(Made::Text(ci::comparison_summary(&comparison, lines))))?;
    let Some((holds, lines)) = gated else { return Ok(ExitCode::SUCCESS) };
    // Text for people goes to stdout, unless stdout carries machine-readable output.
    let machines = args.written.output.is_none() && args.written.format() != Format::Text;
    for line in lines.iter().map(|line| report::escape(line)) {
        if machines { errln!("{line}") } else { outln!("{line}") }
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Appends Markdown to the summary of a job, on request.
fn summarise(args: &Compare, markdown: impl FnOnce() -> anyhow::Result<Made>) -> anyhow::Result<()> {
    if !args.written.summary {
        return Ok(());
    }
    match markdown()? {
        Made::Text(text) => summary::append(&text),
        Made::Tables(tables) => summary::append(&tables.plain()),
        Made::Bytes(_) => bail!("a summary is text, and parquet is none"),
    }
}

/// Maximum number of differences per direction in a short comparison.
const MOST: usize = 10;
/// Maximum number of problems in a short answer.
const MOST_PROBLEMS: usize = 5;

/// Returns the totals and the largest differences.
fn briefly(comparison: &Comparison, runs: &[NamedRun]) -> Painted {
    let more = report::compared_scores(comparison).into_iter().chain(report::tables_of_models(runs, comparison.base));
    let tables = [report::compared_runs(runs), report::comparison_brief(comparison, MOST)].into_iter().chain(more);
    table::below_each_other(tables.map(|t| table::text(&t, width())))
}

/// Returns the cost of each target relative to the base, by family, and the extremes of the last target.
fn answered(tax: &Tax, runs: &[NamedRun], same_gpu: bool) -> anyhow::Result<Painted> {
    let named =
        |name: &str| runs.iter().find(|NamedRun { name: known, .. }| known == name).expect("the tax has these runs");
    let base = named(&tax.runs[tax.base].name);
    let others = tax.runs.iter().enumerate().filter(|(i, _)| *i != tax.base).map(|(_, run)| named(&run.name));
    let costs: Vec<Cost> = others.map(|other| cost_on(base, other, same_gpu)).collect::<Result<_, _>>()?;
    let extremes = costs.last().map(|cost| report::cost_extremes(cost, MOST_PROBLEMS));
    let overview = report::cost_overview(&costs);
    let models = report::models_table(runs, tax.base);
    let tables = overview.into_iter().chain(costs.iter().map(report::cost_by_family)).chain(extremes).chain(models);
    Ok(table::below_each_other(tables.map(|t| table::text(&t, width()))))
}

/// Error message for flame graphs of comparisons.
const NO_GRAPH: &str =
    "a flame graph shows stages of runs and no verdicts: `parallax report FILE FILE --format flamegraph` draws both";

/// Error message for formats without verdicts.
const NO_VERDICTS: &str =
    "this format has times of runs and no verdicts: `parallax report FILE --format FORMAT` writes it";
/// Error message for a format of pairs.
const NO_PAIRS: &str = "junit has a test for each pair of `compare`: leave --tax and --by out";

fn compared(comparison: &Comparison, runs: &[NamedRun], gate: Gate, format: Format) -> anyhow::Result<Made> {
    let scores = report::compared_scores(comparison);
    let models = report::tables_of_models(runs, comparison.base);
    let tables = || std::iter::once(report::comparison_table(comparison)).chain(scores.clone()).chain(models.clone());
    Ok(match format {
        Format::Text => {
            let tables = std::iter::once(report::compared_runs(runs)).chain(tables());
            Made::Tables(table::below_each_other(tables.map(|t| table::text(&t, width()))))
        }
        Format::Markdown => Made::Text(tables().map(|t| t.markdown()).collect::<Vec<_>>().join("\n")),
        Format::Csv => Made::Text(sheet::csv(&sheet::rows(runs, Some(comparison)))),
        Format::Parquet => Made::Bytes(parquet::file(&sheet::rows(runs, Some(comparison)))?),
        Format::Json => Made::Text(serde_json::to_string(comparison)? + "\n"),
        Format::Html => Made::Text(html::page(&Registry, runs, Some(comparison), None)),
        Format::Junit => Made::Text(ci::junit_comparison(comparison, gate)),
        Format::Flamegraph => bail!(NO_GRAPH),
        Format::Bmf | Format::CustomSmallerIsBetter | Format::Pytorch => bail!(NO_VERDICTS),
    })
}

fn taxed(tax: &Tax, runs: &[NamedRun], format: Format) -> anyhow::Result<Made> {
    Ok(match format {
        Format::Text => Made::Tables(table::text(&report::tax_table(tax), width())),
        Format::Markdown => Made::Text(report::tax_table(tax).markdown()),
        Format::Csv => Made::Text(sheet::csv(&report::tax_rows(tax))),
        Format::Parquet => Made::Bytes(parquet::file(&report::tax_rows(tax))?),
        Format::Json => Made::Text(serde_json::to_string(tax)? + "\n"),
        Format::Html => Made::Text(html::page(&Registry, runs, None, Some(tax))),
        Format::Junit => bail!(NO_PAIRS),
        Format::Flamegraph => bail!(NO_GRAPH),
        Format::Bmf | Format::CustomSmallerIsBetter | Format::Pytorch => bail!(NO_VERDICTS),
    })
}

fn spoken(voices: &ImplementationTable, format: Format) -> anyhow::Result<Made> {
    let tables = [report::voices_table(voices), report::price_table(voices)];
    Ok(match format {
        Format::Text => Made::Tables(table::below_each_other(tables.iter().map(|t| table::text(t, width())))),
        Format::Markdown => Made::Text(tables.map(|t| t.markdown()).join("\n")),
        _ => {
            bail!("--by dialect has text and Markdown output: add --format markdown")
        }
    })
}

/// Returns the files to compare; a named baseline comes first.
fn files(args: &Compare) -> anyhow::Result<Vec<PathBuf>> {
    let kept = args.baseline.as_deref().map(|name| {
        let path = baseline::path(&args.out, name)?;
        match path.is_file() {
            true => Ok(path),
            false => bail!("no baseline `{name}`: `parallax baseline list` shows the saved ones"),
        }
    });
    let kept: Option<PathBuf> = kept.transpose()?;
    let others = match args.files.is_empty() {
        false => args.files.clone(),
        true => {
            let found = baseline::newest(&args.out, if kept.is_some() { 1 } else { 2 })?;
            found.iter().for_each(|path| noteln!("compared: {}", path.display()));
            found
        }
    };
    Ok(kept.into_iter().chain(others).collect())
}

/// Parses a share of a time: `5%` or `0.05`.
///
/// # Errors
/// Negative or infinite number, no number, or a number from 1 on without `%`.
pub fn share(flag: &str, text: &str) -> anyhow::Result<f64> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>() {
        // A bare 5 would mean 500 %, which is certainly a mistake.
        Ok(value) if value >= 0.0 && value.is_finite() && (scale > 1.0 || value < 1.0) => Ok(value / scale),
        _ => bail!(
            "{flag} `{text}` is not a share of a time; write a percentage such as 5%, or a fraction below 1 such as 0.05"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_percentages_or_fractions() {
        for (text, want) in [("5%", 0.05), ("0.05", 0.05), (" 2.5 % ", 0.025), ("0", 0.0), ("150%", 1.5)] {
            assert_eq!(share("--x", text).expect(text), want, "{text}");
        }
        for text in ["5", "", "%", "five", "-1%", "-0.1", "nan", "inf%", "5%%"] {
            let error = share("--x", text).expect_err(text).to_string();
            assert!(error.contains(&format!("--x `{text}`")) && error.contains("5%"), "{error}");
        }
    }
}
