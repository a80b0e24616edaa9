//! A profiler with additional sensors.

use async_trait::async_trait;
use parallax_schema::case::Tuning;
use parallax_schema::device::{ClockInfo, Conditions, DeviceInfo, EnergyReading};
use parallax_schema::units::Nanos;

use super::{BackendError, Coming, Prepared, Profiler, Transfer};
use crate::{Case, Inputs};

/// Source of conditions that a profiler does not know itself.
#[async_trait(?Send)]
pub trait SensorSource {
    /// Returns the current conditions; `inner` gives those that the profiler knows.
    fn conditions(&mut self, inner: &mut dyn Profiler) -> Conditions;

    /// Returns the processor time of this process, as [`Profiler::cpu_time`]. The default is the profiler's own answer.
    fn cpu_time(&self, inner: &dyn Profiler) -> Option<Nanos> {
        inner.cpu_time()
    }

    /// Returns the time for which this process has stood still, as [`Profiler::stood_still`].
    fn stood_still(&self, inner: &dyn Profiler) -> Nanos {
        inner.stood_still()
    }

    /// Returns the reading of the device's energy counter, as [`Profiler::energy`].
    ///
    /// # Errors
    /// The reason of the absence of a counter.
    async fn energy(&mut self, inner: &mut dyn Profiler, after: Nanos) -> Result<EnergyReading, String> {
        inner.energy(after).await
    }
}

/// Profiler that takes conditions and process times from a [`SensorSource`], and all else from the inner profiler.
pub struct WithSensors<S> {
    inner: Box<dyn Profiler>,
    surroundings: S,
}

impl<S: SensorSource> WithSensors<S> {
    /// Combines a profiler with a sensor source.
    pub fn new(inner: Box<dyn Profiler>, surroundings: S) -> WithSensors<S> {
        WithSensors { inner, surroundings }
    }
}

#[async_trait(?Send)]
impl<S: SensorSource> Profiler for WithSensors<S> {
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
        self.surroundings.cpu_time(&*self.inner)
    }

    fn stood_still(&self) -> Nanos {
        self.surroundings.stood_still(&*self.inner)
    }

    fn conditions(&mut self) -> Conditions {
        self.surroundings.conditions(&mut *self.inner)
    }

    async fn energy(&mut self, after: Nanos) -> Result<EnergyReading, String> {
        self.surroundings.energy(&mut *self.inner, after).await
    }

    async fn yield_now(&self) {
        self.inner.yield_now().await;
    }

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        self.inner.empty().await
    }

    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError> {
        self.inner.transfer(way, bytes).await
    }

    async fn prefetch(&mut self, coming: &Coming<'_>) {
        self.inner.prefetch(coming).await;
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        self.inner.prepare(case, inputs, sets).await
    }
}
