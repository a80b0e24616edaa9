//! The reference kernel: pure arithmetic, timed between rounds. Its time shows the speed of a device whose clock rate cannot be
//! read.

use parallax_ir::device::{BackendError, Batch, Prepared, Profiler};
use parallax_ir::{Case, Finds, Scale};
use parallax_schema::case::DType;
use parallax_schema::device::{DeviceKind, Dialect};
use parallax_schema::record::Drift;
use parallax_schema::record::stats::quantile;
use parallax_schema::spec::Cache;
use parallax_schema::units::{Nanos, percent};
use parallax_workloads::probes;

use crate::measure::sampler::{Sampler, TrustedClock, Unsized};
use crate::measure::stopping_criterion::Limits;

/// Minimum time of the ramp before the cases; idle clocks are low and steady.
const RAMP: Nanos = Nanos(500e6);
/// Maximum time of the ramp.
const LONGEST_RAMP: Nanos = Nanos(2000e6);
/// Minimum time of the ramp on an emulated device, which has no clocks of its own to raise.
const RAMP_IN_SOFTWARE: Nanos = Nanos(50e6);
/// Most executions of the load between two readings of the ramp.
const LOAD: f64 = 2048.0;
/// Largest relative difference of the last readings of a settled kernel.
const SETTLED: f64 = 0.01;
/// Number of readings that must agree.
const WINDOW: usize = 6;
/// Relative excess over the usual time beyond which the device is slow; three times the usual spread is the other bound.
const SLOW: f64 = 0.05;

/// Number of attempts at a reading; a reading during which the program was suspended is repeated.
const TRIES: usize = 3;

/// The prepared kernel and its readings.
pub struct ReferenceKernel {
    prepared: Box<dyn Prepared>,
    /// Executions of one reading.
    repeats: u32,
    readings: Vec<f64>,
}

/// Position of the output in the buffers.
pub fn output() -> usize {
    case(Dialect::Wgsl, DeviceKind::Unknown, 1).problem.outputs()[0]
}

/// Returns the kernel with `longer` times its length.
fn case(dialect: Dialect, kind: DeviceKind, longer: u64) -> Case {
    let scale = Scale { longer, ..Scale::usual(kind.is_emulated()) };
    let cases = probes(Finds::Speed, scale, DType::F32, dialect);
    cases.into_iter().next().expect("one workload is the probe of speed")
}

impl ReferenceKernel {
    /// Prepares the kernel.
    pub async fn new(profiler: &mut dyn Profiler) -> Result<ReferenceKernel, BackendError> {
        let device = profiler.device();
        let case = case(device.caps.dialect, device.kind, 1);
        let prepared = profiler.prepare(&case, &case.problem.inputs(1), 1).await?;
        Ok(ReferenceKernel { prepared, repeats: 1, readings: Vec::new() })
    }

    /// Returns the prepared kernel.
    pub fn prepared(&mut self) -> &mut dyn Prepared {
        &mut *self.prepared
    }

    /// Prepares the same kernel at a length of about `time` per execution, beside which the host's work of a launch is
    /// negligible.
    pub async fn long(&mut self, profiler: &mut dyn Profiler, time: Nanos) -> Result<Box<dyn Prepared>, BackendError> {
        const PROBES: u32 = 16;
        self.prepared.measure(Batch::new(1)).await?;
        let execution = self.prepared.measure(Batch::new(PROBES)).await?.host.0 / f64::from(PROBES);
        let longer = (time.0 / execution.max(1.0)).ceil().clamp(1.0, 4096.0) as u64;
        let device = profiler.device();
        let case = case(device.caps.dialect, device.kind, longer.next_power_of_two());
        profiler.prepare(&case, &case.problem.inputs(1), 1).await
    }

    /// Sizes the batch for the clock. Returns `false` if the clock cannot resolve the kernel, which is then of no use.
    pub async fn size(&mut self, clock: &TrustedClock) -> Result<bool, BackendError> {
        match Sampler::size(&mut *self.prepared, clock, Limits::default(), Cache::Hot, 1).await {
            Ok(sampler) => self.repeats = sampler.repeats(),
            Err(Unsized::Unresolvable(_)) => return Ok(false),
            Err(Unsized::Backend(error)) => return Err(error),
        }
        Ok(true)
    }

    /// Keeps the device busy until its clocks have risen and settled: at once, if the kernel is as fast as between the samples
    /// so far.
    ///
    /// Some browsers learn of a completion long after it. A load as long as that wait then follows each reading: readings alone
    /// leave the clocks low.
    pub async fn ramp(&mut self, profiler: &mut dyn Profiler, clock: &TrustedClock) -> Result<(), BackendError> {
        let least = if profiler.device().kind.is_emulated() { RAMP_IN_SOFTWARE } else { RAMP };
        let began = profiler.now();
        let usual = self.usual();
        let mut last: Vec<f64> = Vec::new();
        loop {
            let reading_began = profiler.now();
            let reading = self.read(clock).await?.0;
            let busy = reading * f64::from(self.repeats);
            let idle = (profiler.now() - reading_began).0 - busy;
            if idle > busy && reading > 0.0 {
                self.prepared.measure(Batch::new((idle / reading).clamp(1.0, LOAD) as u32)).await?;
            }
            last.push(reading);
            profiler.yield_now().await;
            let spent = profiler.now() - began;
            let window = &last[last.len().saturating_sub(WINDOW)..];
            let (low, high) = window.iter().fold((f64::INFINITY, 0.0f64), |(l, h), t| (l.min(*t), h.max(*t)));
            let settled = window.len() == WINDOW && high <= low * (1.0 + SETTLED);
            // Idle clocks are steady too, but slower than those of the samples before.
            let risen = spent.0 >= least.0 || usual.is_some_and(|usual| high <= usual * (1.0 + SETTLED));
            if (risen && settled) || spent.0 >= LONGEST_RAMP.0.min(4.0 * least.0) {
                return Ok(());
            }
        }
    }

    /// Returns the median of the readings so far; `None` for too few.
    fn usual(&self) -> Option<f64> {
        let mut sorted = self.readings.clone();
        sorted.sort_by(f64::total_cmp);
        (sorted.len() >= WINDOW).then(|| quantile(&sorted, 0.5))
    }

    /// Returns the time of one execution, from one batch.
    pub async fn read(&mut self, clock: &TrustedClock) -> Result<Nanos, BackendError> {
        let sample = self.prepared.measure(Batch { lead: 0, repeats: self.repeats }).await?;
        Ok(Nanos(clock.read(sample).0 / f64::from(self.repeats)))
    }

    /// Takes one reading; returns it, and the reason if the device is slow now.
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

/// Compares a reading with all readings before it, and returns the reason if the device is slow.
fn slow(before: &[f64], now: f64) -> Option<String> {
    if before.len() < WINDOW {
        return None;
    }
    let mut sorted = before.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [fast, usual, middle] = [0.1, 0.25, 0.5].map(|p| quantile(&sorted, p));
    // The spread is that of the faster half only: occasional slow readings must not widen it.
    let spread = (middle - fast) / usual;
    let longer = now / usual - 1.0;
    (longer > SLOW.max(3.0 * spread))
        .then(|| format!("the reference kernel took {} longer than usual", percent(longer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_testing::mock::{Mock, World};
    use pollster::block_on;

    /// Time at which the samples end.
    const LATER: f64 = 0.2e9;

    /// Durations of a ramp before the first samples, and of one after them, in seconds.
    fn ramps(pace: fn(f64) -> f64) -> [f64; 2] {
        let mut mock = Mock::in_world(World { pace, ..World::default() });
        block_on(async {
            let mut kernel = ReferenceKernel::new(&mut mock).await.expect("a mock");
            let clock =
                TrustedClock { info: mock.clock().clone(), fixed: Nanos(0.0), error: Nanos(1.0), period: Nanos(0.0) };
            kernel.size(&clock).await.expect("no fault");
            let begun = mock.now();
            kernel.ramp(&mut mock, &clock).await.expect("no fault");
            let first = (mock.now() - begun).secs();
            while mock.now().0 < LATER {
                kernel.look(&mut mock, &clock).await.expect("no fault");
            }
            let begun = mock.now();
            kernel.ramp(&mut mock, &clock).await.expect("no fault");
            [first, (mock.now() - begun).secs()]
        })
    }

    #[test]
    fn a_ramp_ends_early_at_the_speed_of_earlier_samples_only() {
        let least = RAMP_IN_SOFTWARE.secs();
        let [first, second] = ramps(|_| 1.0);
        assert!((1.0..1.1).contains(&(first / least)) && second < 0.4 * least, "{first} s, {second} s");
        // The clocks fall by a tenth after the samples, and stay low.
        let [first, second] = ramps(|now| if now < LATER { 1.0 } else { 1.1 });
        assert!((1.0..1.1).contains(&(first / least)) && second >= least, "{first} s, {second} s");
    }

    /// Share of a ramp's time during which the device works.
    fn busy(period: f64) -> f64 {
        const EXECUTION: f64 = 1e5;
        let mut mock = Mock::in_world(World { time: |_| EXECUTION, period, ..World::default() });
        block_on(async {
            let mut kernel = ReferenceKernel::new(&mut mock).await.expect("a mock");
            let clock =
                TrustedClock { info: mock.clock().clone(), fixed: Nanos(0.0), error: Nanos(1.0), period: Nanos(0.0) };
            let (begun, before) = (mock.now(), mock.executions());
            kernel.ramp(&mut mock, &clock).await.expect("no fault");
            (mock.executions() - before) as f64 * EXECUTION / (mock.now() - begun).0
        })
    }

    #[test]
    fn a_ramp_loads_a_device_whose_host_looks_rarely() {
        for period in [0.0, 1e7, 1e8] {
            assert!((0.4..1.1).contains(&busy(period)), "{period}: {}", busy(period));
        }
    }

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
