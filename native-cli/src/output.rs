//! Results on disk. A run's files are readable after every record, so that finished records are never lost.

mod lines;

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use parallax_schema::device::{Span, SpanKind};
use parallax_schema::record::{Event, Model, Outcome, Run, UNFINISHED};
use parallax_schema::units::{Bytes, Nanos};

use crate::args::Common;
use crate::output::lines::Lines;
use crate::trace_file::TraceFile;
use crate::{console, files, system};

/// Creates a folder and checks write access, before any measurement.
pub fn writable_folder(folder: &Path) -> anyhow::Result<()> {
    let unwritable =
        || format!("cannot write to the folder {}; choose another with --out or --output-dir", folder.display());
    std::fs::create_dir_all(folder).with_context(unwritable)?;
    tempfile::NamedTempFile::new_in(folder).with_context(unwritable)?;
    Ok(())
}

/// Destination and format of results.
pub struct Output {
    /// Folder of the results.
    pub folder: PathBuf,
    /// Whether traces are compressed.
    pub gzip: bool,
    /// Whether events are printed as they arrive.
    pub lines: bool,
    /// User's name of the device.
    pub name: Option<String>,
    /// Model whose operations the cases stand for.
    pub model: Option<Model>,
    /// Run to continue, in place of new files.
    pub resumed: Option<Resumed>,
}

/// Run to continue.
pub struct Resumed {
    /// Path of the run's file.
    pub path: PathBuf,
    /// State of the run.
    pub run: Run,
    /// Lock that prevents other programs from continuing the run.
    pub lock: Option<File>,
}

/// Locks the file of a run before it is read, to continue it. Returns none if the file does not open; the later read
/// reports that error.
///
/// # Errors
/// File that another program writes to.
pub fn lock(path: &Path) -> anyhow::Result<Option<File>> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    match system::lock(&file) {
        true => Ok(Some(file)),
        false => Err(taken(path)),
    }
}

fn taken(path: &Path) -> anyhow::Error {
    anyhow!("{} belongs to a run in progress: wait for its end, or stop the program that writes it", path.display())
}

impl Output {
    /// Returns the output of these options, into new files.
    pub fn of(common: &Common) -> Output {
        Output {
            folder: common.out.clone(),
            gzip: common.trace.trace_gzip,
            lines: common.json_lines,
            name: common.name.clone(),
            model: None,
            resumed: None,
        }
    }
}

/// Maximum number of spans of one record in a run's JSON. The trace has all spans.
const SPANS_IN_JSON: usize = 200;

/// A run with its run file and its trace. During the run, the file has a line of JSON for the run without records, then
/// one for each event. At the end, the whole run replaces the lines as one JSON.
///
/// A full disk does not end a run. Data without room is dropped, the trace first, and reported at the end. Samples of
/// cases in progress make room for the records of finished cases.
pub struct RunFile {
    run: Run,
    path: PathBuf,
    lines: Lines,
    trace: Option<TraceFile<File>>,
    trace_path: PathBuf,
    failure: Option<anyhow::Error>,
    /// Whether an event had no room in the file.
    behind: bool,
    /// Whether events are printed as they arrive.
    aloud: bool,
    began: Instant,
}

/// Results of a finished run.
pub struct Finished {
    /// The run.
    pub run: Run,
    /// Path of the run file.
    pub json: PathBuf,
    /// Trace with the size of its file; absent if it could not be kept.
    pub trace: Option<(PathBuf, Bytes)>,
    /// First failure to write the files.
    pub failure: Option<anyhow::Error>,
    /// Time from the creation of the files to their end.
    pub took: Nanos,
}

impl Finished {
    /// Returns the paths of the written files, one per line.
    pub fn paths(&self) -> String {
        let paths = std::iter::once(&self.json).chain(self.trace.as_ref().map(|(path, _)| path));
        paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n")
    }

    /// Returns a line about the trace.
    pub fn trace_line(&self) -> String {
        match &self.trace {
            Some((_, size)) => format!("the trace takes {size}"),
            None => "the trace could not be kept".to_owned(),
        }
    }
}

impl RunFile {
    /// Creates the files of a run without records, or opens those of the run to continue.
    pub fn begin(output: &Output, run: Run) -> anyhow::Result<RunFile> {
        match &output.resumed {
            Some(Resumed { path, run: earlier, .. }) => {
                goes_on(earlier, &run).map_err(|why| anyhow!("{} cannot be resumed: {why}", path.display()))?;
                RunFile::resume(output, path, earlier.clone())
            }
            None => RunFile::create(output, Run { interrupted: Some(UNFINISHED.to_owned()), ..run }),
        }
    }

    /// Continues in the file of an earlier run, whose contents stay complete at any moment. New traces get a file of
    /// their own beside the earlier trace.
    fn resume(output: &Output, path: &Path, run: Run) -> anyhow::Result<RunFile> {
        let cannot = |path: &Path| format!("cannot write {}", path.display());
        let (trace_path, trace) = resumed_trace(path, output.gzip)?;
        let trace = TraceFile::begin(trace, output.gzip, &run).with_context(|| cannot(&trace_path))?;
        let text = in_short(&run, u64::MAX);
        files::write_text(path, &text)?;
        say_aloud(output, &text);
        let file = File::options().write(true).open(path).with_context(|| cannot(path))?;
        if !system::lock(&file) {
            return Err(taken(path));
        }
        let lines = Lines { file, length: text.len() as u64 };
        Ok(RunFile {
            run,
            path: path.to_owned(),
            lines,
            trace: Some(trace),
            trace_path,
            failure: None,
            behind: false,
            aloud: output.lines,
            began: Instant::now(),
        })
    }

    fn create(output: &Output, mut run: Run) -> anyhow::Result<RunFile> {
        if let Some(name) = &output.name {
            run.name_device(name);
        }
        run.model.clone_from(&output.model);
        let at = jiff::Timestamp::from_second(run.started as i64).context("the clock shows an impossible time")?;
        let stem = format!("{}-{}", run.target, at.strftime("%Y%m%dT%H%M%SZ"));
        let free = create(&output.folder, &stem, output.gzip)?;
        let cannot = |path: &Path| format!("cannot write {}", path.display());
        let begun = TraceFile::begin(free.trace, output.gzip, &run).with_context(|| cannot(&free.trace_path));
        let begun = begun.and_then(|trace| {
            let mut lines = Lines { file: free.json, length: 0 };
            let line = Event::Begin { run: Box::new(run.clone()) }.line();
            lines.append(&line).with_context(|| cannot(&free.path))?;
            say_aloud(output, &line);
            Ok((trace, lines))
        });
        match begun {
            Ok((trace, lines)) => {
                let (path, trace_path) = (free.path, free.trace_path);
                let trace = Some(trace);
                let (failure, behind, aloud, began) = (None, false, output.lines, Instant::now());
                Ok(RunFile { run, path, lines, trace, trace_path, failure, behind, aloud, began })
            }
            Err(error) => {
                // No measurement has happened yet; empty files are removed.
                let _ = [&free.path, &free.trace_path].map(std::fs::remove_file);
                Err(error)
            }
        }
    }

    /// Returns the run so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Applies an event. A record is in the file on return. `tell` receives messages for the user before the write is
    /// complete.
    pub fn apply(&mut self, mut event: Event, mut tell: impl FnMut(&str)) {
        if self.aloud {
            console::raw(event.line().trim_end());
        }
        if let Event::Record { record } = &mut event {
            if let Some(trace) = &mut self.trace
                && let Err(error) = trace.push(&self.run, record, &mut tell)
            {
                self.lose_trace(error);
            }
            if let Outcome::Pass(measured) = &mut record.outcome
                && let Some(trace) = &mut measured.trace
            {
                trace.spans.truncate(whole_executions(&trace.spans));
            }
        }
        let is_record = matches!(event, Event::Record { .. });
        let lost = event.changes_the_run() && !self.append(&event);
        self.run.apply(event);
        self.behind |= lost;
        if self.behind && is_record {
            self.behind = self.lines.replace(&in_short(&self.run, self.lines.length)).is_err();
        }
    }

    /// Completes both files.
    pub fn finish(mut self) -> anyhow::Result<Finished> {
        let text = serde_json::to_string(&self.run)?;
        let mut written = files::write_text(&self.path, &text);
        if let Err(error) = written {
            written = match self.spare_trace(error) {
                Ok(()) => files::write_text(&self.path, &text),
                Err(error) => Err(error),
            };
        }
        if let Err(error) = written {
            // The disk has no room for a second file. The text may fit in place of the lines. Otherwise the lines stay,
            // with every record that had room.
            if self.lines.replace(&text).is_err() {
                self.failure = Some(error);
            }
        }
        let trace = self.trace.take().and_then(|trace| match trace.finish(&self.run) {
            Ok(size) => Some((self.trace_path.clone(), size)),
            Err(error) => {
                self.lose_trace(error);
                None
            }
        });
        let took = Nanos::from_secs(self.began.elapsed().as_secs_f64());
        Ok(Finished { run: self.run, json: self.path, trace, failure: self.failure, took })
    }

    /// Appends an event. Returns whether it is in the file.
    fn append(&mut self, event: &Event) -> bool {
        let line = event.line();
        let Err(error) = self.lines.append(&line) else { return true };
        let error = anyhow::Error::new(error).context(format!("cannot write {}", self.path.display()));
        self.spare_trace(error).is_ok() && self.lines.append(&line).is_ok()
    }

    /// Drops the trace after a failed write. A partial trace is of no use.
    fn lose_trace(&mut self, error: std::io::Error) {
        self.remove_trace();
        let why = format!("cannot write {}, which is left out", self.trace_path.display());
        self.failure.get_or_insert(anyhow::Error::new(error).context(why));
    }

    /// Drops the trace after a failed write of the run, to make room. Returns the error if there is no trace left.
    fn spare_trace(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        if !self.remove_trace() {
            return Err(error);
        }
        let why = format!("{} is dropped to make room for the run", self.trace_path.display());
        self.failure.get_or_insert(error.context(why));
        Ok(())
    }

    /// Removes the trace. Returns whether there was one.
    fn remove_trace(&mut self) -> bool {
        // The space is free once the file is closed.
        let had = self.trace.take().is_some();
        if had {
            let _ = std::fs::remove_file(&self.trace_path);
        }
        had
    }
}

/// Returns a run in the fewest lines, with the cases in progress as far as they fit into `room` bytes.
fn in_short(run: &Run, room: u64) -> String {
    let mut text = Event::Begin { run: Box::new(run.clone()) }.line();
    for record in &run.sampling {
        let line = Event::Sampling { record: Box::new(record.clone()) }.line();
        if (text.len() + line.len()) as u64 <= room {
            text += &line;
        }
    }
    text
}

/// Prints an event's line, if events are printed.
fn say_aloud(output: &Output, line: &str) {
    if output.lines {
        console::raw(line.trim_end());
    }
}

/// Two new files, side by side.
struct Pair {
    path: PathBuf,
    json: File,
    trace_path: PathBuf,
    trace: File,
}

/// Checks that a run can continue here. Results of two devices or two builds are no single run.
fn goes_on(earlier: &Run, here: &Run) -> Result<(), String> {
    let build = |run: &Run| format!("{} ({})", run.suite.version, run.suite.commit);
    let device = |run: &Run| {
        let device = run.device();
        [&device.name, &device.api, &device.driver].map(String::as_str).join(", ")
    };
    for (what, then, now) in [("build", build(earlier), build(here)), ("device", device(earlier), device(here))] {
        if then != now {
            return Err(format!("its {what} is {then}, and here it is {now}; begin a new run"));
        }
    }
    Ok(())
}

/// Creates the trace file of a resumed run.
fn resumed_trace(path: &Path, gzip: bool) -> anyhow::Result<(PathBuf, File)> {
    let ending = if gzip { "trace.json.gz" } else { "trace.json" };
    for number in 1u64.. {
        let path = path.with_extension(format!("resumed-{number}.{ending}"));
        if let Some(file) = new_file(&path)? {
            return Ok((path, file));
        }
    }
    bail!("no free name for the trace of {} is left", path.display())
}

/// Creates the files of a run under the first free number. Creation is exclusive, so that concurrent runs never share a
/// file.
fn create(folder: &Path, stem: &str, gzip: bool) -> anyhow::Result<Pair> {
    for number in 0u64.. {
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{suffix}.json"));
        let trace_path = path.with_extension(if gzip { "trace.json.gz" } else { "trace.json" });
        let Some(json) = new_file(&path)? else { continue };
        // No other program knows the file yet.
        system::lock(&json);
        match new_file(&trace_path) {
            Ok(Some(trace)) => return Ok(Pair { path, json, trace_path, trace }),
            taken => {
                let _ = std::fs::remove_file(&path);
                taken?;
            }
        }
    }
    bail!("no free name for a run is left in {}", folder.display())
}

/// Creates a file; returns none if the name is taken.
fn new_file(path: &Path) -> anyhow::Result<Option<File>> {
    match File::create_new(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Returns the number of spans for a run's JSON: as many whole executions as fit, or a part of the first if it is too
/// long.
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
    use std::collections::BTreeSet;

    use super::*;
    use parallax_engine::plan::Plan;
    use parallax_schema::record::Suite;
    use parallax_schema::spec::Spec;
    use parallax_testing::mock::{Fault, Mock};

    #[test]
    fn runs_that_begin_at_once_share_no_file() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let output = Output::of(&Common { out: folder.path().to_owned(), ..Common::default() });
        let suite = Suite { version: "0.0.0".to_owned(), commit: "0000000".to_owned() };
        let run = Plan::default().begin("mock", suite, &Mock::new(|_| 1.0, Fault::None), &Spec::default());
        // A trace without its run keeps its name too.
        let orphan = folder.path().join("mock-19700101T000000Z-2.trace.json");
        std::fs::write(&orphan, "kept").expect("writable");
        let begin = || RunFile::begin(&output, run.clone()).and_then(RunFile::finish).expect("a free name");
        let finished: Vec<Finished> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(begin)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let jsons: BTreeSet<&PathBuf> = finished.iter().map(|f| &f.json).collect();
        let traces: BTreeSet<&PathBuf> = finished.iter().filter_map(|f| Some(&f.trace.as_ref()?.0)).collect();
        assert_eq!((jsons.len(), traces.len()), (16, 16));
        for json in jsons {
            Run::parse(&std::fs::read_to_string(json).expect("a file")).expect("a run");
        }
        assert!(!traces.contains(&orphan));
        assert_eq!(std::fs::read_to_string(&orphan).expect("a file"), "kept");
    }

    #[test]
    fn a_run_that_goes_on_is_locked() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let output = Output::of(&Common { out: folder.path().to_owned(), ..Common::default() });
        let suite = Suite { version: "0.0.0".to_owned(), commit: "0000000".to_owned() };
        let run = Plan::default().begin("mock", suite, &Mock::new(|_| 1.0, Fault::None), &Spec::default());
        let file = RunFile::begin(&output, run.clone()).expect("a new file");
        let path = file.path.clone();
        let said = lock(&path).expect_err("it goes on").to_string();
        assert!(cfg!(not(unix)) || said.contains("in progress"), "{said}");
        // Simulates a killed program.
        drop(file);
        let held = lock(&path).expect("free").expect("there");
        let resumed = Some(Resumed { path: path.clone(), run, lock: Some(held) });
        let file = RunFile::begin(&Output { resumed, ..output }, file_of(&path)).expect("gone on with");
        assert!(lock(&path).is_err(), "it goes on again, in another file of the same name");
        file.finish().expect("written");
        assert!(lock(&path).expect("free").is_some());
        assert!(lock(&folder.path().join("absent")).expect("nothing to lock").is_none());
    }

    fn file_of(path: &Path) -> Run {
        Run::parse(&std::fs::read_to_string(path).expect("a file")).expect("a run")
    }

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
