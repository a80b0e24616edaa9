//! A wrapper of any profiler that adds up the host time of device work and of waiting for it.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_ir::device::{Awaited, BackendError, Batch, Coming, Prepared, Profiler, Sample, Transfer};
use parallax_ir::{Case, Inputs};
use parallax_schema::case::Tuning;
use parallax_schema::device::{
    ClockInfo, Compiled, Conditions, DeviceInfo, EnergyReading, Launch, Launching, MemoryStats, Trace,
};
use parallax_schema::record::{CounterFigures, Spent};
use parallax_schema::units::Nanos;

/// A profiler with time counters.
pub(crate) struct Metered<'p> {
    inner: &'p mut dyn Profiler,
    begun: Nanos,
    cpu_begun: Option<Nanos>,
    count: Rc<Count>,
}

#[derive(Default)]
struct Count {
    waiting: Cell<f64>,
    device: Cell<f64>,
}

impl Count {
    fn wait(&self, time: Nanos) {
        self.waiting.set(self.waiting.get() + time.0);
    }
}

impl<'p> Metered<'p> {
    /// Wraps a profiler and starts counting.
    pub fn new(inner: &'p mut dyn Profiler) -> Metered<'p> {
        Metered { begun: inner.now(), cpu_begun: inner.cpu_time(), inner, count: Rc::default() }
    }

    /// Returns all counted times.
    pub fn spent(&self) -> Spent {
        Spent {
            wall: self.inner.now() - self.begun,
            waiting: Nanos(self.count.waiting.get()),
            device: Nanos(self.count.device.get()),
            cpu: self.inner.cpu_time().zip(self.cpu_begun).map(|(now, then)| now - then),
        }
    }
}

#[async_trait(?Send)]
impl Profiler for Metered<'_> {
    fn device(&self) -> &DeviceInfo {
        self.inner.device()
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.inner.set_tuning(tuning);
    }

    fn clock(&self) -> &ClockInfo {
        self.inner.clock()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn cpu_time(&self) -> Option<Nanos> {
        self.inner.cpu_time()
    }

    fn stood_still(&self) -> Nanos {
        self.inner.stood_still()
    }

    fn conditions(&mut self) -> Conditions {
        self.inner.conditions()
    }

    async fn energy(&mut self, after: Nanos) -> Result<EnergyReading, String> {
        self.inner.energy(after).await
    }

    async fn yield_now(&self) {
        self.inner.yield_now().await;
    }

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        let time = self.inner.empty().await?;
        self.count.wait(time);
        Ok(time)
    }

    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError> {
        let time = self.inner.transfer(way, bytes).await?;
        self.count.wait(time.unwrap_or_default());
        Ok(time)
    }

    async fn prefetch(&mut self, coming: &Coming<'_>) {
        self.inner.prefetch(coming).await;
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        let inner = self.inner.prepare(case, inputs, sets).await?;
        Ok(Box::new(MeteredCase { inner, count: self.count.clone() }))
    }
}

struct MeteredCase {
    inner: Box<dyn Prepared>,
    count: Rc<Count>,
}

#[async_trait(?Send)]
impl Prepared for MeteredCase {
    fn compiled(&self) -> &Compiled {
        self.inner.compiled()
    }

    async fn compile_again(&mut self) -> Result<(), BackendError> {
        self.inner.compile_again().await
    }

    async fn refill(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        self.inner.refill(inputs).await
    }

    fn launches(&self) -> Vec<Launch> {
        self.inner.launches()
    }

    fn launching(&self) -> Option<Launching> {
        self.inner.launching()
    }

    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        self.inner.launch_as(launching).await
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        let began = self.inner.now();
        self.inner.poison(word).await?;
        self.count.wait(self.inner.now() - began);
        Ok(())
    }

    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError> {
        let sample = self.inner.measure(batch).await?;
        self.count.wait(sample.host);
        self.count.device.set(self.count.device.get() + sample.time.0);
        Ok(sample)
    }

    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError> {
        let time = self.inner.call(executions, until).await?;
        self.count.wait(time);
        Ok(time)
    }

    async fn count(&mut self) -> Result<CounterFigures, BackendError> {
        let began = self.inner.now();
        let figures = self.inner.count().await?;
        self.count.wait(self.inner.now() - began);
        Ok(figures)
    }

    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError> {
        let trace = self.inner.trace(stacks).await?;
        let times = || trace.spans.iter().flat_map(|s| [s.start.0, s.end.0]);
        let (first, last) = (times().fold(f64::INFINITY, f64::min), times().fold(f64::NEG_INFINITY, f64::max));
        self.count.wait(Nanos((last - first).max(0.0)));
        Ok(trace)
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let began = self.inner.now();
        let bytes = self.inner.read_back(buffer, bytes).await?;
        self.count.wait(self.inner.now() - began);
        Ok(bytes)
    }

    fn memory(&self) -> MemoryStats {
        self.inner.memory()
    }
}
