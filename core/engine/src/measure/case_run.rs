//! One case during a run: preparation, check, samples and outcome.

use std::rc::Rc;

use parallax_ir::device::{BackendError, Batch, POISON, Prepared, Profiler};
use parallax_ir::{Case, Role};
use parallax_schema::device::{Caps, MemoryStats, Step, Trace};
use parallax_schema::record::roofline::{Analysis, Ceilings};
use parallax_schema::record::{
    Activity, CaseSample, CheckResult, Counters, Energy, Measured, OneCall, Outcome, Refusal, Repeatable, StopReason,
    Timing, roofline,
};
use parallax_schema::spec::schedule::{self, Schedule};
use parallax_schema::spec::{Cache, Spec};
use parallax_schema::units::{Bytes, Nanos};

use crate::measure::check::check_and_keep;
use crate::measure::phases::Phases;
use crate::measure::reference_cache::{ProblemReference, ReferenceCache};
use crate::measure::relaunch::relaunch;
use crate::measure::repeat::OutputDigest;
use crate::measure::sampler::{Sampler, TrustedClock, Unsized};
use crate::measure::setting::Setting;
use crate::measure::stopping_criterion::Limits;
use crate::measure::traced::follow;
use crate::measure::watch::Watch;
use crate::measure::{bandwidth, batch, call, ceilings, energy};
use crate::plan::Planned;
use parallax_schema::session::Mode;

/// Number of times that ceilings are measured again before a time is called impossible. Other load on the machine may slow a
/// probe for a while.
const LOOKS: usize = 4;
/// Share of the floor below which load explains nothing, and one more measurement of the ceilings is enough.
const HOPELESS: f64 = 0.1;

/// Number of attempts at sizing a batch; an attempt during which the program was suspended is repeated.
const TRIES: usize = 3;

/// End of a case before it becomes a record.
pub enum CaseEnd {
    /// An outcome.
    Outcome(Outcome),
    /// Too little memory; other cases may hold it.
    OutOfMemory(String),
    /// A lost device.
    DeviceLost(String),
}

impl From<BackendError> for CaseEnd {
    fn from(error: BackendError) -> CaseEnd {
        match error {
            BackendError::Lost(why) => CaseEnd::DeviceLost(why),
            BackendError::OutOfMemory(why) => CaseEnd::OutOfMemory(why),
            refused @ BackendError::Refused(_) => CaseEnd::Outcome(Outcome::Skipped { reason: refused.to_string() }),
            other => CaseEnd::Outcome(Outcome::Error { reason: other.to_string() }),
        }
    }
}

impl From<CaseEnd> for Outcome {
    fn from(end: CaseEnd) -> Outcome {
        let failed = |error: BackendError| Outcome::Error { reason: error.to_string() };
        match end {
            CaseEnd::Outcome(outcome) => outcome,
            CaseEnd::OutOfMemory(why) => failed(BackendError::OutOfMemory(why)),
            CaseEnd::DeviceLost(why) => failed(BackendError::Lost(why)),
        }
    }
}

/// A case on the device.
pub struct CaseRun<'p> {
    /// The planned case.
    pub planned: &'p Planned,
    case: Case,
    sets: u32,
    planned_memory: Bytes,
    prepared: Box<dyn Prepared>,
    reference: Rc<ProblemReference>,
    check: CheckResult,
    /// Digest of the outputs of the checked execution.
    left: OutputDigest,
    phases: Phases,
    first_launch: Nanos,
    /// Values of its tunables, as `name=value`.
    settings: Vec<String>,
    sampler: Option<Sampler>,
    stopped: Option<StopReason>,
    energy: Option<Energy>,
    counters: Option<Counters>,
    /// The failure of a sample, if any.
    pub failure: Option<CaseEnd>,
    watch: Rc<Watch>,
}

impl<'p> CaseRun<'p> {
    /// Prepares a case, executes it once on poisoned outputs, and checks it.
    pub async fn begin(
        planned: &'p Planned,
        sets: u32,
        spec: &Spec,
        (references, watch): (&mut ReferenceCache, &Rc<Watch>),
        profiler: &mut dyn Profiler,
    ) -> Result<CaseRun<'p>, CaseEnd> {
        profiler.yield_now().await;
        let case = planned.runs();
        let caps = &profiler.device().caps;
        let settings = settings(planned, caps);
        let planned_memory = planned.memory_of(sets, caps);
        watch.begin(Activity::References, profiler.now());
        let reference = references.of(planned, spec.seed, profiler).await;
        watch.begin(Activity::Preparation, profiler.now());
        let mut phases = Phases::begin(profiler.now());
        let mut prepared = profiler.prepare(&case, &reference.inputs, sets).await?;
        if let Some(launching) = spec.launch {
            prepared.launch_as(launching).await?;
        }
        phases.end("prepare", profiler.now());
        watch.begin(Activity::Checks, profiler.now());
        prepared.poison(POISON).await?;
        let first_launch = prepared.measure(Batch::new(1)).await?.host;
        let (check, left) = check_and_keep(profiler, &mut *prepared, &case.problem, &reference.expected).await?;
        phases.end("check", profiler.now());
        watch.begin(Activity::Rest, profiler.now());
        if !check.passed {
            return Err(CaseEnd::Outcome(Outcome::Fail { check }));
        }
        Ok(CaseRun {
            planned,
            case,
            sets,
            planned_memory,
            prepared,
            reference,
            check,
            left,
            phases,
            first_launch,
            settings,
            sampler: None,
            stopped: None,
            energy: None,
            counters: None,
            failure: None,
            watch: watch.clone(),
        })
    }

    /// Executes a case until it ran `executions` times, and compares each output with the first bit by bit, if the variant is declared
    /// deterministic.
    pub async fn repeat(&mut self, executions: u32, profiler: &dyn Profiler) -> Result<(), CaseEnd> {
        if !self.case.variant_form().is_some_and(|variant| variant.deterministic) {
            return Ok(());
        }
        self.watch.begin(Activity::Checks, profiler.now());
        for execution in 2..=executions {
            self.execute_again().await?;
            let (again, repeatable) = self.check_again(profiler).await?;
            if !again.passed {
                return Err(CaseEnd::Outcome(Outcome::Fail { check: again }));
            }
            if repeatable != Repeatable::Bitwise {
                let words = repeatable.words();
                let reason = format!("declared deterministic, but execution {execution} repeats the first {words}");
                return Err(CaseEnd::Outcome(Outcome::Error { reason }));
            }
        }
        self.watch.begin(Activity::Rest, profiler.now());
        Ok(())
    }

    /// Executes the case once more, on poisoned outputs.
    async fn execute_again(&mut self) -> Result<(), BackendError> {
        self.prepared.poison(POISON).await?;
        self.prepared.measure(Batch::new(1)).await?;
        Ok(())
    }

    /// Compares the outputs of the last execution with the reference, and with those of the first execution.
    async fn check_again(&mut self, profiler: &dyn Profiler) -> Result<(CheckResult, Repeatable), BackendError> {
        let (problem, expected) = (&self.case.problem, &self.reference.expected);
        let (again, left) = check_and_keep(profiler, &mut *self.prepared, problem, expected).await?;
        let repeatable = self.left.repeated_by(&left);
        self.check.repeatable = Some(repeatable);
        Ok((again, repeatable))
    }

    /// Returns the outcome of a case that is checked and not timed.
    pub fn verified(self) -> CaseEnd {
        CaseEnd::Outcome(self.outcome(None, None, None, &Ceilings::default(), None))
    }

    /// Does the work that only timed cases need: a second compilation, and the size of the batch.
    pub async fn size(
        &mut self,
        limits: Limits,
        clock: &TrustedClock,
        cache: Cache,
        profiler: &dyn Profiler,
    ) -> Result<(), CaseEnd> {
        self.watch.begin(Activity::Preparation, profiler.now());
        // A compilation that takes as long as the samples is not repeated.
        if self.prepared.compiled().time.0 <= limits.budget.0 {
            self.prepared.compile_again().await?;
        }
        self.watch.begin(Activity::Sizing, profiler.now());
        let mut stood = profiler.stood_still();
        let mut sized = Sampler::size(&mut *self.prepared, clock, limits, cache, self.sets).await;
        for _ in 1..TRIES {
            // A pause looks like a long execution, and the batch would hold too few executions.
            if profiler.stood_still() == stood {
                break;
            }
            stood = profiler.stood_still();
            sized = Sampler::size(&mut *self.prepared, clock, limits, cache, self.sets).await;
        }
        self.watch.begin(Activity::Rest, profiler.now());
        match sized {
            Ok(sampler) => self.sampler = Some(sampler),
            Err(Unsized::Backend(error)) => return Err(error.into()),
            Err(Unsized::Unresolvable(reason)) => {
                let check = self.check.clone();
                return Err(CaseEnd::Outcome(Outcome::Refused { kind: Refusal::Unresolvable, reason, check }));
            }
        }
        Ok(())
    }

    /// Continues from the samples of an earlier part of the run.
    pub fn resume(&mut self, earlier: &Timing) {
        self.sampler.iter_mut().for_each(|sampler| sampler.resume(earlier));
    }

    /// Whether the case needs more samples.
    pub fn sampling(&self) -> bool {
        self.stopped.is_none() && self.failure.is_none()
    }

    /// Number of samples that count so far.
    pub fn samples(&self) -> usize {
        self.sampler.as_ref().map_or(0, Sampler::samples)
    }

    /// Share of the case's sampling that is done.
    pub fn progress(&self) -> f64 {
        if self.sampling() { self.sampler.as_ref().map_or(0.0, Sampler::progress) } else { 1.0 }
    }

    /// Takes one sample and returns whether it counts. An error becomes the case's `failure`.
    pub async fn sample(&mut self, profiler: &mut dyn Profiler, slow: Option<&str>) -> bool {
        let Some(sampler) = &mut self.sampler else { return false };
        let before = sampler.samples();
        match sampler.sample(&mut *self.prepared, profiler, slow).await {
            Ok(stopped) => self.stopped = stopped,
            Err(error) => self.failure = Some(error.into()),
        }
        sampler.samples() > before
    }

    /// Returns the last sample that counts.
    pub fn latest_sample(&self) -> Option<CaseSample> {
        let (time, host, conditions) = self.sampler.as_ref()?.last()?;
        Some(CaseSample { case: self.planned.name(), time, host, conditions: conditions.clone() })
    }

    /// Returns the outcome as if the run ended now, without the check after the samples.
    pub fn result_so_far(&self) -> Option<Outcome> {
        let timing = self.sampler.as_ref()?.result_so_far()?;
        Some(self.passed(Some(Timing { launch: self.prepared.launching(), ..timing }), None, None, None))
    }

    /// Completes the case after its last sample: traces it, checks it again, and compares its time with the ceilings.
    pub(super) async fn complete(
        mut self,
        spec: &Spec,
        mode: Mode,
        setting: &mut Setting,
        profiler: &mut dyn Profiler,
    ) -> CaseEnd {
        if let Some(end) = self.failure.take() {
            return end;
        }
        let Some(sampler) = self.sampler.take() else {
            return CaseEnd::Outcome(Outcome::Error { reason: "no sample was taken".to_owned() });
        };
        let afresh = sampler.afresh();
        let timing = match sampler.finish(self.stopped.unwrap_or(StopReason::Asked)) {
            Ok(timing) => timing,
            Err(reason) => return CaseEnd::Outcome(Outcome::Error { reason }),
        };
        let timing = Timing { launch: self.prepared.launching(), ..timing };
        self.watch.begin(Activity::Launches, profiler.now());
        let relaunched = match mode {
            Mode::Profile => {
                let bound = self.analysis(&timing, &setting.baseline.ceilings, profiler).map(|analysis| analysis.bound);
                relaunch(&mut *self.prepared, (&timing, bound), &setting.clock, profiler).await
            }
            _ => Ok(None),
        };
        let mut timing = match relaunched {
            Ok(relaunched) => Timing { relaunched, ..timing },
            Err(error) => return error.into(),
        };
        // Before the last check, because it may take samples.
        self.watch.begin(Activity::Ceilings, profiler.now());
        if let Err(error) = self.hold_to_ceilings(&mut timing, afresh, setting, profiler).await {
            return error.into();
        }
        self.watch.begin(Activity::Calls, profiler.now());
        let period = setting.baseline.timer.completion_period;
        let median = timing.summary.median;
        let call = match call::calls(&mut *self.prepared, profiler, period, median).await {
            Ok(call) => call,
            Err(error) => return error.into(),
        };
        match self.after((spec, setting.energy.as_ref()), median, profiler).await {
            Ok((trace, again)) if again.passed => {
                let ceilings = &setting.baseline.ceilings;
                CaseEnd::Outcome(self.outcome(Some(timing), call, Some(trace), ceilings, Some(profiler)))
            }
            Ok((_, check)) => CaseEnd::Outcome(Outcome::Fail { check }),
            Err(error) => error.into(),
        }
    }

    /// Compares the timing with the ceilings. A ceiling is suspected before a case is: it is measured again.
    ///
    /// A time that stays impossible is measured once more, beside the new ceilings. The clock of a processor or a GPU may have
    /// been higher during the samples than it is now.
    async fn hold_to_ceilings(
        &mut self,
        timing: &mut Timing,
        mut afresh: Sampler,
        setting: &mut Setting,
        profiler: &mut dyn Profiler,
    ) -> Result<(), BackendError> {
        let ceilings = &mut setting.baseline.ceilings;
        for look in 0..LOOKS {
            let floor = self.analysis(timing, ceilings, profiler).map_or(0.0, |analysis| analysis.floor.0);
            let hopeless = look > 0 && timing.summary.median.0 < HOPELESS * floor;
            if self.impossible(timing, ceilings, profiler).is_none() || hopeless {
                return Ok(());
            }
            let (problem, set) = (&self.case.problem, self.working_set());
            ceilings::again(profiler, &setting.clock, ceilings, problem, set).await?;
        }
        if self.impossible(timing, ceilings, profiler).is_none() {
            return Ok(());
        }
        let stopped = afresh.sample_all(&mut *self.prepared, profiler).await?;
        if let Ok(again) = afresh.finish(stopped)
            && self.impossible(&again, ceilings, profiler).is_none()
        {
            timing.replace_samples(again);
        }
        Ok(())
    }

    /// Measures the energy, reads the hardware counters, traces the case, and checks it again. A long execution is traced without a
    /// warm-up, and the traced one is checked.
    async fn after(
        &mut self,
        (spec, idle): (&Spec, Option<&Result<f64, String>>),
        execution: Nanos,
        profiler: &mut dyn Profiler,
    ) -> Result<(Trace, CheckResult), BackendError> {
        self.energy = energy::of_case(&mut *self.prepared, profiler, (idle, &self.watch), execution).await?;
        self.counters = self.count(spec, profiler).await?;
        self.watch.begin(Activity::Traces, profiler.now());
        if self.case.problem.shape.items().is_some() {
            for _ in spec.schedule.phases().filter(|phase| *phase == schedule::Phase::Active) {
                let (problem, inputs) = (&self.case.problem, &self.reference.inputs);
                self.phases.list.extend(batch::once(profiler, problem, inputs).await?);
            }
        }
        self.phases.begin_again(profiler.now());
        let mut schedule = spec.schedule;
        let long = execution.0 > call::LONG.0 && schedule == Schedule::default();
        if long {
            schedule.warmup = 0;
            self.prepared.poison(POISON).await?;
        }
        let trace = follow(&mut *self.prepared, schedule, spec.with_stack).await?;
        self.phases.end("trace", profiler.now());
        self.watch.begin(Activity::Checks, profiler.now());
        if !long {
            self.execute_again().await?;
        }
        let (again, _) = self.check_again(profiler).await?;
        self.phases.end("recheck", profiler.now());
        self.watch.begin(Activity::Rest, profiler.now());
        Ok((trace, again))
    }

    /// Returns the hardware counters of the stages, or the reason of their absence; `None` where they were not asked for.
    async fn count(&mut self, spec: &Spec, profiler: &dyn Profiler) -> Result<Option<Counters>, BackendError> {
        if !spec.counters {
            return Ok(None);
        }
        self.watch.begin(Activity::Counters, profiler.now());
        match self.prepared.count().await {
            Ok(figures) => Ok(Some(Counters::Measured(Box::new(figures)))),
            Err(BackendError::Unsupported(reason)) => Ok(Some(Counters::Absent(reason))),
            Err(error) => Err(error),
        }
    }

    /// Returns the analysis of the case under the roofline.
    fn analysis(&self, timing: &Timing, ceilings: &Ceilings, profiler: &dyn Profiler) -> Option<Analysis> {
        let problem = &self.case.problem;
        let work = (self.case.least_cost(), problem.crossing());
        let caps = &profiler.device().caps;
        let figure = (timing.summary.median, self.prepared.launches().len());
        roofline::analyse(ceilings, caps, problem.dtype, work, (self.working_set(), timing.cache), figure)
    }

    /// Number of bytes that an execution touches.
    fn working_set(&self) -> Bytes {
        self.case.problem.bytes(|b| !matches!(b.role, Role::Scratch))
    }

    /// Returns the reason why the time is impossible; `None` for a possible one.
    fn impossible(&self, timing: &Timing, ceilings: &Ceilings, profiler: &dyn Profiler) -> Option<String> {
        let work = (self.case.least_cost(), self.case.problem.crossing());
        roofline::impossible(&self.analysis(timing, ceilings, profiler)?, work, timing.summary.median)
    }

    fn outcome(
        self,
        timing: Option<Timing>,
        call: Option<OneCall>,
        trace: Option<Trace>,
        ceilings: &Ceilings,
        profiler: Option<&dyn Profiler>,
    ) -> Outcome {
        let timed = || timing.as_ref().zip(profiler);
        let analysis = timed().and_then(|(t, p)| self.analysis(t, ceilings, p));
        if let Some(reason) = timed().and_then(|(t, p)| self.impossible(t, ceilings, p)) {
            return Outcome::Refused { kind: Refusal::Impossible, reason, check: self.check };
        }
        self.passed(timing, call, analysis, trace)
    }

    fn passed(
        &self,
        timing: Option<Timing>,
        call: Option<OneCall>,
        analysis: Option<Analysis>,
        trace: Option<Trace>,
    ) -> Outcome {
        let scores: Vec<_> = timing.iter().flat_map(|t| bandwidth::scores(&self.case.problem, &t.summary)).collect();
        let mut compiled = self.prepared.compiled().clone();
        compiled.options.extend(self.settings.iter().cloned());
        compiled.steps.push(Step { name: "first launch".to_owned(), time: self.first_launch });
        Outcome::Pass(Box::new(Measured {
            compiled,
            check: self.check.clone(),
            timing,
            call,
            energy: self.energy.clone(),
            counters: self.counters.clone(),
            analysis: analysis.filter(|_| scores.is_empty()),
            scores,
            memory: MemoryStats { planned: Some(self.planned_memory), ..self.prepared.memory() },
            launches: self.prepared.launches(),
            trace,
            phases: self.phases.list.clone(),
        }))
    }
}

/// Values of the tunables of the variant that runs, and of the variant that chose it.
fn settings(planned: &Planned, caps: &Caps) -> Vec<String> {
    let mut settings = planned.runs().settings(caps);
    if planned.actual.is_some() {
        settings.extend(planned.case.settings(caps));
    }
    settings.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}
