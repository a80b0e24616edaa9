//! Contents of the results folder, and the part that is shown.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use parallax_report::site::Hidden;
use parallax_schema::record::{NamedRun, Run};

use crate::files;

/// Maximum number of files that are shown and kept. Pages are made of all of them.
pub const MOST_FILES: usize = 500;
/// Maximum size of all shown and kept files, in bytes. Their runs stay in memory, and no sender can fill the disk.
pub const MOST_BYTES: u64 = 128 << 20;

/// Suffix of trace files, which the command line writes beside run files.
const TRACE: &str = ".trace.json";

/// File as its folder entry describes it. A different entry means different contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    name: OsString,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// Run files of a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Shown files, by name.
    pub shown: Vec<Entry>,
    /// Hidden files with the reason: traces, and the oldest files beyond the limits.
    pub hidden: Vec<Hidden>,
    files: usize,
    bytes: u64,
}

impl Listing {
    /// Lists the regular files of a folder with names that end in `.json`; empty if the folder does not exist.
    pub fn new(folder: &Path) -> Listing {
        let json = |name: &OsString| Path::new(name).extension().is_some_and(|ending| ending == "json");
        let entry = |entry: std::fs::DirEntry| {
            let about = entry.metadata().ok().filter(|about| about.is_file())?;
            Some(Entry { name: entry.file_name(), bytes: about.len(), modified: about.modified().ok() })
        };
        let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
        Listing::of(found.filter(|found| json(&found.file_name())).filter_map(entry).collect())
    }

    fn of(mut entries: Vec<Entry>) -> Listing {
        entries.sort_by(|a, b| (Reverse(a.modified), &a.name).cmp(&(Reverse(b.modified), &b.name)));
        let traces = entries.extract_if(.., |entry| entry.name.to_string_lossy().ends_with(TRACE));
        let hidden = traces.map(|entry| Hidden { file: entry.name(), why: "a trace, and no run".to_owned() }).collect();
        let (files, bytes) = (entries.len(), entries.iter().map(|entry| entry.bytes).sum());
        let mut listing = Listing { hidden, files, bytes, ..Listing::default() };
        let mut room = MOST_BYTES;
        for entry in entries {
            let why = if listing.shown.len() >= MOST_FILES {
                format!("older than the {MOST_FILES} files that are shown")
            } else if entry.bytes > room {
                format!("{} bytes, and the files that are shown may have {} MiB in all", entry.bytes, MOST_BYTES >> 20)
            } else {
                room -= entry.bytes;
                listing.shown.push(entry);
                continue;
            };
            listing.hidden.push(Hidden { file: entry.name.to_string_lossy().into_owned(), why });
        }
        listing.shown.sort();
        listing
    }

    /// Returns whether another file of this size fits.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.files < MOST_FILES && self.bytes + bytes as u64 <= MOST_BYTES
    }
}

impl Entry {
    /// Reads the run in the file, with the file's stem as name.
    ///
    /// # Errors
    /// Unreadable file, or file that is no run, as a message.
    pub fn read(&self, folder: &Path) -> Result<NamedRun, String> {
        let mut bytes = Vec::new();
        let file = files::open_regular(&folder.join(&self.name)).map_err(|error| error.to_string())?;
        // The file may have grown since the listing. The limits cover only the listed size.
        file.take(self.bytes).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let run = Run::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string())?;
        let stem = Path::new(&self.name).file_stem().unwrap_or(&self.name);
        Ok(NamedRun::new(stem.to_string_lossy().into_owned(), run))
    }

    /// Returns the file's name for display.
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(number: usize, bytes: u64) -> Entry {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64);
        Entry { name: format!("{number:04}.json").into(), bytes, modified: Some(modified) }
    }

    #[test]
    fn the_newest_files_are_shown_and_the_others_named() {
        let listing = Listing::of((0..MOST_FILES + 2).map(|number| entry(number, 1)).collect());
        assert_eq!((listing.shown.len(), &listing.shown[0]), (MOST_FILES, &entry(2, 1)));
        let hidden: Vec<&str> = listing.hidden.iter().map(|hidden| hidden.file.as_str()).collect();
        assert_eq!(hidden, ["0001.json", "0000.json"]);
        assert!(listing.hidden[0].why.contains("500 files") && !listing.has_room_for(0));

        let listing =
            Listing::of(vec![entry(1, 5), entry(2, MOST_BYTES), entry(3, 6), entry(4, u64::MAX - MOST_BYTES * 2)]);
        assert_eq!(listing.shown, [entry(1, 5), entry(3, 6)]);
        assert!(listing.hidden.len() == 2 && listing.hidden[0].why.contains("128 MiB"), "{:?}", listing.hidden);
        let trace = Entry { name: "1.trace.json".into(), ..entry(9, MOST_BYTES) };
        let one = Listing::of(vec![entry(1, 5), trace]);
        assert_eq!((one.shown.len(), one.hidden[0].file.as_str()), (1, "1.trace.json"));
        assert!(one.has_room_for((MOST_BYTES - 5) as usize) && !one.has_room_for((MOST_BYTES - 4) as usize));
    }
}
