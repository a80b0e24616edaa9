//! Tuning files on disk: `tuning/CLASS.toml` in the current folder, before the one that the program brings along.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use parallax_core::device::{DeviceInfo, Profiler};
use parallax_core::plan::{TuningFile, TuningFileError, tuning_for};
use parallax_core::suite::TuningError;

use crate::args::Native;

/// Where the files are looked for, and written to, when nobody says.
const FOLDER: &str = "tuning";

/// A tuning file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuningMistake {
    /// It is there and cannot be read.
    #[error("{path} cannot be read: {why}", path = path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// It says what cannot be.
    #[error("{path}: {why}", path = path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// What.
        why: TuningFileError,
    },
    /// A flag says what cannot be.
    #[error(transparent)]
    Flag(TuningError),
}

/// The file for a device's class.
pub fn path(options: &Native, device: &DeviceInfo) -> PathBuf {
    let folder = options.tuning.as_deref().unwrap_or(Path::new(FOLDER));
    folder.join(format!("{}.toml", device.class()))
}

/// The file for a device, if there is one on disk.
///
/// # Errors
/// When it is there and cannot be read.
pub fn read(options: &Native, device: &DeviceInfo) -> Result<Option<String>, TuningMistake> {
    let path = path(options, device);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(why) => Err(TuningMistake::Unreadable { path, why }),
    }
}

/// Give a device the values of its class, and then those that were asked for.
///
/// # Errors
/// When a file or a value that was asked for is wrong.
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
