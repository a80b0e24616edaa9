//! The measuring loop of a run.
//!
//! The clocks are tested before the first case. The cases are then measured in groups that fit into memory together. The first
//! of several groups is one problem, so that a figure appears soon. The ceilings are measured when the first case needs them.
//! Every case of a group is prepared and checked. A reference kernel keeps the device busy until its clocks have risen. Rounds
//! follow: each takes one sample of every case, in a new random order.
//! A case with enough samples is traced, checked again and recorded, while the others continue. A case with a wrong output or an
//! impossible time has no figure.

use std::rc::Rc;

use parallax_ir::device::{BackendError, Profiler};
use parallax_ir::splitmix64;
use parallax_schema::device::Dialect;
use parallax_schema::record::roofline::Ceilings;
use parallax_schema::record::stats::FEWEST;
use parallax_schema::record::{Activity, Baseline, Event, Outcome};
use parallax_schema::session::{Mode, ResumeState, RunEnd};
use parallax_schema::spec::{Cache, PRECISION_NATIVE, Spec};
use parallax_schema::units::{Bytes, Nanos};

use crate::measure::announce::{next_group, prefetch};
use crate::measure::case_run::{CaseEnd, CaseRun};
use crate::measure::ended::{finished_event, record, skipped};
use crate::measure::meter::Metered;
use crate::measure::order::{lightest_last, shuffle, shuffled_by_problem};
use crate::measure::reference_cache::ReferenceCache;
use crate::measure::reference_kernel::ReferenceKernel;
use crate::measure::remaining::Remaining;
use crate::measure::setting::Setting;
use crate::measure::stopping_criterion::Limits;
use crate::measure::watch::Watch;
use crate::measure::{call, ceilings, energy, timer};
use crate::plan::{Plan, Planned};

/// Answer of an event's receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Continue.
    Continue,
    /// End the run soon: cases with enough samples are completed, the others are left.
    Stop,
}

/// Runs a plan. Records are emitted as events at once; none is kept.
pub async fn run(
    plan: &Plan,
    spec: &Spec,
    mode: Mode,
    profiler: &mut dyn Profiler,
    so_far: &ResumeState,
    mut on_event: impl FnMut(Event) -> Flow,
) -> RunEnd {
    let mut profiler = Metered::new(profiler);
    let remaining = Remaining::default();
    let watch = Rc::new(Watch::start(profiler.now()));
    let on = &mut on_event;
    let engine =
        Engine { plan, spec, mode, on_event: on, remaining, watch: watch.clone(), stopping: false, soon: false };
    let ended = engine.all(&mut profiler, so_far).await;
    on_event(Event::Spent { spent: profiler.spent(), activities: watch.totals(profiler.now()) });
    ended
}

/// Reason to abandon the current work and the rest of the run.
enum Interruption {
    Stopped,
    /// The device is lost; the string names the current work.
    DeviceLost(String),
}

struct Engine<'a, F> {
    plan: &'a Plan,
    spec: &'a Spec,
    mode: Mode,
    on_event: &'a mut F,
    remaining: Remaining,
    watch: Rc<Watch>,
    stopping: bool,
    /// Whether the next group is one problem, so that a figure appears soon.
    soon: bool,
}

/// Largest number of cases in a group.
const GROUP: usize = 64;
/// Number of cases after which a group takes no other problem. Records then arrive at intervals, and a killed run leaves some.
/// The variants of one problem stay together.
const ENOUGH: usize = 8;
/// Number of cases that are announced together where each is only checked.
const CHECKED_TOGETHER: usize = 16;
/// Largest number of buffer sets of one case.
const MOST_SETS: u64 = 4096;
/// Device memory that a group may take where the total is unknown.
const UNKNOWN_ROOM: u64 = 1 << 30;
/// Share of the clock tests in the work before the cases.
const CLOCKS: f64 = 0.2;
/// Minimum share of its budget that a case takes, at any precision. The samples of a group alternate, so they spread over a
/// stretch of time and see drift that a short burst does not.
const LEAST: f64 = 0.4;

impl<F: FnMut(Event) -> Flow> Engine<'_, F> {
    fn event(&mut self, event: Event) {
        if (self.on_event)(event) == Flow::Stop {
            self.stopping = true;
        }
    }

    async fn all(mut self, profiler: &mut dyn Profiler, so_far: &ResumeState) -> RunEnd {
        for skip in self.plan.skips.iter().filter(|s| !so_far.finished.contains(&s.case.to_string())) {
            self.event(finished_event(skipped(skip)));
        }
        let todo: Vec<&Planned> = self.plan.cases.iter().filter(|p| !so_far.finished.contains(&p.name())).collect();
        if self.stopping {
            return RunEnd::Stopped;
        }
        if todo.is_empty() {
            return RunEnd::Complete;
        }
        let now = profiler.now();
        self.remaining = match self.mode {
            Mode::Verify => Remaining::for_checks(now, todo.len()),
            Mode::Measure | Mode::Profile => Remaining::for_measuring(now, todo.len(), self.limits().budget),
        };
        let ended = match self.mode {
            Mode::Verify => self.verify(&todo, profiler).await,
            Mode::Measure | Mode::Profile => self.measure(&todo, profiler, so_far).await,
        };
        match ended {
            Ok(()) => RunEnd::Complete,
            Err(Interruption::Stopped) => RunEnd::Stopped,
            Err(Interruption::DeviceLost(case)) => RunEnd::DeviceLost(case),
        }
    }

    async fn verify(&mut self, todo: &[&Planned], profiler: &mut dyn Profiler) -> Result<(), Interruption> {
        let mut references = ReferenceCache::default();
        for (index, planned) in todo.iter().enumerate() {
            let case = planned.name();
            self.event(Event::Started { case: case.clone() });
            if self.stopping {
                return Err(Interruption::Stopped);
            }
            if index % CHECKED_TOGETHER == 0 {
                let next = (todo.len() - index).min(CHECKED_TOGETHER);
                prefetch(todo[index..].iter(), next, self.spec.cache, profiler).await;
            }
            let end = match CaseRun::begin(planned, 1, self.spec, (&mut references, &self.watch), profiler).await {
                Ok(mut case_run) => match case_run.repeat(self.spec.repeat, profiler).await {
                    Ok(()) => case_run.verified(),
                    Err(end) => end,
                },
                Err(end) => end,
            };
            self.end(planned, end, &case)?;
            self.prepared(profiler.now(), true);
        }
        if self.stopping { Err(Interruption::Stopped) } else { Ok(()) }
    }

    async fn measure(
        &mut self,
        todo: &[&Planned],
        profiler: &mut dyn Profiler,
        so_far: &ResumeState,
    ) -> Result<(), Interruption> {
        let mut setting = match self.baseline(profiler, so_far).await {
            Ok(setting) => setting,
            Err(BackendError::Lost(_)) => return Err(Interruption::DeviceLost("the self-test".to_owned())),
            Err(error) => {
                // The cases cannot be measured on a device that cannot run the probes.
                for planned in todo {
                    let reason = format!("the self-test of clocks failed: {error}");
                    self.event(finished_event(record(planned, Outcome::Error { reason })));
                }
                return Ok(());
            }
        };
        let mut queue = shuffled_by_problem(todo, self.spec.seed);
        self.soon = queue.len() > ENOUGH;
        if self.soon {
            queue = lightest_last(queue);
        }
        while !queue.is_empty() {
            if self.stopping {
                return Err(Interruption::Stopped);
            }
            self.group(&mut queue, &mut setting, profiler).await?;
        }
        if self.stopping { Err(Interruption::Stopped) } else { Ok(()) }
    }

    /// Tests the clocks, and takes the ceilings from the earlier part, if any.
    async fn baseline(&mut self, profiler: &mut dyn Profiler, so_far: &ResumeState) -> Result<Setting, BackendError> {
        let energy = energy::idle(self.spec, &self.watch, profiler).await;
        self.watch.begin(Activity::Clocks, profiler.now());
        let mut reference_kernel = match ReferenceKernel::new(profiler).await {
            Ok(reference_kernel) => Some(reference_kernel),
            Err(BackendError::Lost(why)) => return Err(BackendError::Lost(why)),
            // A device that cannot run the kernel is measured without it.
            Err(_) => None,
        };
        let (mut timer, clock) = timer::test(profiler, reference_kernel.as_mut()).await?;
        if let Some(c) = &mut reference_kernel
            && !c.size(&clock).await?
        {
            reference_kernel = None;
        }
        if let Some(reference_kernel) = &mut reference_kernel {
            reference_kernel.ramp(profiler, &clock).await?;
            if so_far.baseline.is_none() {
                timer.waits = call::sweep(profiler, reference_kernel, &clock, timer.completion).await?;
            }
        }
        let baseline = match &so_far.baseline {
            Some(known) => Baseline { clock: clock.info.clone(), ..known.clone() },
            None => Baseline { clock: clock.info.clone(), timer, ceilings: Ceilings::default() },
        };
        self.event(Event::Baseline { baseline: Box::new(baseline.clone()) });
        // An earlier part may have ended before its ceilings.
        let ceilings_due = self.spec.ceilings && baseline.ceilings == Ceilings::default();
        self.baseline_at(profiler.now(), if ceilings_due { CLOCKS } else { 1.0 });
        let room = profiler.device().caps.memory.map_or(UNKNOWN_ROOM, |m| m.0 / 4);
        self.watch.begin(Activity::Rest, profiler.now());
        let sampled = so_far.sampled.clone();
        Ok(Setting { clock, baseline, ceilings_due, reference_kernel, room, energy, sampled })
    }

    fn baseline_at(&mut self, now: Nanos, share: f64) {
        let progress = self.remaining.baseline(now, share);
        self.event(progress);
    }

    /// Measures the ceilings, unless they are known.
    async fn ceilings(&mut self, setting: &mut Setting, profiler: &mut dyn Profiler) -> Result<(), Interruption> {
        if !std::mem::take(&mut setting.ceilings_due) {
            return Ok(());
        }
        let before = self.watch.begin(Activity::Ceilings, profiler.now());
        let progress = |now, share| self.baseline_at(now, CLOCKS + (1.0 - CLOCKS) * share);
        match ceilings::measure(profiler, &setting.clock, progress).await {
            Ok(ceilings) => setting.baseline.ceilings = ceilings,
            Err(_) => return Err(Interruption::DeviceLost("the ceilings".to_owned())),
        }
        self.watch.begin(before, profiler.now());
        self.event(Event::Baseline { baseline: Box::new(setting.baseline.clone()) });
        Ok(())
    }

    /// Takes as many cases off the queue as fit together, and completes them.
    async fn group(
        &mut self,
        queue: &mut Vec<&Planned>,
        setting: &mut Setting,
        profiler: &mut dyn Profiler,
    ) -> Result<(), Interruption> {
        let mut case_runs: Vec<CaseRun> = Vec::new();
        let mut references = ReferenceCache::default();
        let mut held = 0;
        let first = std::mem::take(&mut self.soon);
        let enough = if first { 1 } else { ENOUGH };
        let next = next_group(queue, enough, GROUP);
        // The first figure waits for no other case.
        let announced = if first { next } else { queue.len() };
        self.watch.begin(Activity::Preparation, profiler.now());
        prefetch(queue.iter().rev().take(announced), next, self.spec.cache, profiler).await;
        while let Some(planned) = queue.last().copied() {
            let case = planned.name();
            // Uploads cannot be timed where the driver keeps the host's buffers in device memory.
            let uploads = planned.case.problem.crossing().up.0 > 0;
            if uploads || self.spec.cache == Cache::Cold {
                self.ceilings(setting, profiler).await?;
            }
            let caps = &profiler.device().caps;
            let local = setting.baseline.ceilings.link.local().filter(|_| uploads);
            let sets = || sets(planned.memory(caps).0, self.spec.cache, setting, caps.dialect);
            let sets = match local.map_or_else(sets, Err) {
                Ok(sets) => sets,
                Err(reason) => {
                    queue.pop();
                    self.event(finished_event(record(planned, Outcome::Skipped { reason })));
                    self.prepared(profiler.now(), false);
                    continue;
                }
            };
            let bytes = planned.memory_of(sets, caps).0;
            let problem = planned.case.problem.to_string();
            let other = case_runs.last().is_some_and(|last| last.planned.case.problem.to_string() != problem);
            let full = case_runs.len() >= GROUP || case_runs.len() >= enough && other;
            if full || !case_runs.is_empty() && held + bytes > setting.room {
                break;
            }
            queue.pop();
            self.event(Event::Started { case: case.clone() });
            if self.stopping {
                break;
            }
            let begun = case_runs.len();
            match CaseRun::begin(planned, sets, self.spec, (&mut references, &self.watch), profiler).await {
                Ok(mut case_run) => match case_run.size(self.limits(), &setting.clock, self.spec.cache, profiler).await
                {
                    Ok(()) => {
                        held += bytes;
                        setting.sampled.get(&case).into_iter().for_each(|earlier| case_run.resume(earlier));
                        case_runs.push(case_run);
                    }
                    Err(end) => self.end(planned, end, &case)?,
                },
                // Memory that other cases hold is no failure of this case: it returns in a group of its own.
                Err(CaseEnd::OutOfMemory(_)) if !case_runs.is_empty() => {
                    queue.push(planned);
                    break;
                }
                Err(end) => self.end(planned, end, &case)?,
            }
            self.prepared(profiler.now(), case_runs.len() > begun);
        }
        drop(references);
        self.watch.begin(Activity::Rest, profiler.now());
        let cases = case_runs.len();
        self.rounds(&mut case_runs, setting, profiler).await?;
        self.remaining.group_sampled(profiler.now(), cases);
        for case_run in case_runs {
            self.complete(case_run, setting, profiler).await?;
        }
        Ok(())
    }

    /// Completes a case.
    async fn complete(
        &mut self,
        case_run: CaseRun<'_>,
        setting: &mut Setting,
        profiler: &mut dyn Profiler,
    ) -> Result<(), Interruption> {
        let (planned, case) = (case_run.planned, case_run.planned.name());
        self.event(Event::Started { case: case.clone() });
        if self.stopping && case_run.samples() < FEWEST as usize {
            return Ok(());
        }
        // A run that ends soon goes without ceilings that are still due, and without energy.
        match self.stopping {
            false => self.ceilings(setting, profiler).await?,
            true => setting.energy = setting.energy.take().map(|_| Err("the run was stopped before".to_owned())),
        }
        let known = setting.baseline.ceilings.clone();
        let end = case_run.complete(self.spec, self.mode, setting, profiler).await;
        if setting.baseline.ceilings != known {
            self.event(Event::Baseline { baseline: Box::new(setting.baseline.clone()) });
        }
        self.end(planned, end, &case)?;
        let progress = self.remaining.completed(profiler.now());
        self.event(progress);
        Ok(())
    }

    fn prepared(&mut self, now: Nanos, goes_on: bool) {
        let progress = self.remaining.prepared(now, goes_on);
        self.event(progress);
    }

    /// Every case has the same share of the budget, also in a later part of the run.
    fn limits(&self) -> Limits {
        let share = Nanos::from_secs(self.spec.budget / self.plan.cases.len().max(1) as f64);
        Limits {
            precision: self.spec.precision.unwrap_or(PRECISION_NATIVE),
            budget: share,
            // The reference kernel has kept the device busy.
            warm_up: Nanos(0.0),
            least: Nanos(LEAST * share.0),
            ..Limits::default()
        }
    }

    /// Emits a record; a lost device ends the run.
    fn end(&mut self, planned: &Planned, end: CaseEnd, case: &str) -> Result<(), Interruption> {
        let lost = matches!(end, CaseEnd::DeviceLost(_));
        self.event(finished_event(record(planned, end.into())));
        if lost { Err(Interruption::DeviceLost(case.to_owned())) } else { Ok(()) }
    }

    /// Emits the record of a case at its first sample, so that a killed run keeps the samples.
    fn sampling(&mut self, case_run: &CaseRun<'_>) {
        if let Some(outcome) = case_run.result_so_far() {
            self.event(Event::Sampling { record: Box::new(record(case_run.planned, outcome)) });
        }
    }

    /// Takes samples of all cases until each has enough; a case with enough is completed while the others continue.
    async fn rounds(
        &mut self,
        case_runs: &mut Vec<CaseRun<'_>>,
        setting: &mut Setting,
        profiler: &mut dyn Profiler,
    ) -> Result<(), Interruption> {
        let clock = &setting.clock.clone();
        let mut ended = 0.0;
        let lost = |error: BackendError, case: &str| match error {
            BackendError::Lost(_) => Some(Interruption::DeviceLost(case.to_owned())),
            _ => None,
        };
        let watch = self.watch.clone();
        watch.begin(Activity::ReferenceKernel, profiler.now());
        if let Some(c) = &mut setting.reference_kernel
            && let Err(error) = c.ramp(profiler, clock).await
        {
            if let Some(interruption) = lost(error, "the reference kernel") {
                return Err(interruption);
            }
            setting.reference_kernel = None;
        }
        for round in 0u64.. {
            let mut order: Vec<usize> = (0..case_runs.len()).filter(|i| case_runs[*i].sampling()).collect();
            if order.is_empty() || self.stopping {
                break;
            }
            shuffle(&mut order, splitmix64(self.spec.seed ^ splitmix64(round)));
            let mut slow = None;
            watch.begin(Activity::ReferenceKernel, profiler.now());
            if let Some(c) = &mut setting.reference_kernel {
                match c.look(profiler, clock).await {
                    Ok((drift, why)) => {
                        slow = why;
                        self.event(Event::Drift { drift });
                    }
                    Err(error) => {
                        if let Some(interruption) = lost(error, "the reference kernel") {
                            return Err(interruption);
                        }
                        setting.reference_kernel = None;
                    }
                }
            }
            watch.begin(Activity::Samples, profiler.now());
            let mut samples = Vec::new();
            for i in order {
                let case_run = &mut case_runs[i];
                if case_run.sample(profiler, slow.as_deref()).await {
                    match case_run.samples() {
                        1 => self.sampling(case_run),
                        _ => samples.extend(case_run.latest_sample()),
                    }
                }
                if let Some(lost) = case_run.failure.take_if(|e| matches!(e, CaseEnd::DeviceLost(_))) {
                    self.end(case_run.planned, lost, &case_run.planned.name())?;
                }
                profiler.yield_now().await;
            }
            watch.begin(Activity::Rest, profiler.now());
            if !samples.is_empty() {
                self.event(Event::Samples { samples });
            }
            let sampled = ended + case_runs.iter().map(CaseRun::progress).sum::<f64>();
            let progress = self.remaining.sampled(profiler.now(), sampled);
            self.event(progress);
            let mut at = 0;
            while at < case_runs.len() {
                if case_runs[at].sampling() {
                    at += 1;
                    continue;
                }
                ended += 1.0;
                let case_run = case_runs.remove(at);
                self.complete(case_run, setting, profiler).await?;
            }
        }
        Ok(())
    }
}

/// Returns the number of buffer sets for the requested cache state, or the reason why it is impossible.
fn sets(one: u64, cache: Cache, setting: &Setting, dialect: Dialect) -> Result<u32, String> {
    if cache == Cache::Hot {
        return Ok(1);
    }
    if dialect == Dialect::Cpu {
        return Err("cold caches are not possible on the host, which computes in one place".to_owned());
    }
    // Where no cache shows, the largest probe is the best known bound.
    let known = setting.baseline.ceilings.cache.as_ref().map(|c| c.capacity);
    let capacity = known
        .or_else(|| setting.baseline.ceilings.bandwidth.last().map(|b| Bytes(b.working_set.0 / 2)))
        .ok_or("cold caches need the capacity of the last cache, which is measured with the ceilings: leave them on")?;
    let one = one.max(1);
    let sets = (2 * capacity.0).div_ceil(one) + 1;
    if sets > MOST_SETS {
        return Err(format!(
            "cold caches of {capacity} would take {sets} copies of {}; at most {MOST_SETS} are made",
            Bytes(one)
        ));
    }
    if sets * one > setting.room.max(4 * one) {
        return Err(format!("cold caches would take {} of device memory", Bytes(sets * one)));
    }
    Ok(sets.max(2) as u32)
}
