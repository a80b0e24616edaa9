//! Folders of recorded sessions.

use std::fs;
use std::path::Path;

use anyhow::Context;
use parallax_report::{Manifest, Peers, RecordedSession};
use parallax_schema::record::{NamedRun, Run};

/// File name of a session's manifest.
pub const MANIFEST: &str = "manifest.toml";
/// File name of a session's figures of other libraries.
const PEERS: &str = "peers.json";

/// Reads a session: its manifest, its run files in the order of their names, and the figures of other libraries.
///
/// # Errors
/// File that cannot be read or parsed.
pub fn read(folder: &Path) -> anyhow::Result<RecordedSession> {
    let text = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let manifest = Manifest::parse(&text(MANIFEST)?).with_context(|| folder.join(MANIFEST).display().to_string())?;
    let mut names: Vec<String> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    names.sort_unstable();
    let (mut runs, mut peers) = (Vec::new(), None);
    for name in &names {
        let Some(stem) = name.strip_suffix(".json") else { continue };
        let text = text(name)?;
        if name == PEERS {
            peers = Some(Peers::parse(&text).with_context(|| folder.join(name).display().to_string())?);
        } else {
            let run = Run::parse(&text).with_context(|| folder.join(name).display().to_string())?;
            runs.push(NamedRun::new(stem, run));
        }
    }
    let folder = fs::canonicalize(folder)?;
    let folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(RecordedSession { folder, manifest, runs, peers })
}
