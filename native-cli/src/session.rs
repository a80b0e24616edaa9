//! Run of one plan on one target. Events go to the progress bar and to the run file.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use parallax_cuda::Arithmetic;
use parallax_engine::measure::runner;
use parallax_engine::measure::runner::Flow;
use parallax_engine::plan::{Plan, plan};
use parallax_ir::device::Profiler;
use parallax_report::escape;
use parallax_schema::device::{BrowserMode, UNNAMED};
use parallax_schema::record::{
    CUDA_ARITHMETIC, Event, Outcome, Record, Run, Suite, UNFINISHED, WGSL_CHECKS, longest_first,
};
use parallax_schema::session::{Mode, ResumeState, RunEnd};
use parallax_schema::spec::Spec;
use parallax_schema::units::Nanos;
use parallax_shaders::Checks;

use crate::args::Device;
use crate::browser;
use crate::browser::{BrowserOptions, PageTarget};
use crate::console::{errln, noteln};
use crate::host;
use crate::interrupts::interrupted;
use crate::output::{Output, RunFile};
use crate::progress::Progress;
use crate::targets::{Opened, TARGETS};

fn flow() -> Flow {
    if interrupted() { Flow::Stop } else { Flow::Continue }
}

/// Number of losses of one device after which a run fails.
const LOSSES: usize = 3;

/// Runs the spec on a target, keeps its file up to date, and returns the finished file. The run's environment lists
/// better targets that do not open.
pub fn session(
    (target, opened): (&'static str, Opened),
    passed_over: Option<&str>,
    spec: &Spec,
    mode: Mode,
    device: &Device,
    out: &Output,
) -> anyhow::Result<RunFile> {
    match opened {
        Opened::Here(profiler) => {
            let spec = Spec { lock_clocks: device.native.lock_clocks, ..spec.clone() };
            here((target, profiler), passed_over, &spec, mode, device, out)
        }
        Opened::Browser(options) => remote(&options, spec, mode, out),
    }
}

/// Returns this program.
pub fn suite() -> Suite {
    Suite { version: env!("CARGO_PKG_VERSION").to_owned(), commit: env!("PARALLAX_COMMIT").to_owned() }
}

/// Returns a run without records on this machine.
pub fn begin(target: &str, profiler: &dyn Profiler, spec: &Spec, plan: &Plan) -> Run {
    Run {
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        environment: host::facts(),
        ..plan.begin(target, suite(), profiler, spec)
    }
}

fn here(
    (target, mut profiler): (&'static str, Box<dyn Profiler>),
    passed_over: Option<&str>,
    spec: &Spec,
    mode: Mode,
    device: &Device,
    out: &Output,
) -> anyhow::Result<RunFile> {
    let plan = plan(spec, &profiler.device().caps)?;
    let mut run = begin(target, &*profiler, spec, &plan);
    run.environment.extend(passed_over.map(|why| ("passed_over".to_owned(), why.to_owned())));
    let checks = device.native.checked.filter(|checks| target == "wgpu" && *checks != Checks::NONE);
    run.environment.extend(checks.map(|checks| (WGSL_CHECKS.to_owned(), checks.to_string())));
    let arithmetic =
        device.native.arithmetic.filter(|arithmetic| target == "cuda" && *arithmetic != Arithmetic::Precise);
    run.environment.extend(arithmetic.map(|arithmetic| (CUDA_ARITHMETIC.to_owned(), arithmetic.to_string())));
    let mut file = RunFile::begin(out, run)?;
    if mode != Mode::Verify {
        let left =
            plan.cases.iter().filter(|planned| file.run().records.iter().all(|r| r.case != planned.name())).count();
        noteln!("{}", announcement(target, left, spec, left as f64 / plan.cases.len().max(1) as f64));
    }
    let progress = Progress::new(target);
    let mut interrupted = None;
    for losses in 1.. {
        let so_far = ResumeState::from_run(file.run());
        let since = since(file.run(), profiler.now());
        let ended = pollster::block_on(runner::run(&plan, spec, mode, &mut *profiler, &so_far, |event| {
            take_in(&mut file, &progress, event.later(since));
            flow()
        }));
        match ended {
            RunEnd::Complete => break,
            RunEnd::Stopped => {
                interrupted = Some("stopped on request".to_owned());
                break;
            }
            RunEnd::DeviceLost(case) => {
                let open = TARGETS.iter().find(|t| t.name == target).expect("it was opened before").open;
                let tuning = profiler.device().caps.tuning.clone();
                drop(profiler);
                match open(device) {
                    Ok(Opened::Here(fresh)) if losses < LOSSES => {
                        profiler = fresh;
                        profiler.set_tuning(tuning);
                    }
                    _ => {
                        interrupted = Some(format!("the device was lost during {case}"));
                        break;
                    }
                }
            }
        }
    }
    progress.clear();
    file.apply(Event::End { interrupted, environment: BTreeMap::new() }, |_| {});
    Ok(file)
}

/// Returns the announcement of a run with its expected duration. The duration of checks depends on the processor and is
/// unknown.
fn announcement(target: &str, cases: usize, spec: &Spec, share: f64) -> String {
    let ceilings = if spec.ceilings { "compiling, checks and ceilings" } else { "compiling and checks" };
    let plural = if cases == 1 { "" } else { "s" };
    format!(
        "{target}: {cases} case{plural}, up to {:.0} s of samples (--budget); {ceilings} come on top",
        (spec.budget * share).ceil()
    )
}

/// Returns the time from the start of the run to the opening of a profiler. The clock of each profiler starts anew.
fn since(run: &Run, now: Nanos) -> Nanos {
    match run.last_moment() {
        Nanos(0.0) => Nanos(0.0),
        last => last - now,
    }
}

/// Returns the spec that completes an earlier run in a page: the missing cases, with the same time per case.
fn rest(earlier: &Run) -> Spec {
    let missing: Vec<String> = earlier.missing().map(str::to_owned).collect();
    let skipped = earlier.records.iter().filter(|r| matches!(r.outcome, Outcome::Skipped { .. })).count();
    let share = missing.len() as f64 / (earlier.planned.len() - skipped).max(1) as f64;
    let all = Spec { filter: Vec::new(), dtype: Vec::new(), variant: Vec::new(), ..earlier.spec.clone() };
    Spec { case: missing, budget: earlier.spec.budget * share, ..all }
}

/// Passes an event to the progress bar and to the file.
fn take_in(file: &mut RunFile, progress: &Progress, event: Event) {
    match &event {
        Event::Started { case } => {
            log::debug!("{case}");
            progress.started(case);
        }
        Event::Progress { share, left } => progress.at(*share, *left),
        Event::Baseline { baseline } => log::debug!("clocks and ceilings: {baseline:?}"),
        Event::Drift { drift } => log::trace!("reference kernel: {drift:?}"),
        Event::Record { record } => {
            log::info!("{}: {}", record.case, record.verdict());
            if let Some(line) = bad_news(record) {
                progress.say(&line);
            }
        }
        Event::Spent { spent, activities } => {
            log::debug!("{spent:?}");
            log::info!("time by activity: {}", longest_first(activities));
        }
        _ => {}
    }
    file.apply(event, |line| progress.say(line));
}

/// Returns the message of a wrong or failed case. It is printed at once, because a killed run may never show its table.
fn bad_news(record: &Record) -> Option<String> {
    let why = match &record.outcome {
        Outcome::Fail { check } => check.sentence(),
        Outcome::Error { reason } => reason.clone(),
        _ => return None,
    };
    Some(format!("{} {}: {}", record.verdict(), escape(&record.case), escape(&why)))
}

/// Adds the facts that this machine knows about a page's run: a doubt about its device, and names that the browser hides.
pub fn complete(run: &mut Run, options: &BrowserOptions) {
    if let Some(doubt) = options.passes_by(run.device()).as_ref().or(options.doubt.as_ref()) {
        errln!("{doubt}");
        run.environment.insert("device_doubt".to_owned(), doubt.clone());
    }
    if let Some(card) = &options.card {
        // Stock browsers report only the vendor of the GPU, and Firefox nothing.
        let stock = run.reach == Some(BrowserMode::Stock);
        let gpus = run.devices.iter_mut().filter(|device| !device.kind.is_emulated());
        gpus.filter(|device| stock || device.name == UNNAMED).for_each(|gpu| gpu.name.clone_from(card));
    }
    if let (PageTarget::Wasm, Some(name)) = (options.target, crate::cpu::name()) {
        // Browsers do not report the processor's name. This browser runs on this machine's processor.
        run.devices.iter_mut().for_each(|device| device.name = name.clone());
    }
}

fn remote(options: &BrowserOptions, spec: &Spec, mode: Mode, out: &Output) -> anyhow::Result<RunFile> {
    let target = options.target.name();
    let mut file: Option<(RunFile, Progress)> = None;
    let rest = out.resumed.as_ref().map(|resumed| rest(&resumed.run));
    let spec = rest.as_ref().unwrap_or(spec);
    let since = out.resumed.as_ref().map_or(Nanos(0.0), |resumed| resumed.run.last_moment());
    let mut failure: Option<anyhow::Error> = None;
    let result = browser::run(options, spec, mode, &mut |event| {
        let outcome = match (event, &mut file) {
            (Some(Event::Begin { mut run }), _) => {
                // The browser runs on this host.
                for (key, value) in host::facts() {
                    run.environment.entry(key).or_insert(value);
                }
                complete(&mut run, options);
                RunFile::begin(out, *run).map(|begun| file = Some((begun, Progress::new(target))))
            }
            (Some(Event::Unavailable { reason }), _) => Err(anyhow::anyhow!("target {target}: {reason}")),
            (Some(event), Some((file, progress))) => {
                take_in(file, progress, event.later(since));
                Ok(())
            }
            _ => Ok(()),
        };
        match outcome {
            Ok(()) => flow(),
            Err(error) => {
                failure = Some(error);
                Flow::Stop
            }
        }
    });
    file.iter().for_each(|(_, progress)| progress.clear());
    if let Some(error) = failure {
        return Err(error);
    }
    let Some((mut file, _)) = file else {
        let why = result.map_or_else(|error| error.to_string(), |()| "the page ended without a word".to_owned());
        return Err(anyhow::anyhow!("target {target}: {why}"));
    };
    let run = file.run();
    // A run without an end event is unfinished, unless all cases are present.
    let open = run.interrupted.as_deref() == Some(UNFINISHED);
    let interrupted = match result {
        Err(error) => Some(error.to_string()),
        Ok(()) if open => run.missing().next().map(|_| "stopped on request".to_owned()),
        Ok(()) => run.interrupted.clone(),
    };
    file.apply(Event::End { interrupted, environment: BTreeMap::new() }, |_| {});
    Ok(file)
}
