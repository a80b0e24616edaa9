//! Files of data: shipped ones and the user's.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context, bail};
use parallax_model::data::{DataError, Items};
use sha2::{Digest, Sha256};

use crate::console::errln;

/// Largest file of data.
const MOST_BYTES: u64 = 1 << 30;

/// Contents of a file of data.
pub struct File {
    /// Name for people.
    pub name: String,
    /// Whether it is shipped.
    pub shipped: bool,
    /// Ending of its name; empty for none.
    pub format: String,
    /// Its bytes.
    pub bytes: Cow<'static, [u8]>,
    /// SHA-256 of the bytes, in hexadecimal digits.
    pub hash: String,
}

/// Reads shipped data by its name, or a file. Shipped data are in the format `csv`, or in `jsonl` if they begin with a brace.
/// `known` lists the shipped data for people.
///
/// # Errors
/// File that cannot be read or is too large.
pub fn read(data: &str, shipped: &[(&'static str, &'static [u8])], known: &str) -> anyhow::Result<File> {
    if let Some((name, bytes)) = shipped.iter().find(|(name, _)| *name == data) {
        let format = if bytes.starts_with(b"{") { "jsonl" } else { "csv" };
        return Ok(file(name, true, format, Cow::Borrowed(bytes)));
    }
    let unknown = || format!("cannot read {data}; shipped {known}");
    let path = Path::new(data);
    let size = std::fs::metadata(path).with_context(unknown)?.len();
    if size > MOST_BYTES {
        bail!("{data} has {size} bytes; the limit is {MOST_BYTES}");
    }
    let bytes = std::fs::read(path).with_context(unknown)?;
    let format = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    Ok(file(data, false, format, Cow::Owned(bytes)))
}

fn file(name: &str, shipped: bool, format: &str, bytes: Cow<'static, [u8]>) -> File {
    let hash = digits(&Sha256::digest(&bytes));
    File { name: name.to_owned(), shipped, format: format.to_owned(), bytes, hash }
}

/// Returns the hexadecimal digits of a hash.
pub fn digits(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the items, after a line about those that were skipped.
///
/// # Errors
/// Those of the reader, with the name of the file.
pub fn kept<T>(name: &str, read: Result<Items<T>, DataError>) -> anyhow::Result<T> {
    let Items { items, skipped, first } = read.with_context(|| name.to_owned())?;
    if let Some(first) = first {
        errln!("{name}: {skipped} lines skipped; the first: {first}");
    }
    Ok(items)
}
