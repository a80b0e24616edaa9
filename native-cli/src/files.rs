//! Output files that the user names, with one way to write them.
//!
//! A regular file is replaced atomically by a rename, so that readers see the old or the new contents, never a part.
//! Other kinds are never replaced: links are followed, and devices, pipes and descriptors are opened and written to.

use std::fs::{File, Metadata};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::console;

/// Maximum length of a chain of links. A longer chain counts as circular.
const LINKS: usize = 40;

/// Writes a file of any kind.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    match Target::of(path).with_context(cannot)? {
        Target::Stdout => {
            let mut bytes = Vec::new();
            fill(&mut bytes).with_context(cannot)?;
            console::bytes(&bytes);
            return Ok(());
        }
        Target::Stderr => fill(&mut std::io::stderr().lock()),
        Target::Open(path) => File::options().write(true).truncate(true).open(path).and_then(|file| {
            let mut file = BufWriter::new(file);
            fill(&mut file)?;
            file.flush()
        }),
        Target::Replace { path, old } => replace(&path, old.as_ref(), fill),
    }
    .with_context(cannot)
}

/// Writes text to a file.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, |to| to.write_all(text.as_bytes()))
}

/// Writes text to a file that does not exist yet, completely or not at all.
///
/// # Errors
/// [`std::io::ErrorKind::AlreadyExists`] for an existing file, which stays unchanged; other errors of the system.
pub fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = beside(path)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(())
}

/// Opens a regular file for reading. An open call on a pipe would wait for a writer.
///
/// # Errors
/// Errors of the system; [`std::io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open_regular(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "no regular file")),
    }
}

/// Checks that a new file can be created in a folder. The file does not remain.
///
/// # Errors
/// Errors of the system.
pub fn can_write_in(folder: &Path) -> std::io::Result<()> {
    new_file().tempfile_in(folder).map(drop)
}

/// Removes the temporary files of killed programs from a folder. Files of running programs stay.
pub fn remove_abandoned(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| name.starts_with(BEGIN) && name.ends_with(END));
        if ours && entry.file_type().is_ok_and(|kind| kind.is_file()) && is_abandoned(&entry.path()) {
            match std::fs::remove_file(entry.path()) {
                Ok(()) => log::info!("{} is removed: the program that wrote it was killed", entry.path().display()),
                Err(error) => log::warn!("{} cannot be removed: {error}", entry.path().display()),
            }
        }
    }
}

/// Checks that an output is no input. Devices may be both, as a terminal is.
///
/// # Errors
/// Output that is one of the inputs, under any name.
pub fn not_an_input<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    let regular = |path: &Path| path.metadata().is_ok_and(|file| file.is_file());
    if !regular(path) {
        return Ok(());
    }
    // A pipe among the inputs must not be opened twice.
    for input in inputs.into_iter().filter(|input| regular(input)) {
        if same_file::is_same_file(path, input).unwrap_or(false) {
            bail!("{} is an input file and is not overwritten; write to another file", path.display());
        }
    }
    Ok(())
}

/// Error of the folder for temporary files.
#[derive(Debug, thiserror::Error)]
#[error("cannot write temporary files to {}: {why}; name another folder with {VARIABLE}", .folder.display())]
pub struct NoTemporary {
    folder: PathBuf,
    why: String,
}

/// Environment variable with the folder for temporary files.
const VARIABLE: &str = if cfg!(windows) { "TMP" } else { "TMPDIR" };

/// Returns an error about a temporary file that names the folder of temporary files.
pub fn no_temporary(error: &std::io::Error) -> NoTemporary {
    // The random name of the attempted file means nothing to a user.
    let system = error.get_ref().and_then(|tried| tried.source()).map(ToString::to_string);
    NoTemporary { folder: std::env::temp_dir(), why: system.unwrap_or_else(|| error.to_string()) }
}

/// Creates a temporary folder, which is removed when it is dropped.
///
/// # Errors
/// Unusable folder for temporary files.
pub fn temporary_folder(prefix: &str) -> Result<tempfile::TempDir, NoTemporary> {
    tempfile::Builder::new().prefix(prefix).tempdir().map_err(|error| no_temporary(&error))
}

/// Destination of a path.
enum Target {
    /// Standard output. A second descriptor would not share its position and append mode.
    Stdout,
    Stderr,
    /// Path that is opened and written to without a replacement.
    Open(PathBuf),
    /// Regular file, existing or not.
    Replace {
        path: PathBuf,
        old: Option<Metadata>,
    },
}

impl Target {
    fn of(path: &Path) -> std::io::Result<Target> {
        match path.metadata() {
            Ok(found) if is_open_as(&found, std::io::stdout()) => return Ok(Target::Stdout),
            Ok(found) if is_open_as(&found, std::io::stderr()) => return Ok(Target::Stderr),
            Ok(found) if !found.is_file() => return Ok(Target::Open(path.to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let folder = folder(&path).canonicalize()?;
            // Descriptor of a process: the name that it shows may belong to another file now.
            if folder.starts_with("/proc") {
                return Ok(Target::Open(path));
            }
            match path.read_link() {
                Ok(to) => path = folder.join(to),
                Err(_) => {
                    let old = path.metadata().ok();
                    return Ok(Target::Replace { path, old });
                }
            }
        }
        Err(std::io::Error::other("too many links"))
    }
}

/// Returns whether a descriptor of this program is open on the file. The file is not opened, because an open call on a
/// pipe waits.
#[cfg(unix)]
fn is_open_as(found: &Metadata, descriptor: impl std::os::fd::AsFd) -> bool {
    use std::os::unix::fs::MetadataExt;
    let open = descriptor.as_fd().try_clone_to_owned().and_then(|copy| File::from(copy).metadata());
    open.is_ok_and(|open| (open.dev(), open.ino()) == (found.dev(), found.ino()))
}

/// Descriptors have no paths on this system.
#[cfg(not(unix))]
fn is_open_as<T>(_found: &Metadata, _descriptor: T) -> bool {
    false
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn replace(
    path: &Path,
    old: Option<&Metadata>,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    if old.is_some() {
        // A rename does not check write access to the file.
        File::options().write(true).open(path)?;
    }
    let mut file = BufWriter::new(beside(path)?);
    fill(&mut file)?;
    let file = file.into_inner().map_err(|error| error.into_error())?;
    if let Some(old) = old {
        keep_owner(file.as_file(), old);
        file.as_file().set_permissions(old.permissions())?;
    }
    // Some file systems report a full disk only at this point.
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Prefix of the names of temporary files.
const BEGIN: &str = ".parallax-";
/// Suffix of the names of temporary files.
const END: &str = ".part";

/// Creates a temporary file in the same folder, with the mode of an ordinary new file. Temporary files are private by
/// default; results are not.
fn beside(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let file = new_file().tempfile_in(folder(path))?;
    hold(file.as_file());
    Ok(file)
}

fn new_file() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(BEGIN).suffix(END);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Locks a temporary file. The lock ends with the program. Without support by the file system, the file looks like one
/// of a killed program.
#[cfg(unix)]
fn hold(file: &File) {
    let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
}

#[cfg(not(unix))]
fn hold(_file: &File) {}

/// Returns whether no program holds the lock of a temporary file.
#[cfg(unix)]
fn is_abandoned(path: &Path) -> bool {
    let held = |file: File| rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok();
    open_regular(path).is_ok_and(held)
}

/// Returns whether the last write to a temporary file is more than a day old. No write takes as long.
#[cfg(not(unix))]
fn is_abandoned(path: &Path) -> bool {
    const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);
    let written = path.metadata().and_then(|about| about.modified());
    written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > DAY))
}

/// Preserves another user's ownership of a file, if permitted.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) {
    use std::os::unix::fs::MetadataExt;
    let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_file: &File, _old: &Metadata) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn temporary_files_go_with_their_program_and_no_other_file_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let left = at(".parallax-aB3x9Z.part");
        for file in [&left, &at(".parallax-notes"), &at("x.part"), &at(".tmpaB3x9Z"), &at("parallax-1.json")] {
            std::fs::write(file, "half").expect("written");
        }
        std::fs::create_dir(at(".parallax-folder.part")).expect("made");
        let written = beside(&at("new.json")).expect("a temporary file");
        remove_abandoned(folder.path());
        assert!(!left.exists() && written.path().exists());
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 6);
        written.persist(at("new.json")).expect("renamed");
        can_write_in(folder.path()).expect("writable");
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 6, "nothing is left behind");
    }
}
