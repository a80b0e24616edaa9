//! `history`: series of many run files, their changes, and the causes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail};
use clap::Args;
use parallax_analysis::history::{History as Found, HistoryBuilder, Unreadable};
use parallax_engine::plan::did_you_mean;
use parallax_report::{self as report, html, sheet};
use parallax_schema::record::Run;
use parallax_schema::spec::filter::any_keeps;
use walkdir::WalkDir;

use crate::commands::compare::share;
use crate::commands::run_files::{Format, Made, Shown, Written, emit};
use crate::console::{errln, outln, width};
use crate::{parquet, reading, table};

/// Help heading of gates.
const GATES: &str = "Gates";

/// `history`.
#[derive(Debug, Args)]
pub struct History {
    /// Folders, patterns such as 'nightly/*.json', or run files
    ///
    /// Folders are searched with their subfolders; traces are passed over.
    #[arg(value_name = "DIR|PATTERN|FILE", default_value = "results")]
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
    let files = files(&args.paths)?;
    let found = read(&files, &args.shown.filter).finish(resolution);
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
    emit(&args.written, &files, &made(&found)?)?;
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

/// Reads the files, and reduces each to its points.
pub(super) fn read(files: &[PathBuf], filter: &[String]) -> HistoryBuilder {
    read_each(files, HistoryBuilder::default(), |builder, name, read| match read {
        Ok(runs) => runs.iter().for_each(|run| builder.add(&name, run, |case| any_keeps(filter, case))),
        Err(reason) => builder.skip(name, reason),
    })
}

/// Reads the files one after another on each processor, and gives the runs of each, or the reason of their absence, to a collection.
pub(super) fn read_each<B: Send>(
    files: &[PathBuf],
    collection: B,
    add: impl Fn(&mut B, String, Result<Vec<Run>, String>) + Sync,
) -> B {
    let builder = Mutex::new(collection);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let read = reading::one(path).map(|runs| runs.into_iter().flatten().collect());
            let read = read.map_err(|error| error.root_cause().to_string());
            add(&mut builder.lock().expect("no thread panics"), path.display().to_string(), read);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    builder.into_inner().expect("no thread panicked")
}

/// Returns the files of folders, patterns and names, each once.
///
/// # Errors
/// Name of nothing, or pattern without a match.
pub(super) fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = BTreeSet::new();
    for path in paths {
        if path.is_dir() {
            all.extend(inside(path)?);
        } else if path.exists() || path == Path::new("-") {
            all.insert(path.clone());
        } else {
            all.extend(matching(path)?);
        }
    }
    Ok(all.into_iter().collect())
}

/// Returns the matches of a pattern: files by their names, folders by their contents.
fn matching(pattern: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let missing =
        || format!("cannot read {}: no such file or folder; recorded runs are in results/", pattern.display());
    let Some(text) = pattern.to_str().filter(|text| text.contains(['*', '?', '['])) else { bail!(missing()) };
    let matches = glob::glob(text).with_context(|| format!("`{text}` is no pattern of file names"))?;
    let mut all = Vec::new();
    let mut found = false;
    for path in matches {
        let path = path.with_context(|| format!("cannot read the matches of `{text}`"))?;
        found = true;
        match path.is_dir() {
            true => all.extend(inside(&path)?),
            false if is_trace(&path) => {}
            false => all.push(path),
        }
    }
    match found {
        true => Ok(all),
        false => bail!("no file matches `{text}`"),
    }
}

/// Returns the run files in a folder and its subfolders.
fn inside(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in WalkDir::new(folder) {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let name = entry.file_name().to_string_lossy();
        let run = [".json", ".jsonl", ".json.gz"].iter().any(|end| name.ends_with(end));
        if run && !name.starts_with('.') && !is_trace(entry.path()) && !entry.file_type().is_dir() {
            all.push(entry.into_path());
        }
    }
    Ok(all)
}

/// Returns whether a file is a trace, by its name.
fn is_trace(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.trim_end_matches(".gz").ends_with(".trace.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_patterns_and_names_give_each_run_file_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("deep/er")).expect("folders");
        let names = ["a.json", "a.trace.json", "b.trace.json.gz", "notes.txt", "deep/c.jsonl", "deep/er/d.json.gz"];
        names.iter().for_each(|name| std::fs::write(at(name), "").expect("a file"));
        let listed = |paths: &[&str]| -> Vec<String> {
            let paths: Vec<PathBuf> = paths.iter().map(|path| at(path)).collect();
            let name = |path: &PathBuf| path.strip_prefix(folder.path()).expect("inside").display().to_string();
            files(&paths).map_or_else(|error| vec![format!("{error:#}")], |files| files.iter().map(name).collect())
        };
        for (paths, want) in [
            (&[""][..], &["a.json", "deep/c.jsonl", "deep/er/d.json.gz"][..]),
            (&["", "a.json", "*.json"], &["a.json", "deep/c.jsonl", "deep/er/d.json.gz"]),
            (&["deep/*"], &["deep/c.jsonl", "deep/er/d.json.gz"]),
            (&["**/*.json"], &["a.json"]),
            (&["a.trace.json"], &["a.trace.json"]),
        ] {
            assert_eq!(listed(paths), want, "{paths:?}");
        }
        for (path, want) in
            [("none.json", "no such file or folder"), ("*.xml", "no file matches"), ("a[", "no pattern")]
        {
            let said = listed(&[path]);
            assert!(said[0].contains(want), "{said:?}");
        }
    }
}
