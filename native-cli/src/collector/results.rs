//! Folder in which results are kept.

use std::io;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use parallax_schema::record::Run;

use super::listing::{Listing, MOST_FILES};
use crate::files;

/// Run files in a folder, which is created with the first result.
pub struct Results {
    /// The folder.
    pub folder: PathBuf,
    /// Lock for the write of one result at a time.
    writing: Mutex<()>,
}

/// Error of an unusable results folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot write results to {folder}: {why}; name another folder with --results DIR")]
pub struct Unfit {
    folder: String,
    why: String,
}

/// Location of a result.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    /// New file of this name.
    New(String),
    /// Earlier file of this name, with the same contents.
    Already(String),
}

/// Reason for a result that is not kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// Limits of the folder reached.
    #[error("The collector is full: move files out of its folder of results, or start it with another one.")]
    Full,
    /// Error of the system.
    #[error("The collector cannot write the result: {0}.")]
    Write(#[from] io::Error),
}

impl Results {
    /// Opens a folder that exists or can be created. Removes partial files of killed collectors.
    ///
    /// # Errors
    /// Path that is no folder, or folder without write access.
    pub fn new(folder: &Path) -> Result<Results, Unfit> {
        let unfit = |why: String| Unfit { folder: folder.display().to_string(), why };
        let there = existing(folder).map_err(|error| unfit(error.to_string()))?;
        if !there.is_dir() {
            return Err(unfit(match there == folder {
                true => "it is not a folder".to_owned(),
                false => format!("{} is no folder", there.display()),
            }));
        }
        files::remove_abandoned(there);
        files::can_write_in(there).map_err(|error| unfit(format!("nothing can be written there ({error})")))?;
        Ok(Results { folder: folder.to_owned(), writing: Mutex::default() })
    }

    /// Writes a run under a new name. An existing file is not replaced, and an equal one is not duplicated.
    ///
    /// # Errors
    /// No room, or error of the system.
    pub fn keep(&self, run: &Run) -> Result<Kept, NotKept> {
        let _alone = self.writing.lock().unwrap_or_else(|broken| broken.into_inner());
        let text = serde_json::to_string(run).map_err(io::Error::from)? + "\n";
        std::fs::create_dir_all(&self.folder)?;
        let room = Listing::new(&self.folder).has_room_for(text.len());
        let stem = run.file_stem();
        // All files within the limit may have taken a number, and other files too.
        let numbered = (2..2 * MOST_FILES).map(|i| format!("{stem}-{i}.json"));
        for name in std::iter::once(format!("{stem}.json")).chain(numbered) {
            let path = self.folder.join(&name);
            match is_text(&path, &text) {
                Ok(true) => return Ok(Kept::Already(name)),
                Ok(false) => continue,
                Err(absent) if absent.kind() == ErrorKind::NotFound => {}
                // Unreadable entry, such as a pipe or another user's file.
                Err(_) if path.symlink_metadata().is_ok() => continue,
                Err(other) => return Err(other.into()),
            }
            if !room {
                return Err(NotKept::Full);
            }
            match files::write_new(&path, &text) {
                Ok(()) => return Ok(Kept::New(name)),
                // Another program has created the file meanwhile.
                Err(taken) if taken.kind() == ErrorKind::AlreadyExists => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(NotKept::Full)
    }
}

/// Returns the folder, or its nearest ancestor that exists.
fn existing(folder: &Path) -> io::Result<&Path> {
    let mut at = folder;
    loop {
        match at.metadata() {
            Ok(_) => return Ok(at),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) if at.symlink_metadata().is_ok() => return Err(io::Error::other("a link that leads nowhere")),
            Err(_) => {}
        }
        at = match at.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => return Ok(Path::new(".")),
        };
    }
}

/// Returns whether a regular file has these contents.
fn is_text(path: &Path, text: &str) -> io::Result<bool> {
    let file = files::open_regular(path)?;
    let length = text.len() as u64;
    if file.metadata()?.len() != length {
        return Ok(false);
    }
    let mut there = Vec::new();
    file.take(length + 1).read_to_end(&mut there)?;
    Ok(there == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::tests::result;

    #[test]
    fn a_full_folder_takes_no_more_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let results = Results::new(folder.path()).expect("a folder");
        let (one, other) = (result("browser", "H200", 1), result("browser", "H200", 2));
        assert!(matches!(results.keep(&one), Ok(Kept::New(_))));
        for i in 1..MOST_FILES {
            std::fs::write(folder.path().join(format!("{i}.json")), "{}").expect("written");
        }
        assert!(matches!(results.keep(&other), Err(NotKept::Full)));
        assert!(matches!(results.keep(&one), Ok(Kept::Already(_))));
        let shown = Listing::new(folder.path()).shown;
        assert_eq!(shown.iter().filter(|entry| entry.read(folder.path()).is_ok()).count(), 1);
        std::fs::remove_file(folder.path().join("1.json")).expect("removed");
        assert!(matches!(results.keep(&other), Ok(Kept::New(_))));
    }

    #[test]
    fn a_folder_is_checked_before_anything_is_kept_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("written");
        for fit in [folder.path().to_owned(), folder.path().join("new"), folder.path().join("new/newer")] {
            assert!(Results::new(&fit).is_ok(), "{}", fit.display());
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1, "nothing is made for it");
        let mut unfit = vec![(file.clone(), "it is not a folder"), (file.join("below"), "")];
        if cfg!(unix) {
            let dangling = folder.path().join("link");
            #[cfg(unix)]
            std::os::unix::fs::symlink("nowhere", &dangling).expect("linked");
            unfit.push((dangling, "leads nowhere"));
        }
        if cfg!(target_os = "linux") {
            unfit.push(("/proc/self/results".into(), "nothing can be written there"));
        }
        for (unfit, why) in unfit {
            let error = Results::new(&unfit).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(why) && error.contains("--results DIR"), "{}: {error}", unfit.display());
            assert!(error.contains(&unfit.display().to_string()), "{error}");
        }
    }
}
