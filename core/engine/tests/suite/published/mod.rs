//! Published files: the schema, the example traces.
//!
//! Other snapshots are insta's. It adds a header to the text or a suffix to the name, and readers of these
//! files would refuse both. The switch that accepts new text is the same one.

use std::path::Path;

/// The file at a path has exactly this text; with `INSTA_UPDATE=always` it gets it.
pub fn assert_is(path: &Path, text: &str) {
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        return std::fs::write(path, text).expect("writable tree");
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(published == text, "{} differs; `./x bless` accepts the new text:\n{text}", path.display());
}
