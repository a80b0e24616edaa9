//! One plan on one target: events to the progress bar and to the run's file.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use parallax_core::device::Profiler;
use parallax_core::measure::runner;
use parallax_core::measure::runner::{Ended, Event, Flow, Mode, SoFar};
use parallax_core::plan::{Plan, Spec, plan};
use parallax_core::record::{Run, Suite};

use crate::args::Device;
use crate::browser;
use crate::browser::{BrowserOptions, RemoteEvent};
use crate::output::{Output, RunFile};
use crate::progress::Progress;
use crate::targets::{Opened, TARGETS};

/// Set by Ctrl-C: finish the cases that have samples enough, and end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C ends the run with the cases that have samples enough; the second ends the program, whose files are whole anyway.
pub fn listen_for_interrupts() -> anyhow::Result<()> {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if LISTENING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!("\nfinishing what has samples enough; press Ctrl-C again to end at once");
    })
    .context("cannot listen for Ctrl-C")
}

/// Whether Ctrl-C was pressed.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

fn flow() -> Flow {
    if interrupted() { Flow::Stop } else { Flow::Continue }
}

/// Losses of one device after which a run gives up.
const LOSSES: usize = 3;

/// Run the spec on a target, keep its file current, and return the finished file.
pub fn session(
    target: &'static str,
    opened: Opened,
    spec: &Spec,
    mode: Mode,
    device: &Device,
    out: &Output,
) -> anyhow::Result<RunFile> {
    match opened {
        Opened::Here(profiler) => here(target, profiler, spec, mode, device, out),
        Opened::Browser(options) => remote(&options, spec, mode, out),
    }
}

/// A run without records, on this machine.
pub fn begin(target: &str, profiler: &dyn Profiler, spec: &Spec, plan: &Plan) -> Run {
    let suite = Suite { version: env!("CARGO_PKG_VERSION").to_owned(), commit: env!("PARALLAX_COMMIT").to_owned() };
    Run {
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        environment: BTreeMap::from([
            ("os".to_owned(), os()),
            ("architecture".to_owned(), std::env::consts::ARCH.to_owned()),
        ]),
        ..Run::begin(target, suite, profiler, spec, plan)
    }
}

/// Name of the operating system, with its release where a file tells.
fn os() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| std::env::consts::OS.to_owned(), |n| n.trim_matches('"').to_owned())
}

fn here(
    target: &'static str,
    mut profiler: Box<dyn Profiler>,
    spec: &Spec,
    mode: Mode,
    device: &Device,
    out: &Output,
) -> anyhow::Result<RunFile> {
    let plan = plan(spec, &profiler.device().caps)?;
    let run = begin(target, &*profiler, spec, &plan);
    let progress = Progress::new(target);
    let mut file = RunFile::begin(out, run)?;
    let mut failure = None;
    for losses in 1.. {
        let so_far = SoFar::of(&file.run);
        let ended = pollster::block_on(runner::run(&plan, spec, mode, &mut *profiler, &so_far, |event| {
            match event {
                Event::Started { case } => progress.started(case),
                Event::Progress(share) => progress.at(share),
                Event::Baseline(baseline) => file.run.begun(baseline.clone()),
                Event::Drift(drift) => file.run.drift.push(drift.clone()),
                Event::Spent(spent) => file.run.spent += spent,
                Event::Finished(record) => {
                    if let Err(error) = file.push(record.clone(), |line| progress.say(line)) {
                        failure = Some(error);
                        return Flow::Stop;
                    }
                }
            }
            flow()
        }));
        match ended {
            Ended::Complete => break,
            Ended::Stopped => {
                file.run.interrupted = Some("stopped on request".to_owned());
                break;
            }
            Ended::DeviceLost(case) => {
                let open = TARGETS.iter().find(|t| t.name == target).expect("it was opened before").open;
                drop(profiler);
                match open(device) {
                    Ok(Opened::Here(fresh)) if losses < LOSSES => profiler = fresh,
                    _ => {
                        file.run.interrupted = Some(format!("the device was lost during {case}"));
                        break;
                    }
                }
            }
        }
    }
    progress.clear();
    match failure {
        Some(error) => Err(error),
        None => Ok(file),
    }
}

fn remote(options: &BrowserOptions, spec: &Spec, mode: Mode, out: &Output) -> anyhow::Result<RunFile> {
    let mut file: Option<RunFile> = None;
    let mut progress = None;
    let mut failure: Option<anyhow::Error> = None;
    let result = browser::run(options, spec, mode, &mut |event| {
        let outcome = match event {
            RemoteEvent::Begin { mut run } => {
                let flags = options.flags.join(" ");
                run.environment.insert("browser_flags".to_owned(), flags);
                progress = Some(Progress::new("browser"));
                RunFile::begin(out, *run).map(|begun| file = Some(begun))
            }
            RemoteEvent::Baseline { baseline } => {
                file.iter_mut().for_each(|f| f.run.begun((*baseline).clone()));
                Ok(())
            }
            RemoteEvent::Progress { share, drift } => {
                progress.iter().for_each(|p| p.at(share));
                file.iter_mut().for_each(|f| f.run.drift.extend(drift.iter().cloned()));
                Ok(())
            }
            RemoteEvent::Record { record } => {
                let tell = |line: &str| progress.iter().for_each(|p| p.say(line));
                file.as_mut().map_or(Ok(()), |f| f.push(*record, tell))
            }
            RemoteEvent::Started { case } => {
                progress.iter().for_each(|p| p.started(&case));
                Ok(())
            }
            RemoteEvent::End { interrupted, environment, drift, spent } => {
                if let Some(file) = &mut file {
                    file.run.interrupted = interrupted;
                    file.run.drift.extend(drift);
                    file.run.spent += spent;
                    file.run.environment.extend(environment);
                }
                Ok(())
            }
            RemoteEvent::Unavailable { reason } => Err(anyhow::anyhow!("target browser: {reason}")),
            RemoteEvent::Waiting => Ok(()),
        };
        match outcome {
            Ok(()) => flow(),
            Err(error) => {
                failure = Some(error);
                Flow::Stop
            }
        }
    });
    progress.iter().for_each(Progress::clear);
    if let Some(error) = failure {
        return Err(error);
    }
    match (file, result) {
        (Some(mut file), result) => {
            if let Err(error) = result {
                file.run.interrupted = Some(error.to_string());
            } else if file.run.interrupted.is_none() && file.run.missing().next().is_some() {
                file.run.interrupted = Some("stopped on request".to_owned());
            }
            Ok(file)
        }
        (None, Err(error)) => Err(anyhow::anyhow!("target browser: {error}")),
        (None, Ok(())) => Err(anyhow::anyhow!("target browser: the page ended without a word")),
    }
}
