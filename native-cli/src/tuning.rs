//! Tuning files on disk: `tuning/CLASS.toml` in the current folder, before the program's own.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use parallax_engine::plan::{TuningFile, TuningFileError, tuning_for};
use parallax_ir::device::Profiler;
use parallax_schema::case::TuningError;
use parallax_schema::device::DeviceInfo;

use crate::args::Native;

/// Default folder of tuning files, for input and output.
const FOLDER: &str = "tuning";

/// Error of a tuning file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuningMistake {
    /// Existing file that cannot be read.
    #[error("{path} cannot be read: {why}", path = path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        why: std::io::Error,
    },
    /// File with invalid contents.
    #[error("{path}: {why}", path = path.display())]
    Wrong {
        /// Path of the file.
        path: PathBuf,
        /// Error in the contents.
        why: TuningFileError,
    },
    /// Flag with an invalid value.
    #[error(transparent)]
    Flag(TuningError),
}

/// Returns the path of the file for a device's class.
pub fn path(options: &Native, device: &DeviceInfo) -> PathBuf {
    let folder = options.tuning.as_deref().unwrap_or(Path::new(FOLDER));
    folder.join(format!("{}.toml", device.class()))
}

/// Returns the contents of the file for a device, if it exists on disk.
///
/// # Errors
/// Existing file that cannot be read.
pub fn read(options: &Native, device: &DeviceInfo) -> Result<Option<String>, TuningMistake> {
    let path = path(options, device);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(why) => Err(TuningMistake::Unreadable { path, why }),
    }
}

/// Gives a device the values of its class, then the requested ones.
///
/// # Errors
/// Wrong file or wrong requested value.
pub fn apply(profiler: &mut dyn Profiler, options: &Native, set: &[String]) -> Result<(), TuningMistake> {
    let device = profiler.device();
    let off = options.tuning.as_deref() == Some(Path::new("off"));
    let file = if off { Some(String::new()) } else { read(options, device)? };
    let file = file.map(|text| TuningFile::parse(&text)).transpose();
    let file = file.map_err(|why| TuningMistake::Wrong { path: path(options, device), why })?;
    let tuning = tuning_for(device, file, set).map_err(TuningMistake::Flag)?;
    profiler.set_tuning(tuning);
    Ok(())
}
