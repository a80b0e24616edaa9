//! File of a run in progress.

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};

/// Lines of a run in progress. All lines in the file are whole.
pub struct Lines {
    /// The file, open for writing.
    pub file: File,
    /// Length in bytes up to the end of the last whole line.
    pub length: u64,
}

impl Lines {
    /// Appends a line. The file does not change if the line has no room.
    pub fn append(&mut self, line: &str) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(self.length))?;
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Replaces all lines by a text, if it is no longer than they are.
    pub fn replace(&mut self, text: &str) -> std::io::Result<()> {
        if text.len() as u64 > self.length {
            return Err(ErrorKind::StorageFull.into());
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(text.as_bytes())?;
        self.length = text.len() as u64;
        self.file.set_len(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records replace the last sample lines on a full disk.
    #[test]
    fn records_have_the_room_of_samples_on_a_full_disk() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("run.json");
        let mut lines = Lines { file: File::create_new(&path).expect("writable"), length: 0 };
        lines.append("{\"begin\"}\n").expect("written");
        lines.append(&format!("{}\n", "samples".repeat(99))).expect("written");
        lines.replace("{\"begin\", \"a record\"}\n").expect("there is room");
        lines.append("another\n").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "{\"begin\", \"a record\"}\nanother\n");
        let long = "x".repeat(99);
        assert!(lines.replace(&long).is_err(), "longer than the file");
        assert_eq!(std::fs::read_to_string(&path).expect("a file").len(), 30);
    }
}
