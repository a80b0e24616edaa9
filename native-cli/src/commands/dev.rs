//! `dev`: development loop for kernels. Watches the kernel sources, and reports at every save the effect on its cases.
//! The report has compiler messages, the check of the results, and the times relative to the last save and the best
//! one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use parallax_analysis::compare::verdict::Verdict;
use parallax_engine::measure::check::WORK;
use parallax_engine::measure::sampler::TrustedClock;
use parallax_engine::measure::side_by_side::{Effort, side_by_side};
use parallax_engine::measure::timer;
use parallax_ir::Case;
use parallax_ir::device::{BackendError, Prepared, Profiler};
use parallax_schema::device::Dialect;
use parallax_schema::spec::Spec;
use parallax_schema::units::{Nanos, percent};
use parallax_workloads::parse_case;
use pollster::block_on;

use crate::args::{DEVICES, Device, Native};
use crate::console::outln;
use crate::interface::Rejected;
use crate::interrupts::{interrupted, listen_for_interrupts};
use crate::targets::{Opened, choose};
use crate::texts::{FinalText, assembled, folder};
use crate::trial::{Awkward, CheckedCase, Failure, ratio};
use crate::{console, interface};

/// `dev`.
#[derive(Debug, Args)]
pub struct Dev {
    /// Cases, as workload/direction/shape/dtype/variant
    #[arg(required = true, value_name = "CASE")]
    pub cases: Vec<String>,
    /// wgpu or cuda [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    /// Check every case once and exit; code 1 if one does not compile or is wrong
    #[arg(long)]
    pub once: bool,
    /// Seconds of timing for each case after each save
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub budget: f64,
    /// Seed of the inputs
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Value of a tunable, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub native: Native,
}

/// Time without events after which a save is complete. A save produces several events, and editors write a file in
/// steps.
const SETTLED: Duration = Duration::from_millis(30);
/// Interval between checks for the end of the loop.
const LOOK: Duration = Duration::from_millis(200);

/// Watches until Ctrl-C, or evaluates once.
pub fn dev(args: &Dev) -> anyhow::Result<ExitCode> {
    Spec::default().set("budget", &args.budget.to_string())?;
    let cases = args.cases.iter().map(|text| Ok(parse_case(text)?)).collect::<anyhow::Result<Vec<Case>>>()?;
    let kernels = folder(&args.native).or_else(checkout);
    let native = Native { kernels: kernels.clone(), ..args.native.clone() };
    let mut bench = Bench::open(args, native)?;
    listen_for_interrupts()?;
    // The watch begins before the first evaluation, so that no save is missed.
    let watch = match (&kernels, args.once) {
        (_, true) => None,
        (Some(folder), _) => Some(watch(folder)?),
        (None, _) => bail!("no kernel sources to watch: run it inside a checkout, or name a folder with --kernels"),
    };
    let mut subjects: Vec<Subject> = cases.into_iter().map(Subject::new).collect();
    let right = bench.round(&mut subjects, Instant::now())?;
    let Some((_watcher, events)) = watch else {
        return Ok(if right { ExitCode::SUCCESS } else { ExitCode::from(1) });
    };
    outln!("watching {}; Ctrl-C ends it", kernels.as_deref().unwrap_or(Path::new("")).display());
    while let Some(saved) = next_save(&events) {
        bench.round(&mut subjects, saved)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the checkout around the current folder, if there is one.
fn checkout() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let has_kernels =
        |folder: &&Path| ["shaders", "cuda"].iter().all(|part| folder.join(part).join("kernels").is_dir());
    here.ancestors().find(has_kernels).map(Path::to_owned)
}

/// Returns the folders of kernels below a folder. Other files of a checkout change all the time.
fn watched(folder: &Path) -> Vec<PathBuf> {
    let parts = ["shaders", "cuda"].map(|part| folder.join(part)).into_iter().filter(|part| part.is_dir());
    parts.map(|part| Some(part.join("kernels")).filter(|inner| inner.is_dir()).unwrap_or(part)).collect()
}

fn watch(folder: &Path) -> anyhow::Result<(RecommendedWatcher, Receiver<Instant>)> {
    let (sender, receiver) = channel();
    let tell = move |event: notify::Result<notify::Event>| {
        // A read of a file is an event too, but no save. A closed receiver needs no events.
        if event.is_ok_and(|event| !event.kind.is_access()) {
            let _ = sender.send(Instant::now());
        }
    };
    let mut watcher = notify::recommended_watcher(tell).context("cannot watch files")?;
    for part in watched(folder) {
        watcher.watch(&part, RecursiveMode::Recursive).with_context(|| format!("cannot watch {}", part.display()))?;
    }
    Ok((watcher, receiver))
}

/// Returns the time of the next save, once it is complete. Returns none on an interrupt, or once stdout is closed.
fn next_save(events: &Receiver<Instant>) -> Option<Instant> {
    loop {
        if interrupted() || console::gone() {
            return None;
        }
        match events.recv_timeout(LOOK) {
            Ok(saved) => {
                while events.recv_timeout(SETTLED).is_ok() {}
                return Some(saved);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Case with its results over the saves so far.
struct Subject {
    case: Case,
    trial: Option<CheckedCase>,
    awkward: Awkward,
    /// Final kernel sources of the last evaluation.
    texts: Vec<FinalText>,
    looks: u32,
    /// Saves that compiled and were correct: the best and the last, possibly the same.
    kept: Vec<Save>,
}

/// Save whose kernels are still on the device.
struct Save {
    number: u32,
    prepared: Box<dyn Prepared>,
}

impl Subject {
    fn new(case: Case) -> Subject {
        Subject { case, trial: None, awkward: Awkward::default(), texts: Vec::new(), looks: 0, kept: Vec::new() }
    }

    /// Returns the label of a comparison partner: the best or the last save, in the order of the saves.
    fn against(&self, number: u32) -> &'static str {
        match (self.kept.len(), self.kept.first().is_some_and(|best| best.number == number)) {
            (1, _) => "the last save and best",
            (_, true) => "the best",
            (_, false) => "the last save",
        }
    }
}

/// Device of all evaluations.
struct Bench<'a> {
    args: &'a Dev,
    native: Native,
    profiler: Box<dyn Profiler>,
    clock: TrustedClock,
}

impl<'a> Bench<'a> {
    fn open(args: &'a Dev, native: Native) -> anyhow::Result<Bench<'a>> {
        let (name, opened) = choose(args.target.as_deref(), &Device::from(&native), &args.set)?.one();
        let Opened::Here(mut profiler) = opened else { bail!("dev runs on wgpu or cuda, not on {name}") };
        if profiler.device().caps.dialect == Dialect::Cpu {
            bail!("the target {name} has no kernel sources: name another with --target");
        }
        let (_, clock) = block_on(timer::test(&mut *profiler, None)).context("the clocks cannot be tested")?;
        Ok(Bench { args, native, profiler, clock })
    }

    /// Evaluates every case with a changed final source. Returns whether all of them compiled and were correct.
    fn round(&mut self, subjects: &mut [Subject], saved: Instant) -> anyhow::Result<bool> {
        let mut right = true;
        for i in 0..subjects.len() {
            let told = block_on(self.look(&mut subjects[i], saved));
            right &= match told {
                Ok(right) => right,
                Err(Failure::Backend(BackendError::Lost(why))) => {
                    outln!("  the device was lost: {why}; a fresh one is opened");
                    // Objects of the lost device are unusable.
                    for subject in subjects.iter_mut() {
                        subject.kept.clear();
                    }
                    *self = Bench::open(self.args, self.native.clone())?;
                    false
                }
                Err(failure) => {
                    outln!("  {failure}");
                    false
                }
            };
            if interrupted() {
                break;
            }
        }
        Ok(right)
    }

    async fn look(&mut self, subject: &mut Subject, saved: Instant) -> Result<bool, Failure> {
        let profiler = &mut *self.profiler;
        let trial = match subject.trial.take() {
            Some(trial) => trial,
            None => CheckedCase::of(subject.case.clone(), self.args.seed, WORK, profiler).await,
        };
        let trial = subject.trial.insert(trial);
        let (case, program) = match trial.runs(profiler) {
            Ok(case) => {
                let (program, _) = case.whole_program(&profiler.device().caps).expect("a planned case has a program");
                (case, program)
            }
            Err(why) => {
                outln!("{}\n  {why}", subject.case);
                return Ok(false);
            }
        };
        let dialect = profiler.device().caps.dialect;
        let (texts, places) = match assembled(&program, case.problem.dtype, dialect, &self.native) {
            Ok(assembled) => assembled,
            Err(why) => {
                outln!("{}\n  {}", subject.case, console::mistake(&why));
                subject.texts.clear();
                return Ok(false);
            }
        };
        if texts == subject.texts {
            return Ok(true);
        }
        subject.texts = texts;
        subject.looks += 1;
        let number = subject.looks;
        outln!("{}, save {number}", subject.case);
        if dialect == Dialect::Wgsl {
            for (i, text) in subject.texts.iter().enumerate() {
                let of_text = program.stages.iter().zip(&places).filter(|(_, place)| **place == Some(i));
                let mut entries: Vec<&str> = of_text.map(|(stage, _)| stage.entry()).collect();
                entries.dedup();
                match interface::wgsl(&text.text, &entries) {
                    Ok(lines) => lines.iter().for_each(|line| outln!("  {line}")),
                    Err(rejected) => {
                        outln!("  {}", place(text, &rejected));
                        return Ok(false);
                    }
                }
            }
        }
        let mut prepared = trial.prepare(&case, profiler).await?;
        for line in prepared.launches().iter().filter_map(interface::launch) {
            outln!("  {line}");
        }
        let compared = trial.check(&mut *prepared, profiler).await?;
        let shapes = subject.awkward.check(&case, self.args.seed, profiler).await?;
        outln!("  passed: {compared}; and at {shapes} awkward shapes");

        let launches = prepared.launches().len();
        let mut contenders: Vec<&mut dyn Prepared> = vec![&mut *prepared];
        contenders.extend(subject.kept.iter_mut().map(|save| &mut *save.prepared as &mut dyn Prepared));
        let effort = Effort { budget: Nanos::from_secs(self.args.budget), seed: u64::from(number) };
        let timings = side_by_side(&mut contenders, &self.clock, effort, profiler, || !interrupted()).await?;
        let mut best = subject.kept.is_empty();
        match &timings[0] {
            Ok(now) => {
                let mut told = vec![format!("{} ± {}", now.summary.median, percent(now.summary.precision()))];
                for (save, other) in subject.kept.iter().zip(&timings[1..]) {
                    let against = subject.against(save.number);
                    told.push(match other {
                        Ok(other) => {
                            let ratio = ratio(other, now, launches, profiler);
                            // The first of the kept saves is the best.
                            best |= save.number == subject.kept[0].number && ratio.verdict == Verdict::Faster;
                            format!("{ratio} against {against}, {}", save.number)
                        }
                        Err(why) => format!("not compared with {against}, {}: {why}", save.number),
                    });
                }
                outln!("  {}", told.join("; "));
            }
            Err(why) => outln!("  no time: {why}"),
        }
        outln!("  {:.1} s from save to figure", saved.elapsed().as_secs_f64());
        let save = Save { number, prepared };
        if best {
            subject.kept.clear();
        }
        subject.kept.truncate(1);
        subject.kept.push(save);
        Ok(true)
    }
}

/// Returns the message of a rejected source, prefixed with its file and line.
fn place(text: &FinalText, rejected: &Rejected) -> String {
    let message = rejected.message.trim_end();
    match rejected.line.map(|line| text.origin(line)) {
        Some((file, line)) => format!("{file}:{line}: {message}"),
        None => format!("{}: {message}", text.file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_kernels_are_watched() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let make = |path: &str| std::fs::create_dir_all(folder.path().join(path)).expect("writable");
        make("cuda");
        make("shaders/kernels");
        make("target");
        assert_eq!(watched(folder.path()), [folder.path().join("shaders/kernels"), folder.path().join("cuda")]);
    }
}
