//! Places of run files, for commands over many: folders, patterns, files and object stores.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail};
use parallax_schema::record::Run;
use walkdir::WalkDir;

use crate::reading;
use crate::stores::{self, Object, Store};

/// Place of a run file.
#[derive(Debug, Clone)]
pub enum Place {
    /// File, or `-` for standard input.
    File(PathBuf),
    /// Object of a store.
    Object(Object),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Object(object) => object.fmt(f),
        }
    }
}

impl Place {
    /// Returns the runs, of which other outputs of the program have none.
    fn runs(&self) -> anyhow::Result<Vec<Run>> {
        let runs = match self {
            Place::File(path) => reading::one(path)?,
            Place::Object(object) => reading::object(&object.to_string(), &object.contents(reading::LONGEST)?)?,
        };
        Ok(runs.into_iter().flatten().collect())
    }

    /// Returns the path of a file; `None` for an object.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Place::File(path) => Some(path),
            Place::Object(_) => None,
        }
    }
}

/// Returns the files among places.
pub fn files_of(places: &[Place]) -> Vec<PathBuf> {
    places.iter().filter_map(Place::file).map(Path::to_owned).collect()
}

/// Requests to a store at a time.
const REQUESTS: usize = 32;

/// Reads the places one after another on each processor, and gives the runs of each, or the reason of their absence, to a collection.
/// More threads read objects, which wait for their store.
pub fn read_each<B: Send>(
    places: &[Place],
    collection: B,
    add: impl Fn(&mut B, String, Result<Vec<Run>, String>) + Sync,
) -> B {
    let builder = Mutex::new(collection);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
            let read = place.runs().map_err(|error| error.root_cause().to_string());
            add(&mut builder.lock().expect("no thread panics"), place.to_string(), read);
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let remote = places.iter().any(|place| place.file().is_none());
    let threads = if remote { REQUESTS.max(processors) } else { processors };
    std::thread::scope(|scope| (0..threads.min(places.len())).for_each(|_| drop(scope.spawn(work))));
    builder.into_inner().expect("no thread panicked")
}

/// Returns the run files of folders, patterns, names and addresses of object stores, each once.
///
/// # Errors
/// Name of nothing, pattern without a match, or store that cannot be listed.
pub fn places(paths: &[PathBuf]) -> anyhow::Result<Vec<Place>> {
    let mut all = BTreeSet::new();
    let mut objects = BTreeMap::new();
    for path in paths {
        if let Some(address) = stores::address(path) {
            let found = Store::open(address)?.list()?;
            objects.extend(
                found.into_iter().filter(|object| is_run(object.key())).map(|object| (object.to_string(), object)),
            );
        } else if path.is_dir() {
            all.extend(inside(path)?);
        } else if path.exists() || path == Path::new("-") {
            all.insert(path.clone());
        } else {
            all.extend(matching(path)?);
        }
    }
    Ok(all.into_iter().map(Place::File).chain(objects.into_values().map(Place::Object)).collect())
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
        if is_run(&entry.file_name().to_string_lossy()) && !entry.file_type().is_dir() {
            all.push(entry.into_path());
        }
    }
    Ok(all)
}

/// Returns whether a file is a run, by its name or its key.
fn is_run(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    let run = [".json", ".jsonl", ".json.gz"].iter().any(|end| name.ends_with(end));
    run && !name.starts_with('.') && !is_trace(Path::new(name))
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
            let inside = |path: &Path| path.strip_prefix(folder.path()).expect("inside").display().to_string();
            let name = |place: &Place| place.file().map(inside).expect("a file");
            places(&paths).map_or_else(|error| vec![format!("{error:#}")], |found| found.iter().map(name).collect())
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
