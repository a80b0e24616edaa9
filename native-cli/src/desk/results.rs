//! The folder in which results are kept.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use parallax_core::record::Run;

use crate::files;

/// So many files are shown and kept: pages are made of all of them.
const MOST_FILES: usize = 500;
/// What is kept has so many bytes in all at most, so that nobody who has the address fills the disk.
const MOST_BYTES: u64 = 512 << 20;

/// Run files in a folder, which is made when the first result comes.
pub struct Results {
    folder: PathBuf,
    /// One result is written at a time.
    writing: Mutex<()>,
}

/// Where a result is.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    /// In a new file of this name.
    New(String),
    /// In a file of this name since before.
    Already(String),
}

/// Why a result is not kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The limits of this file.
    #[error("The desk is full: move files out of its folder of results, or start it with another.")]
    Full,
    /// What the system said.
    #[error("The desk cannot write the result: {0}.")]
    Write(#[from] std::io::Error),
}

/// A file as far as the folder tells: another entry means other contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    name: OsString,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Results {
    /// Of a folder, whether or not it is there.
    pub fn new(folder: &Path) -> Results {
        Results { folder: folder.to_owned(), writing: Mutex::default() }
    }

    /// Keep a run under a name of its own. What is there already is neither replaced nor kept twice.
    pub fn keep(&self, run: &Run) -> Result<Kept, NotKept> {
        let _alone = self.writing.lock().unwrap_or_else(|broken| broken.into_inner());
        let text = serde_json::to_string(run).map_err(std::io::Error::from)? + "\n";
        std::fs::create_dir_all(&self.folder)?;
        let entries = self.entries();
        let kept: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let full = entries.len() >= MOST_FILES || kept + text.len() as u64 > MOST_BYTES;
        let stem = run.file_stem();
        let numbered = (2..).map(|i| format!("{stem}-{i}.json"));
        for name in std::iter::once(format!("{stem}.json")).chain(numbered) {
            let path = self.folder.join(&name);
            match std::fs::read(&path) {
                Ok(there) if there == text.as_bytes() => return Ok(Kept::Already(name)),
                Ok(_) => continue,
                Err(absent) if absent.kind() == ErrorKind::NotFound => {}
                Err(other) => return Err(other.into()),
            }
            if full {
                return Err(NotKept::Full);
            }
            match files::write_new(&path, &text) {
                Ok(()) => return Ok(Kept::New(name)),
                // Somebody else was quicker.
                Err(taken) if taken.kind() == ErrorKind::AlreadyExists => {}
                Err(other) => return Err(other.into()),
            }
        }
        unreachable!("there is always another number")
    }

    /// What lies in the folder, by name; nothing where there is no folder yet.
    pub fn entries(&self) -> Vec<Entry> {
        let Ok(found) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let json = |name: &OsString| Path::new(name).extension().is_some_and(|ending| ending == "json");
        let files = found.flatten().filter_map(|entry| {
            let about = entry.metadata().ok().filter(|about| about.is_file())?;
            Some(Entry { name: entry.file_name(), bytes: about.len(), modified: about.modified().ok() })
        });
        let mut entries: Vec<Entry> = files.filter(|entry| json(&entry.name)).collect();
        entries.sort();
        entries.truncate(MOST_FILES);
        entries
    }

    /// The runs in these files, each named like its file. What is no run is left out, and logged.
    pub fn read(&self, entries: &[Entry]) -> Vec<(String, Run)> {
        let run = |entry: &Entry| {
            let path = self.folder.join(&entry.name);
            let text = std::fs::read(&path).map_err(|error| error.to_string())?;
            Run::parse(&String::from_utf8_lossy(&text)).map_err(|error| error.to_string())
        };
        let named = entries.iter().filter_map(|entry| match run(entry) {
            Ok(run) => Some((Path::new(&entry.name).file_stem()?.to_string_lossy().into_owned(), run)),
            Err(why) => {
                log::warn!("{} is not shown: {why}", entry.name.display());
                None
            }
        });
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::tests::result;

    #[test]
    fn a_full_folder_takes_no_more_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let results = Results::new(folder.path());
        let (one, other) = (result("browser", "H200", 1), result("browser", "H200", 2));
        assert!(matches!(results.keep(&one), Ok(Kept::New(_))));
        for i in 1..MOST_FILES {
            std::fs::write(folder.path().join(format!("{i}.json")), "{}").expect("written");
        }
        assert!(matches!(results.keep(&other), Err(NotKept::Full)));
        assert!(matches!(results.keep(&one), Ok(Kept::Already(_))));
        assert_eq!(results.read(&results.entries()).len(), 1);
        std::fs::remove_file(folder.path().join("1.json")).expect("removed");
        assert!(matches!(results.keep(&other), Ok(Kept::New(_))));
    }
}
