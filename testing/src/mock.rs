//! A profiler with scripted times and results of the reference, for tests without a device.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_ir::device::{
    Awaited, BackendError, Batch, Coming, NO_COUNTER, NO_COUNTERS, POISON, Prepared, Profiler, Sample, Transfer,
};
use parallax_ir::{Case, Inputs, Problem, Role, bytes_of, load};
use parallax_schema::case::Tuning;
use parallax_schema::device::{
    Caps, ClockInfo, Compiled, Conditions, DeviceInfo, Dialect, EnergyReading, Launch, Launching, MemoryStats, Span,
    SpanKind, Trace, TraceSource, Track,
};
use parallax_schema::record::{CounterFigures, StageCounters};
use parallax_schema::testing::{caps, clock, device};
use parallax_schema::units::{Bytes, Nanos};

use crate::counter::{Busy, Counter};

/// Time of one execution as a function of its number.
pub type Script = fn(u64) -> f64;

/// Fault of a mock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// One element of the output is wrong.
    WrongElement,
    /// One element is never written.
    UnwrittenElement,
    /// One element of the results of the set-up is wrong.
    WrongSetup,
    /// Buffers that an execution changes are not restored.
    NotRestored,
    /// The lowest bit of an output differs after the first submission.
    Unsteady,
    /// The lowest bit of an output differs after this submission alone.
    DiffersAfter(u64),
    /// The device is lost at this execution.
    LostAt(u64),
}

/// Scripted properties of a device and its clocks.
#[derive(Clone, Copy)]
pub struct World {
    /// Nanoseconds of one execution by its number, on top of the time of its work: the device does a TFLOP/s and moves 100 GB/s.
    pub time: Script,
    /// Additional nanoseconds of an execution that is not launched in the usual way.
    pub relaunching: f64,
    /// Factor of times, as a function of the host's time in nanoseconds.
    pub pace: fn(f64) -> f64,
    /// Factor of times, as a function of the case.
    pub of_case: fn(&Case) -> f64,
    /// The sensors' reason of throttling at a time.
    pub throttle: fn(f64) -> Option<&'static str>,
    /// Step of the device's clock; it shows multiples of this.
    pub step: f64,
    /// Rate of the device's clock, as a multiple of the true rate.
    pub clock_rate: f64,
    /// Whether the page is out of sight at a time.
    pub hidden: fn(f64) -> bool,
    /// Nanoseconds for which the process was suspended until a time.
    pub still: fn(f64) -> f64,
    /// Time at which the host knows of the end of a call, as a function of its end; both since its begin.
    pub known: fn(f64) -> f64,
    /// Period at which the host looks for completed work; zero for a host that knows at once.
    pub period: f64,
    /// Whether the host looks at the end of each measured batch all the same.
    pub prompted: bool,
    /// Longest delay of such a look, in nanoseconds; each batch has its own.
    pub late: f64,
    /// Time of a compilation.
    pub compiling: f64,
    /// Energy counter, if there is one.
    pub energy: Option<Counter>,
    /// Whether hardware counters can be read.
    pub counters: bool,
    /// Dialect of the kernels.
    pub dialect: Dialect,
    /// Device memory in bytes.
    pub memory: u64,
    /// The fault.
    pub fault: Fault,
}

impl World {
    /// Returns the time of the host's first look at or after a time.
    fn looked(&self, at: f64) -> f64 {
        if self.period > 0.0 { (at / self.period).ceil() * self.period } else { at }
    }
}

impl Default for World {
    fn default() -> Self {
        World {
            time: |_| 1e5,
            relaunching: 0.0,
            pace: |_| 1.0,
            of_case: |_| 1.0,
            throttle: |_| None,
            step: 1.0,
            clock_rate: 1.0,
            hidden: |_| false,
            still: |_| 0.0,
            known: |done| done,
            period: 0.0,
            prompted: false,
            late: 0.0,
            compiling: 1000.0,
            energy: None,
            counters: false,
            dialect: Dialect::Wgsl,
            memory: u64::MAX,
            fault: Fault::None,
        }
    }
}

/// Host time of a submission beside its kernels.
pub const FIXED: f64 = 1000.0;
/// Host time of a read-back of a few bytes.
pub const READ: f64 = 500.0;

/// The scripted profiler.
pub struct Mock {
    device: DeviceInfo,
    clock: ClockInfo,
    world: World,
    now: Rc<Cell<f64>>,
    executions: Rc<Cell<u64>>,
    busy: Rc<Busy>,
    held: Rc<Cell<u64>>,
    announced: Rc<RefCell<Vec<Announced>>>,
}

/// Cases of an announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// Cases that are prepared before any measurement.
    pub next: Vec<String>,
    /// Cases that are prepared later.
    pub later: Vec<String>,
}

impl Mock {
    /// Returns the announcements so far.
    pub fn announced(&self) -> Vec<Announced> {
        self.announced.borrow().clone()
    }

    /// Returns the number of executions of all cases so far.
    pub fn executions(&self) -> u64 {
        self.executions.get()
    }

    /// Returns a mock with executions of `time(i)` nanoseconds plus the time of their work.
    pub fn new(time: Script, fault: Fault) -> Mock {
        Mock::in_world(World { time, fault, ..World::default() })
    }

    /// Returns a mock with scripted properties.
    pub fn in_world(world: World) -> Mock {
        Mock {
            device: device(Caps { dialect: world.dialect, ..caps() }),
            clock: ClockInfo { step: Nanos(world.step), ..clock() },
            world,
            now: Rc::default(),
            executions: Rc::default(),
            busy: Rc::default(),
            held: Rc::default(),
            announced: Rc::default(),
        }
    }
}

#[async_trait(?Send)]
impl Profiler for Mock {
    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.device.caps.tuning = tuning;
    }

    fn clock(&self) -> &ClockInfo {
        &self.clock
    }

    fn now(&self) -> Nanos {
        Nanos(self.now.get())
    }

    fn stood_still(&self) -> Nanos {
        Nanos((self.world.still)(self.now.get()))
    }

    fn conditions(&mut self) -> Conditions {
        let now = self.now.get();
        Conditions {
            throttle: (self.world.throttle)(now).map(str::to_owned).into_iter().collect(),
            hidden: (self.world.hidden)(now),
            ..Conditions::default()
        }
    }

    async fn energy(&mut self, after: Nanos) -> Result<EnergyReading, String> {
        let counter = self.world.energy.ok_or(NO_COUNTER)?;
        if after.0 > 0.0 {
            self.busy.rested();
            self.now.set(self.now.get() + after.0);
        }
        Ok(self.busy.reading(counter, self.now.get()))
    }

    async fn yield_now(&self) {
        // Time passes for a host that waits long for completions, because it also waits between two.
        let wait = self.world.period.max((self.world.known)(1000.0) - 1000.0);
        self.now.set(self.now.get() + wait / 100.0);
    }

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        let begun = self.now.get();
        self.now.set(self.world.looked(begun + (self.world.known)(1000.0)));
        Ok(Nanos(self.now.get() - begun))
    }

    async fn transfer(&mut self, _way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError> {
        let time = 1000.0 + bytes as f64 / 10.0;
        self.now.set(self.now.get() + time);
        Ok(Some(Nanos(time)))
    }

    async fn prefetch(&mut self, coming: &Coming<'_>) {
        let names = |cases: &[Case]| cases.iter().map(ToString::to_string).collect();
        self.announced.borrow_mut().push(Announced { next: names(coming.next), later: names(coming.later) });
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        let problem = case.problem.clone();
        let bytes = problem.bytes(|_| true).0 * u64::from(sets);
        if self.held.get() + bytes > self.world.memory {
            return Err(BackendError::OutOfMemory(format!("{} more", Bytes(bytes))));
        }
        self.held.set(self.held.get() + bytes);
        let cost = problem.cost();
        let work = cost.flops.0 as f64 * 1e-3 + cost.moved().0 as f64 * 1e-2;
        Ok(Box::new(MockCase {
            compiled: Compiled { time: Nanos(self.world.compiling), text_hash: "0".to_owned(), ..Compiled::default() },
            world: self.world,
            work,
            factor: (self.world.of_case)(case),
            now: self.now.clone(),
            executions: self.executions.clone(),
            busy: self.busy.clone(),
            bytes,
            held: self.held.clone(),
            inputs: inputs.clone(),
            problem,
            launching: Launching::choices(self.device.caps.dialect).first().copied(),
            results: OnceCell::new(),
            poison: Some(POISON),
            word: POISON,
            since_restored: 0,
            submissions: 0,
        }))
    }
}

/// Bytes of every buffer after the case ran once.
fn compute(problem: &Problem, inputs: &Inputs, fault: Fault) -> Vec<Vec<u8>> {
    let mut output = 0;
    let rows = (problem.form().reference.rows)(problem, inputs);
    let outcome = problem.buffers().into_iter().map(|spec| {
        let Some(row_len) = spec.role.row_len() else { return Vec::new() };
        let mut row = vec![0.0; row_len as usize];
        let mut values = Vec::new();
        for r in 0..spec.len / row_len {
            rows(output, r, &mut row);
            values.extend(&row);
        }
        output += 1;
        match (fault, spec.role) {
            (Fault::WrongElement, Role::Output { .. }) | (Fault::WrongSetup, Role::Setup { .. }) => values[0] += 1.0,
            _ => {}
        }
        bytes_of(spec.elem.storage(problem.dtype), values.into_iter())
    });
    outcome.collect()
}

struct MockCase {
    compiled: Compiled,
    world: World,
    /// Nanoseconds of the case's work.
    work: f64,
    factor: f64,
    now: Rc<Cell<f64>>,
    executions: Rc<Cell<u64>>,
    busy: Rc<Busy>,
    bytes: u64,
    held: Rc<Cell<u64>>,
    problem: Problem,
    inputs: Inputs,
    launching: Option<Launching>,
    /// Computed at the first read-back.
    results: OnceCell<Vec<Vec<u8>>>,
    /// The word that outputs hold, until the case runs.
    poison: Option<u32>,
    /// The last poison, which an unwritten element still holds.
    word: u32,
    /// Executions since the last restore of changed buffers.
    since_restored: u32,
    /// Number of measured batches.
    submissions: u64,
}

impl Drop for MockCase {
    fn drop(&mut self) {
        self.held.set(self.held.get() - self.bytes);
    }
}

impl MockCase {
    fn restore(&mut self) {
        if self.world.fault != Fault::NotRestored {
            self.since_restored = 0;
        }
    }

    /// Returns the time of one execution that begins at `at`, or a lost device.
    fn execute(&self, at: f64) -> Result<f64, BackendError> {
        let i = self.executions.get();
        if self.world.fault == Fault::LostAt(i) {
            return Err(BackendError::Lost("scripted".to_owned()));
        }
        self.executions.set(i + 1);
        let launching = match self.launching {
            Some(launching) if !launching.is_usual() => self.world.relaunching,
            _ => 0.0,
        };
        Ok(((self.world.time)(i) + self.work + launching) * self.factor * (self.world.pace)(at))
    }

    /// Returns the reading of the device's clock at a true time.
    fn stamp(&self, at: f64) -> f64 {
        (at * self.world.clock_rate / self.world.step).floor() * self.world.step
    }
}

#[async_trait(?Send)]
impl Prepared for MockCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    async fn compile_again(&mut self) -> Result<(), BackendError> {
        self.compiled.repeat = Some(Nanos(100.0));
        Ok(())
    }

    fn launching(&self) -> Option<Launching> {
        self.launching
    }

    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        self.launching = Some(launching);
        Ok(())
    }

    fn now(&self) -> Nanos {
        Nanos(self.now.get())
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        (self.poison, self.word) = (Some(word), word);
        self.restore();
        Ok(())
    }

    fn launches(&self) -> Vec<Launch> {
        vec![Launch {
            label: "kernel".to_owned(),
            entry: "kernel".to_owned(),
            grid: [1; 3],
            block: [64, 1, 1],
            ..Launch::default()
        }]
    }

    async fn measure(&mut self, Batch { lead, repeats }: Batch) -> Result<Sample, BackendError> {
        self.poison = None;
        self.submissions += 1;
        self.restore();
        self.since_restored += lead + repeats;
        let begun = self.now.get();
        let mut at = begun + FIXED / 2.0;
        let mut stamp = self.stamp(at);
        for k in 0..lead + repeats {
            if k == lead {
                stamp = self.stamp(at);
            }
            at += self.execute(at)?;
        }
        let time = self.stamp(at) - stamp;
        let end = at + FIXED / 2.0;
        // Shares of the delay that are spread evenly and repeat never.
        let late = self.world.late * (self.submissions as f64 * 0.618).fract();
        self.now.set(if self.world.prompted { end + late } else { self.world.looked(end) });
        self.busy.submitted(at - begun - FIXED / 2.0, self.now.get() - begun);
        Ok(Sample { time: Nanos(time), host: Nanos(self.now.get() - begun) })
    }

    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError> {
        let begun = self.now.get();
        let host = self.measure(Batch::new(executions)).await?.host.0;
        let host = self.world.looked(begun + host) - begun;
        let known = (self.world.known)(host) + if until == Awaited::Result { READ } else { 0.0 };
        self.now.set(begun + known);
        Ok(Nanos(known))
    }

    /// Executes once for each of two passes. The one counter is the number of passes.
    async fn count(&mut self) -> Result<CounterFigures, BackendError> {
        if !self.world.counters {
            return Err(BackendError::Unsupported(NO_COUNTERS.to_owned()));
        }
        let begun = self.now.get();
        for _ in 0..2 {
            self.measure(Batch::new(1)).await?;
        }
        let values = [("instructions".to_owned(), 2.0)].into();
        let stages = vec![StageCounters { stage: "kernel".to_owned(), values }];
        Ok(CounterFigures { passes: 2, took: Nanos(self.now.get() - begun), stages })
    }

    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError> {
        self.poison = None;
        self.submissions += 1;
        self.restore();
        self.since_restored += 1;
        let start = self.now.get();
        let time = self.execute(start)?;
        self.now.set(start + time + 1000.0);
        let span = |name: &str, kind, from: f64, to: f64| Span {
            name: name.to_owned(),
            kind,
            track: if kind == SpanKind::Kernel { Track::Gpu } else { Track::Host },
            start: Nanos(start + from),
            end: Nanos(start + to),
            correlation: Some(1),
            stack: if stacks { vec!["somewhere".to_owned()] } else { Vec::new() },
            ..Span::default()
        };
        Ok(Trace {
            spans: vec![
                span("submit", SpanKind::Runtime, 0.0, 500.0),
                span("wait", SpanKind::Wait, 500.0, time + 1000.0),
                span("kernel", SpanKind::Kernel, 600.0, 600.0 + time),
            ],
            alignment_error: Some(Nanos(400.0)),
            source: Some(TraceSource::Timestamps),
        })
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let results = self.results.get_or_init(|| compute(&self.problem, &self.inputs, self.world.fault));
        let spec = &self.problem.buffers()[buffer];
        let size = spec.elem.storage(self.problem.dtype).bytes() as usize;
        let mut all = results[buffer].clone();
        let word = |bytes: &mut [u8], word: u32| bytes.iter_mut().for_each(|b| *b = word.to_le_bytes()[0]);
        match (spec.role, self.poison) {
            (Role::Output { .. }, Some(poison)) => word(&mut all, poison),
            (Role::Output { .. }, None) if self.world.fault == Fault::UnwrittenElement => {
                word(&mut all[..size], self.word);
            }
            (Role::Output { .. }, None) if self.world.fault == Fault::Unsteady && self.submissions > 1 => all[0] ^= 1,
            (Role::Output { .. }, None) if self.world.fault == Fault::DiffersAfter(self.submissions) => {
                all[0] ^= 1;
            }
            (Role::InOut { .. }, Some(_)) => self.inputs.write(buffer, 0, &mut all),
            (Role::InOut { .. }, None) => {
                // An execution that builds on the previous one shows in the result.
                let first = load(spec.elem.storage(self.problem.dtype), &all[..size]);
                let built = first + f64::from(self.since_restored.saturating_sub(1));
                all[..size].copy_from_slice(&bytes_of(spec.elem.storage(self.problem.dtype), [built].into_iter()));
            }
            _ => {}
        }
        Ok(all[bytes.start as usize..bytes.end as usize].to_vec())
    }

    fn memory(&self) -> MemoryStats {
        MemoryStats { current: Bytes(self.bytes), peak: Bytes(self.bytes), ..MemoryStats::default() }
    }
}
