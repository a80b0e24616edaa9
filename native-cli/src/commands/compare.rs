//! `compare` and `report`: run files to tables and pages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use parallax_core::compare::tax::{Tax, tax};
use parallax_core::compare::verdict::usual_resolution;
use parallax_core::compare::{Comparison, Options};
use parallax_core::record::Run;
use parallax_core::report::{html, sheet};
use parallax_core::{compare, report as tables};

use crate::args::{Compare, Format, Report, Written};
use crate::output::write_whole;
use crate::table;

/// Hold runs against a base, or take the calls of several targets apart.
pub fn compare(args: &Compare) -> anyhow::Result<ExitCode> {
    let asked = args.resolution.as_deref().map(|text| share("--resolution", text)).transpose()?;
    let limit = args.fail_if_slower.as_deref().map(|text| share("--fail-if-slower", text)).transpose()?;
    let runs = read(&args.files)?;
    let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
    let base = args.base.as_deref().map(|wanted| compare::find_base(&names, wanted)).transpose()?;
    if args.tax {
        let tax = tax(&runs, base, args.same_gpu)?;
        emit(&args.written, &taxed(&tax, &runs, args.written.format())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let resolution = asked.unwrap_or_else(|| usual_resolution(runs.iter().map(|(_, run)| run)));
    let comparison = compare::compare(&runs, &Options { base: base.unwrap_or(0), resolution })?;
    emit(&args.written, &compared(&comparison, &runs, args.written.format())?)?;
    let Some(limit) = limit else { return Ok(ExitCode::SUCCESS) };
    let (holds, lines) = comparison.gate(limit);
    // People's text goes to stdout, unless stdout is for machines.
    let machines = args.written.output.is_none() && args.written.format() != Format::Text;
    for line in lines {
        if machines { eprintln!("{line}") } else { println!("{line}") }
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Show runs as they are.
pub fn report(args: &Report) -> anyhow::Result<ExitCode> {
    let runs = read(&args.files)?;
    let each = |one: fn(&Run) -> String, gap: &str| runs.iter().map(|(_, run)| one(run)).collect::<Vec<_>>().join(gap);
    let text = match args.written.format() {
        Format::Text => each(table::run, "\n\n") + "\n",
        Format::Markdown => each(|run| tables::table(run).markdown(), "\n"),
        Format::Csv => sheet::csv(&sheet::rows(&runs, None)),
        Format::Json => serde_json::to_string(&sheet::rows(&runs, None))? + "\n",
        Format::Html => html::page(&runs, None, None),
    };
    emit(&args.written, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn compared(comparison: &Comparison, runs: &[(String, Run)], format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Text => table::text(&comparison.table()) + "\n",
        Format::Markdown => comparison.table().markdown(),
        Format::Csv => sheet::csv(&sheet::rows(runs, Some(comparison))),
        Format::Json => serde_json::to_string(comparison)? + "\n",
        Format::Html => html::page(runs, Some(comparison), None),
    })
}

fn taxed(tax: &Tax, runs: &[(String, Run)], format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Text => table::text(&tax.table()) + "\n",
        Format::Markdown => tax.table().markdown(),
        Format::Csv => sheet::csv(&tax.rows()),
        Format::Json => serde_json::to_string(tax)? + "\n",
        Format::Html => html::page(runs, None, Some(tax)),
    })
}

fn emit(written: &Written, text: &str) -> anyhow::Result<()> {
    match &written.output {
        Some(path) => write_whole(path, text)?,
        None => print!("{text}"),
    }
    Ok(())
}

/// Read run files. Their names are the targets while those tell them apart, then the files' stems, then the paths.
fn read(files: &[PathBuf]) -> anyhow::Result<Vec<(String, Run)>> {
    let mut runs = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        runs.push(Run::parse(&text).with_context(|| path.display().to_string())?);
    }
    let stem =
        |path: &Path| path.file_stem().map_or_else(|| path.display().to_string(), |s| s.to_string_lossy().into());
    let targets: Vec<String> = runs.iter().map(|run| run.target.clone()).collect();
    let stems: Vec<String> = files.iter().map(|path| stem(path)).collect();
    let paths: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let distinct = |names: &&Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let names = [&targets, &stems].into_iter().find(distinct).unwrap_or(&paths);
    Ok(names.iter().cloned().zip(runs).collect())
}

/// A share of a time, from `5%` or `0.05`.
fn share(flag: &str, text: &str) -> anyhow::Result<f64> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>() {
        // A bare 5 would be five hundred per cent, which nobody means.
        Ok(value) if value >= 0.0 && value.is_finite() && (scale > 1.0 || value < 1.0) => Ok(value / scale),
        _ => bail!(
            "{flag} `{text}` is no share of a time; write a percentage such as 5%, or a fraction below 1 such as 0.05"
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
