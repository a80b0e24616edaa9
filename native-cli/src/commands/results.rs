//! `results`: lists the runs of a folder, deletes old ones, and sends them to an object store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use parallax_report as report;
use parallax_schema::record::Run;
use parallax_schema::units::{Bytes, counted};

use crate::args::RESULTS;
use crate::commands::baseline::runs_in;
use crate::console::{outln, width};
use crate::stores::{Sent, Store, address};
use crate::{console, output, reading, table};

/// `results`.
#[derive(Debug, Args)]
pub struct Results {
    /// Action.
    #[command(subcommand)]
    pub action: Action,
    /// Folder of the results; its folder `baselines` stays as it is
    #[arg(long = "out", value_name = "DIR", default_value = "results", help_heading = RESULTS, global = true)]
    pub folder: PathBuf,
}

/// Actions on results.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the runs, the newest first
    List,
    /// Delete old runs with their traces
    Prune(Prune),
    /// Send the runs to an object store, from where `fleet` and `history` read them
    Send(Send),
}

/// `results prune`.
#[derive(Debug, Args)]
pub struct Prune {
    /// Newest runs to keep, of each target on each device
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: u32,
    /// Only print the files
    #[arg(long)]
    pub dry_run: bool,
}

/// `results send`.
#[derive(Debug, Args)]
pub struct Send {
    /// Address, as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER
    ///
    /// A run is PREFIX/HOST/NAME there. Credentials and endpoint come from the variables AWS_…, GOOGLE_… and AZURE_….
    #[arg(value_name = "URL")]
    pub url: String,
    /// Send traces, too
    #[arg(long)]
    pub traces: bool,
}

/// A run in the folder.
struct Found {
    path: PathBuf,
    run: Run,
}

/// Lists or deletes runs.
pub fn results(args: &Results) -> anyhow::Result<()> {
    let (found, unread) = found(&args.folder)?;
    match &args.action {
        Action::List => list(&args.folder, &found),
        Action::Prune(how) => prune(found, how)?,
        Action::Send(how) => send(&args.folder, &found, how)?,
    }
    if unread > 0 {
        let are = if unread == 1 { "is" } else { "are" };
        outln!("{} {are} no readable run, and left alone", counted(unread, "file"));
    }
    Ok(())
}

/// Returns the runs of a folder, the newest first, and the number of other files whose names are those of runs.
fn found(folder: &Path) -> anyhow::Result<(Vec<Found>, usize)> {
    let (mut found, mut unread) = (Vec::new(), 0);
    for path in runs_in(folder)? {
        match reading::one(&path).ok().flatten().map(|mut runs| (runs.len(), runs.pop())) {
            Some((1, Some(run))) => found.push(Found { path, run }),
            _ => unread += 1,
        }
    }
    found.sort_by(|a, b| (b.run.started, &b.path).cmp(&(a.run.started, &a.path)));
    Ok((found, unread))
}

impl Found {
    /// Returns the run file and its trace, as far as they exist.
    fn files(&self) -> Vec<PathBuf> {
        let stem = self.path.with_extension("");
        let traces = [".trace.json", ".trace.json.gz"].map(|ending| {
            let mut name = stem.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        });
        traces.into_iter().filter(|trace| trace.is_file()).chain([self.path.clone()]).collect()
    }

    /// Returns the size of the run file and its trace.
    fn size(&self) -> Bytes {
        Bytes(self.files().iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum())
    }
}

fn list(folder: &Path, found: &[Found]) {
    if found.is_empty() {
        outln!("no run in {}; `parallax run` makes one", folder.display());
        return;
    }
    let row = |of: &Found| {
        let name = of.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let device = of.run.device().name.clone();
        vec![name, report::route_name(&of.run.route()), device, report::tally(&of.run), of.size().to_string()]
    };
    let rows = found.iter().map(row);
    console::show(&table::plain(&["run", "target", "device", "cases", "size"], 4, rows, width()));
}

/// Deletes the runs beyond the newest of each route and device. Runs in progress stay.
fn prune(found: Vec<Found>, how: &Prune) -> anyhow::Result<()> {
    let mut newer = BTreeMap::new();
    let (mut deleted, mut busy, mut kept, mut size) = (0, 0, 0, 0);
    for of in found {
        let count = newer.entry((of.run.route(), of.run.device().name.clone())).or_insert(0u32);
        *count += 1;
        if *count <= how.keep {
            kept += 1;
            continue;
        }
        // A program that still writes a run has locked its file.
        let Ok(_lock) = output::lock(&of.path) else {
            busy += 1;
            continue;
        };
        (deleted, size) = (deleted + 1, size + of.size().0);
        for file in of.files() {
            match how.dry_run {
                true => outln!("{}", file.display()),
                false => {
                    std::fs::remove_file(&file).with_context(|| format!("cannot delete {}", file.display()))?;
                }
            }
        }
    }
    let done = if how.dry_run { "would be deleted" } else { "deleted" };
    let progress = if busy > 0 { format!(", {busy} in progress") } else { String::new() };
    outln!("{} {done}, {}; {kept} kept{progress}", counted(deleted, "run"), Bytes(size));
    Ok(())
}

/// Sends runs that the store lacks. Runs in progress stay behind.
fn send(folder: &Path, found: &[Found], how: &Send) -> anyhow::Result<()> {
    if address(Path::new(&how.url)).is_none() {
        bail!("`{}` is no address of an object store, as in s3://BUCKET/PREFIX", how.url);
    }
    let store = Store::open(&how.url)?;
    let (mut sent, mut there, mut busy) = (0, 0, 0);
    for of in found {
        let Ok(_lock) = output::lock(&of.path) else {
            busy += 1;
            continue;
        };
        let host = of.run.environment.get("host").map_or("unknown", String::as_str);
        for file in of.files().into_iter().filter(|file| how.traces || *file == of.path) {
            let inside = file.strip_prefix(folder).unwrap_or(&file);
            let parts = [host.into()].into_iter().chain(inside.iter().map(|part| part.to_string_lossy()));
            let contents = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            match store.put(parts, contents)? {
                Sent::New => sent += 1,
                Sent::AlreadyThere => there += 1,
            }
        }
    }
    let progress = if busy > 0 { format!(", {busy} in progress") } else { String::new() };
    outln!("{} sent to {}; {there} there already{progress}", counted(sent, "file"), how.url);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing;

    #[test]
    fn a_run_in_progress_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = [1u64, 2].map(|started| {
            let path = folder.path().join(format!("{started}.json"));
            let run = Run { started, ..testing::run("cuda", "X", &[]) };
            std::fs::write(&path, serde_json::to_string(&run).expect("JSON")).expect("a file");
            path
        });
        let pruned = || prune(found(folder.path()).expect("a folder").0, &Prune { keep: 1, dry_run: false });
        let lock = output::lock(&paths[0]).expect("no program writes it");
        pruned().expect("nothing fails");
        assert!(paths[0].exists() || !cfg!(unix));
        drop(lock);
        pruned().expect("nothing fails");
        assert_eq!(paths.map(|path| path.exists()), [false, true]);
    }
}
