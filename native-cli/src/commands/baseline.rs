//! `baseline`: stores runs under names, for comparison with later runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use parallax_report as report;
use parallax_schema::record::NamedRun;

use crate::args::RESULTS;
use crate::commands::run_files::read;
use crate::console::{outln, width};
use crate::{console, files, table};

/// `baseline`.
#[derive(Debug, Args)]
pub struct Baseline {
    /// Action.
    #[command(subcommand)]
    pub what: What,
    /// Folder for the results; baselines are in its folder `baselines`
    #[arg(long = "out", value_name = "DIR", default_value = "results", help_heading = RESULTS, global = true)]
    pub folder: PathBuf,
}

/// Actions on baselines.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Save a run under a name; replaces a baseline of that name
    Save {
        /// Name of letters, digits, `.`, `_` and `-`
        name: String,
        /// Run file [default: the newest in the folder]
        file: Option<PathBuf>,
    },
    /// List baselines
    List,
}

/// Stores a run, or lists the stored ones.
pub fn baseline(args: &Baseline) -> anyhow::Result<()> {
    match &args.what {
        What::Save { name, file } => {
            let path = path(&args.folder, name)?;
            let file = match file {
                Some(file) => file.clone(),
                None => newest(&args.folder, 1)?.remove(0),
            };
            // The file is parsed first: a file that cannot be compared is no baseline.
            let NamedRun { run, .. } = read(std::slice::from_ref(&file))?.remove(0);
            let folder = path.parent().expect("it lies in a folder");
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            files::not_an_input(&path, [file.as_path()])?;
            files::write_text(&path, &serde_json::to_string(&run)?)?;
            outln!("{} is saved as {name}: {}", file.display(), report::device_line(&run));
            Ok(())
        }
        What::List => list(&args.folder),
    }
}

fn list(out: &Path) -> anyhow::Result<()> {
    let mut kept = runs_in(&out.join(FOLDER))?;
    kept.sort();
    if kept.is_empty() {
        outln!("no baseline in {}; `parallax baseline save NAME` saves the newest run", out.join(FOLDER).display());
        return Ok(());
    }
    let mut rows = Vec::new();
    for path in kept {
        let NamedRun { run, .. }: NamedRun = read(std::slice::from_ref(&path))?.remove(0);
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        rows.push(vec![name, run.target.clone(), run.device().name.clone(), report::tally(&run)]);
    }
    console::show(&table::plain(&["baseline", "target", "device", "cases"], 4, rows.into_iter(), width()));
    Ok(())
}

/// Folder of baselines in the folder of results.
const FOLDER: &str = "baselines";

/// Returns the file of a baseline.
///
/// # Errors
/// Invalid name: the name becomes part of a path.
pub fn path(out: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        bail!("`{name}` cannot name a baseline: letters, digits, `.`, `_` and `-`, and no `.` first");
    }
    Ok(out.join(FOLDER).join(format!("{name}.json")))
}

/// Returns the newest `count` runs of a folder, oldest first.
///
/// # Errors
/// Fewer runs than `count`.
pub fn newest(out: &Path, count: usize) -> anyhow::Result<Vec<PathBuf>> {
    let mut runs: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
    for path in runs_in(out)? {
        let modified = path.metadata().and_then(|file| file.modified());
        runs.push((modified.with_context(|| format!("cannot read {}", path.display()))?, path));
    }
    if runs.len() < count {
        let there = if runs.len() == 1 { "is 1 run" } else { "are 0 runs" };
        bail!("there {there} in {}, and it takes {count}: name the files, or the folder with --out", out.display());
    }
    runs.sort();
    Ok(runs.split_off(runs.len() - count).into_iter().map(|(_, path)| path).collect())
}

/// Returns the run files of a folder; empty if the folder does not exist.
pub(super) fn runs_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let is_run = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".json") && !name.ends_with(".trace.json") && path.is_file()
    };
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_run).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_within_its_folder() {
        let of = |name| path(Path::new("results"), name);
        assert_eq!(of("v1.2_a-b").expect("a name"), Path::new("results/baselines/v1.2_a-b.json"));
        for name in ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "ä", "a b"] {
            assert!(of(name).is_err(), "{name}");
        }
    }
}
