//! Results of devices and compilers, kept on disk between test runs. Verdicts are never kept: a test judges a kept result anew.
//!
//! A key is the digest of everything that the result depends on, so an entry is never wrong, only unused. With `PARALLAX_FRESH`,
//! every look-up misses; results are written all the same.

use std::io::{Read, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Digest of the parts that a result depends on, each preceded by its length.
#[derive(Debug, Clone, Default)]
pub struct Key(Sha256);

impl Key {
    /// Returns the key with one more part.
    #[must_use]
    pub fn with(mut self, part: impl AsRef<[u8]>) -> Key {
        let part = part.as_ref();
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// SHA-256 in hexadecimal.
    pub fn name(&self) -> String {
        self.0.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A folder of results of one kind.
#[derive(Debug, Clone)]
pub struct Memo {
    folder: Option<PathBuf>,
    fresh: bool,
}

impl Memo {
    /// Returns the results of one kind below the user's cache folder. Without such a folder nothing is kept.
    pub fn new(kind: &str) -> Memo {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let caches = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let folder = caches.map(|folder| folder.join("parallax/tests").join(kind));
        Memo { folder, fresh: std::env::var_os("PARALLAX_FRESH").is_some() }
    }

    /// Returns the kept result, or `None` if there is none or its file is damaged.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let file = std::fs::File::open(self.path(key).filter(|_| !self.fresh)?).ok()?;
        // Rotation of old entries goes by this time. A read-only cache is used as it is.
        let _ = file.set_modified(std::time::SystemTime::now());
        let mut bytes = Vec::new();
        GzDecoder::new(file).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Keeps a result. A cache that cannot be written only costs time.
    pub fn put(&self, key: &Key, bytes: &[u8]) {
        let write = |path: PathBuf| -> std::io::Result<()> {
            let folder = path.parent().expect("an entry lies in a folder");
            std::fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            let mut gzip = GzEncoder::new(&mut file, Compression::fast());
            gzip.write_all(bytes)?;
            gzip.finish()?;
            file.persist(path)?;
            Ok(())
        };
        let _ = self.path(key).map(write);
    }

    fn path(&self, key: &Key) -> Option<PathBuf> {
        let name = key.name();
        self.folder.as_ref().map(|folder| folder.join(&name[..2]).join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_comes_back_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let memo = Memo { folder: Some(folder.path().to_owned()), fresh: false };
        let key = Key::default().with("source").with("options");
        assert_eq!(memo.get(&key), None);
        memo.put(&key, b"result");
        assert_eq!(memo.get(&key).as_deref(), Some(&b"result"[..]));
        assert_eq!(Memo { fresh: true, ..memo.clone() }.get(&key), None, "a fresh run looks at nothing");
        let path = memo.path(&key).expect("a folder");
        let whole = std::fs::read(&path).expect("written");
        for damaged in [&whole[..whole.len() - 1], &[&whole[..whole.len() - 6], &[0; 6]].concat(), b""] {
            std::fs::write(&path, damaged).expect("writable");
            assert_eq!(memo.get(&key), None, "a damaged entry is no result");
        }
    }

    #[test]
    fn every_part_changes_the_key() {
        let name = |parts: [&str; 2]| Key::default().with(parts[0]).with(parts[1]).name();
        assert_eq!(name(["a", "b"]), name(["a", "b"]));
        assert_ne!(name(["a", "b"]), name(["b", "a"]));
        assert_ne!(name(["ab", "c"]), name(["a", "bc"]));
    }
}
