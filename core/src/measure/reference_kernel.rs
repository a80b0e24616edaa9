//! The reference kernel: pure arithmetic, run between rounds. Its time tells how fast a device is, where no clock rate can
//! be read.

use crate::device::{BackendError, Batch, DeviceKind, Prepared, Profiler};
use crate::measure::sampler::{Sampler, TrustedClock, Unsized};
use crate::measure::stopping_criterion::Limits;
use crate::plan::Cache;
use crate::record::Drift;
use crate::record::stats::quantile;
use crate::suite::{Case, DType, Dialect, Finds, Scale, probes};
use crate::units::{Nanos, percent};

/// Before the cases, the device is kept busy for at least so long, because idle clocks are low and steady.
const RAMP: Nanos = Nanos(500e6);
/// And for at most so long.
const LONGEST_RAMP: Nanos = Nanos(2000e6);
/// An emulated device has no clocks of its own to raise.
const RAMP_IN_SOFTWARE: Nanos = Nanos(50e6);
/// The reference kernel is settled when its last readings differ by no more than this.
const SETTLED: f64 = 0.01;
/// Readings that are looked at for that.
const WINDOW: usize = 6;
/// The device is slow when the reference kernel takes this much longer than it usually does, or thrice its usual spread.
const SLOW: f64 = 0.05;

/// A reading during which the program stood still is taken anew, at most this many times.
const TRIES: usize = 3;

/// The prepared kernel and what it has shown so far.
pub struct ReferenceKernel {
    prepared: Box<dyn Prepared>,
    /// Executions of one reading.
    repeats: u32,
    readings: Vec<f64>,
}

/// Position of its output in its buffers.
pub fn output() -> usize {
    case(Dialect::Wgsl, DeviceKind::Unknown, 1).problem.outputs()[0]
}

/// The kernel, or one so many times as long.
fn case(dialect: Dialect, kind: DeviceKind, longer: u64) -> Case {
    let scale = Scale { longer, ..Scale::usual(kind.is_emulated()) };
    let cases = probes(Finds::Speed, scale, DType::F32, dialect);
    cases.into_iter().next().expect("one workload says that it is the probe of speed")
}

impl ReferenceKernel {
    /// Prepare it.
    pub async fn new(profiler: &mut dyn Profiler) -> Result<ReferenceKernel, BackendError> {
        let device = profiler.device();
        let case = case(device.caps.dialect, device.kind, 1);
        let prepared = profiler.prepare(&case, &case.problem.inputs(1), 1).await?;
        Ok(ReferenceKernel { prepared, repeats: 1, readings: Vec::new() })
    }

    /// The kernel.
    pub fn prepared(&mut self) -> &mut dyn Prepared {
        &mut *self.prepared
    }

    /// The same kernel made so long that one execution takes about `time`, beside which the host's work for launching it
    /// is nothing.
    pub async fn long(&mut self, profiler: &mut dyn Profiler, time: Nanos) -> Result<Box<dyn Prepared>, BackendError> {
        const PROBES: u32 = 16;
        self.prepared.measure(Batch::of(1)).await?;
        let execution = self.prepared.measure(Batch::of(PROBES)).await?.host.0 / f64::from(PROBES);
        let longer = (time.0 / execution.max(1.0)).ceil().clamp(1.0, 4096.0) as u64;
        let device = profiler.device();
        let case = case(device.caps.dialect, device.kind, longer.next_power_of_two());
        profiler.prepare(&case, &case.problem.inputs(1), 1).await
    }

    /// Size its batch for the clock. A clock that cannot resolve even this has no use for it.
    pub async fn size(&mut self, clock: &TrustedClock) -> Result<bool, BackendError> {
        match Sampler::size(&mut *self.prepared, clock, Limits::default(), Cache::Hot, 1).await {
            Ok(sampler) => self.repeats = sampler.repeats(),
            Err(Unsized::Unresolvable(_)) => return Ok(false),
            Err(Unsized::Backend(error)) => return Err(error),
        }
        Ok(true)
    }

    /// Keep the device busy until its clocks have risen and settled.
    pub async fn ramp(&mut self, profiler: &mut dyn Profiler, clock: &TrustedClock) -> Result<(), BackendError> {
        let least = if profiler.device().kind.is_emulated() { RAMP_IN_SOFTWARE } else { RAMP };
        let began = profiler.now();
        let mut last: Vec<f64> = Vec::new();
        loop {
            last.push(self.read(clock).await?.0);
            profiler.yield_now().await;
            let spent = profiler.now() - began;
            let window = &last[last.len().saturating_sub(WINDOW)..];
            let (low, high) = window.iter().fold((f64::INFINITY, 0.0f64), |(l, h), t| (l.min(*t), h.max(*t)));
            let settled = window.len() == WINDOW && high <= low * (1.0 + SETTLED);
            if (spent.0 >= least.0 && settled) || spent.0 >= LONGEST_RAMP.0.min(4.0 * least.0) {
                return Ok(());
            }
        }
    }

    /// Time of one execution, by one batch.
    pub async fn read(&mut self, clock: &TrustedClock) -> Result<Nanos, BackendError> {
        let sample = self.prepared.measure(Batch { lead: 0, repeats: self.repeats }).await?;
        Ok(Nanos(clock.read(sample).0 / f64::from(self.repeats)))
    }

    /// One reading; and why the device is slow just now, if it is.
    pub async fn look(
        &mut self,
        profiler: &mut dyn Profiler,
        clock: &TrustedClock,
    ) -> Result<(Drift, Option<String>), BackendError> {
        let mut reference_kernel = Nanos(0.0);
        for _ in 0..TRIES {
            let stood = profiler.stood_still();
            reference_kernel = self.read(clock).await?;
            if profiler.stood_still() == stood {
                break;
            }
        }
        let slow = slow(&self.readings, reference_kernel.0);
        self.readings.push(reference_kernel.0);
        Ok((Drift { at: profiler.now(), reference_kernel, conditions: profiler.conditions() }, slow))
    }
}

/// Held against all readings before it.
fn slow(before: &[f64], now: f64) -> Option<String> {
    if before.len() < WINDOW {
        return None;
    }
    let mut sorted = before.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [fast, usual, middle] = [0.1, 0.25, 0.5].map(|p| quantile(&sorted, p));
    // Of the faster half only: what is slow now and then must not pass for the usual spread.
    let spread = (middle - fast) / usual;
    let longer = now / usual - 1.0;
    (longer > SLOW.max(3.0 * spread))
        .then(|| format!("the reference kernel took {} longer than usual", percent(longer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_is_what_stands_out_of_the_usual_spread() {
        let quiet = [100.0, 101.0, 100.0, 99.0, 100.0, 100.0, 101.0];
        assert_eq!(slow(&quiet, 104.0), None);
        assert!(slow(&quiet, 112.0).expect("slow").contains("12"));
        let noisy = [100.0, 120.0, 90.0, 110.0, 95.0, 105.0, 100.0];
        assert_eq!(slow(&noisy, 112.0), None);
        assert_eq!(slow(&quiet[..3], 200.0), None, "too early to tell");
    }
}
