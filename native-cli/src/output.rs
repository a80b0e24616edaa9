//! Results on disk. A run's files can be read after every record, so that nothing finished can be lost.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use parallax_core::device::{Span, SpanKind};
use parallax_core::record::{Event, Outcome, Run};
use parallax_core::units::Bytes;

use crate::trace_file::TraceFile;

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

/// Where results go, and how.
pub struct Output {
    /// The folder.
    pub folder: PathBuf,
    /// Whether traces are compressed.
    pub gzip: bool,
}

/// Spans of one record that its run's JSON keeps; the trace has them all.
const SPANS_IN_JSON: usize = 200;

/// A run, its file, and its trace beside it. While the run goes on, its file has a line of JSON for the run without any
/// records and then one for each event; at the end the whole run takes their place as one JSON.
pub struct RunFile {
    run: Run,
    path: PathBuf,
    lines: BufWriter<File>,
    trace: TraceFile<File>,
    trace_path: PathBuf,
}

/// Everything about a run that is over.
pub struct Finished {
    /// The run.
    pub run: Run,
    /// Its file.
    pub json: PathBuf,
    /// Its trace.
    pub trace: PathBuf,
    /// Size of the trace's file.
    pub trace_size: Bytes,
}

impl RunFile {
    /// Begin the files of a run without records.
    pub fn begin(output: &Output, run: Run) -> anyhow::Result<RunFile> {
        let at = jiff::Timestamp::from_second(run.started as i64).context("the clock shows an impossible time")?;
        let stem = format!("{}-{}", run.target, at.strftime("%Y%m%dT%H%M%SZ"));
        let free = |n: u32| match n {
            0 => output.folder.join(format!("{stem}.json")),
            n => output.folder.join(format!("{stem}-{n}.json")),
        };
        let path = (0..).map(free).find(|p| !p.exists()).expect("some number is free");
        let trace_path = path.with_extension(if output.gzip { "trace.json.gz" } else { "trace.json" });
        let trace = File::create(&trace_path)
            .and_then(|file| TraceFile::begin(file, output.gzip, &run))
            .with_context(|| format!("cannot write {}", trace_path.display()))?;
        let lines = File::create_new(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = RunFile { run, path, lines: BufWriter::new(lines), trace, trace_path };
        file.append(&Event::Begin { run: Box::new(file.run.clone()) })?;
        file.flush()?;
        Ok(file)
    }

    /// The run so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Take in an event. A record is in the file when this returns; what else happens comes there with the next record.
    /// `tell` gets what the user should know before it is done.
    pub fn apply(&mut self, mut event: Event, mut tell: impl FnMut(&str)) -> anyhow::Result<()> {
        if let Event::Record { record } = &mut event {
            let context = || format!("cannot write {}", self.trace_path.display());
            self.trace.push(&self.run, record, &mut tell).with_context(context)?;
            if let Outcome::Pass(measured) = &mut record.outcome
                && let Some(trace) = &mut measured.trace
            {
                trace.spans.truncate(whole_executions(&trace.spans));
            }
        }
        if event.changes_the_run() {
            self.append(&event)?;
        }
        if matches!(event, Event::Record { .. } | Event::End { .. }) {
            self.flush()?;
        }
        self.run.apply(event);
        Ok(())
    }

    fn append(&mut self, event: &Event) -> anyhow::Result<()> {
        let written = self.lines.write_all(event.line().as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.lines.flush().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Complete both files.
    pub fn finish(self) -> anyhow::Result<Finished> {
        write_whole(&self.path, &serde_json::to_string(&self.run)?)?;
        let context = || format!("cannot write {}", self.trace_path.display());
        let trace_size = self.trace.finish(&self.run).with_context(context)?;
        Ok(Finished { run: self.run, json: self.path, trace: self.trace_path, trace_size })
    }
}

/// How many spans make as many whole executions as a run's JSON keeps; a part of the first one if it is too long.
fn whole_executions(spans: &[Span]) -> usize {
    if spans.len() <= SPANS_IN_JSON {
        return spans.len();
    }
    let begins = |span: &Span| span.kind == SpanKind::Annotation;
    match (1..=SPANS_IN_JSON).rev().find(|i| begins(&spans[*i])) {
        Some(next) => next,
        None => SPANS_IN_JSON,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_keeps_whole_executions() {
        let execution = |length: usize| {
            let mut spans = vec![Span::default(); length];
            spans[0].kind = SpanKind::Annotation;
            spans
        };
        for (length, executions, kept) in
            [(7, 3, 21), (7, 28, 196), (7, 29, 196), (8, 25, 200), (8, 26, 200), (300, 2, 200)]
        {
            assert_eq!(
                whole_executions(&vec![&execution(length)[..]; executions].concat()),
                kept,
                "{executions} of {length}"
            );
        }
    }
}
