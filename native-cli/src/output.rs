//! Results on disk. A run's file is complete and valid after every record, so that nothing finished can be lost.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use parallax_core::record::{Record, Run};

/// Create a folder and make sure that it can be written, before anything is measured.
pub fn writable_folder(folder: &Path) -> anyhow::Result<()> {
    let unwritable =
        || format!("cannot write to the folder {}; choose another with --out or --output-dir", folder.display());
    std::fs::create_dir_all(folder).with_context(unwritable)?;
    tempfile::NamedTempFile::new_in(folder).with_context(unwritable)?;
    Ok(())
}

/// Write a file so that readers see the old or the new contents and never a part.
pub fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let context = || format!("cannot write {}", path.display());
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    file.persist(path).with_context(context)?;
    readable(path).with_context(context)
}

/// Temporary files are private to their owner; results are not.
#[cfg(unix)]
fn readable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

/// A run and its file.
pub struct RunFile {
    /// The run so far.
    pub run: Run,
    path: PathBuf,
}

impl RunFile {
    /// Begin a file for a run without records.
    pub fn begin(folder: &Path, run: Run) -> anyhow::Result<RunFile> {
        let at = jiff::Timestamp::from_second(run.started as i64).context("the clock shows an impossible time")?;
        let stem = format!("{}-{}", run.target, at.strftime("%Y%m%dT%H%M%SZ"));
        let free = |n: u32| match n {
            0 => folder.join(format!("{stem}.json")),
            n => folder.join(format!("{stem}-{n}.json")),
        };
        let path = (0..).map(free).find(|p| !p.exists()).expect("some number is free");
        let file = RunFile { run, path };
        file.save()?;
        Ok(file)
    }

    /// Add a record, and write.
    pub fn push(&mut self, record: Record) -> anyhow::Result<()> {
        self.run.records.push(record);
        self.save()
    }

    /// Write the run as it is.
    pub fn save(&self) -> anyhow::Result<()> {
        write_whole(&self.path, &serde_json::to_string(&self.run)?)
    }

    /// Write the trace beside the run; gives both paths.
    pub fn finish(self) -> anyhow::Result<(Run, PathBuf, PathBuf)> {
        self.save()?;
        let trace = self.path.with_extension("trace.json");
        write_whole(&trace, &serde_json::to_string(&parallax_core::trace::chrome(&self.run))?)?;
        Ok((self.run, self.path, trace))
    }
}
