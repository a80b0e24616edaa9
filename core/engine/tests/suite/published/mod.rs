//! Files that others read where they lie: the schema, the example traces.
//!
//! Snapshots proper are insta's. It puts a header above the text or a suffix behind the name, which readers of these
//! files would not take; the switch that accepts new text is the same one.

use std::path::Path;

/// The file at a path has exactly this text; with `INSTA_UPDATE=always` it gets it.
pub fn assert_is(path: &Path, text: &str) {
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        return std::fs::write(path, text).expect("writable tree");
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(published == text, "{} differs; `./x bless` accepts the new text:\n{text}", path.display());
}
