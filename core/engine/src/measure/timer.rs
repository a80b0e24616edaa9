//! Self-test of the clocks before a run, and their errors.

use parallax_ir::device::{BackendError, Batch, Prepared, Profiler};
use parallax_schema::device::{Clock, ClockInfo};
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{CrossCheck, TimerTest};
use parallax_schema::units::Nanos;

use crate::measure::reference_kernel;
use crate::measure::reference_kernel::ReferenceKernel;
use crate::measure::sampler::TrustedClock;

/// Number of readings of each latency.
const READINGS: usize = 20;

/// Time that the readings of one latency may take together.
const PATIENCE: Nanos = Nanos(300e6);

/// Approximate time of one execution of the cross-check's kernel: the host's work of a launch is negligible beside it.
const LONG_KERNEL: Nanos = Nanos(1e6);

/// Approximate time of all its executions.
const LONG: Nanos = Nanos(20e6);

/// The same in periods of the host's looks, if that is longer.
const LONG_PERIODS: f64 = 5.0;

/// The same in intervals of prompts. The end of a batch is late by up to one: the share must stay below the error of a rate.
const LONG_PROMPTS: f64 = 2.0 / RATE_ERROR;

/// Pairs of a long and a short batch in the cross-check.
const PAIRS: usize = 5;

/// Largest relative difference of two clocks, besides steps and jitter; beyond it, one of them is wrong.
const RATE_ERROR: f64 = 0.05;

/// Tests the clocks of a profiler with the reference kernel.
///
/// # Errors
/// Errors of the device.
pub async fn test(
    profiler: &mut dyn Profiler,
    reference: Option<&mut ReferenceKernel>,
) -> Result<(TimerTest, TrustedClock), BackendError> {
    let mut found = TimerTest::default();
    let mut readings = Vec::new();
    let began = profiler.now();
    // The first submission has one-time costs.
    profiler.empty().await?;
    while readings.len() < READINGS && (profiler.now() - began).0 < PATIENCE.0 {
        readings.push(profiler.empty().await?.0);
    }
    found.completion = Summary::of(&readings);
    found.completion_period = period(profiler, found.completion).await?;
    let period = found.completion_period.unwrap_or_default();
    let mut batch = Ending { known: found.completion, period, prompts: Nanos(0.0) };
    if let Some(reference) = reference {
        reference.prepared().measure(Batch::new(1)).await?;
        batch = batch.of(reference).await?;
        let mut readings = Vec::new();
        let began = profiler.now();
        while readings.len() < READINGS && (profiler.now() - began).0 < PATIENCE.0 {
            let before = profiler.now();
            reference.prepared().read_back(reference_kernel::output(), 0..4).await?;
            readings.push((profiler.now() - before).0);
        }
        found.readback = Summary::of(&readings);
        if profiler.clock().clock != Clock::Host {
            let mut long = reference.long(profiler, LONG_KERNEL).await?;
            let check = cross_check(profiler, &mut *long, batch).await?;
            found.demoted = verdict(profiler.clock(), check);
            found.cross_check = Some(check);
        }
    }
    let clock = trusted(profiler.clock(), &found, batch);
    Ok((found, clock))
}

/// End of a batch, as the host knows of it.
#[derive(Clone, Copy)]
struct Ending {
    /// Time of a submission with next to no work.
    known: Option<Summary>,
    /// Period of the host's looks; zero if it knows at once.
    period: Nanos,
    /// Interval of the prompts that replace a period; zero without them.
    prompts: Nanos,
}

impl Ending {
    /// Returns the ending of measured batches. A backend may prompt the host for their end, and not for that of an ordinary call.
    async fn of(self, reference: &mut ReferenceKernel) -> Result<Ending, BackendError> {
        if self.period == Nanos(0.0) {
            return Ok(self);
        }
        let mut readings = Vec::new();
        for _ in 0..PROMPT_READINGS {
            readings.push(reference.prepared().measure(Batch::new(1)).await?.host.0);
        }
        let known = Summary::of(&readings);
        let prompt = known.is_some_and(|known| known.median.0 < self.period.0 / 2.0);
        let prompts = known.map_or(Nanos(0.0), |known| known.max);
        Ok(if prompt { Ending { known, period: Nanos(0.0), prompts } } else { self })
    }

    fn jitter(&self) -> f64 {
        self.known.map_or(0.0, |c| c.q3.0 - c.q1.0)
    }
}

/// Number of short batches that show whether their end is prompted.
const PROMPT_READINGS: usize = 9;

/// Time until the host knows of an empty submission beyond which it may come from a period.
const NOTABLE: Nanos = Nanos(10e6);

/// Pauses before an empty submission, as shares of the presumed period.
const PAUSES: [f64; 3] = [0.5, 0.6, 0.7];

/// Returns the period at which the host looks for completed work; `None` for a time that does not depend on a pause before it.
async fn period(profiler: &mut dyn Profiler, completion: Option<Summary>) -> Result<Option<Nanos>, BackendError> {
    let Some(period) = completion.map(|c| c.median).filter(|median| median.0 > NOTABLE.0) else { return Ok(None) };
    for share in PAUSES {
        // The pause begins at a look.
        profiler.empty().await?;
        let began = profiler.now();
        while (profiler.now() - began).0 < share * period.0 {
            profiler.yield_now().await;
        }
        // Nearer to the rest of the period than to the whole.
        if profiler.empty().await?.0 > (1.0 - share / 2.0) * period.0 {
            return Ok(None);
        }
    }
    Ok(Some(period))
}

/// Returns the trusted clock and its error.
fn trusted(clock: &ClockInfo, found: &TimerTest, batch: Ending) -> TrustedClock {
    let (fixed, period) = (batch.known.map_or(0.0, |known| known.median.0), batch.period);
    // The host sees the end of work at its next look.
    let host_error = Nanos(clock.host_step.0 + batch.jitter() + period.0);
    match (clock.clock, &found.demoted) {
        (Clock::Host, _) => TrustedClock { info: clock.clone(), fixed: Nanos(fixed), error: host_error, period },
        (_, Some(why)) => TrustedClock {
            info: ClockInfo { clock: Clock::Host, step: clock.host_step, note: Some(why.clone()), ..clock.clone() },
            fixed: Nanos(fixed),
            error: host_error,
            period,
        },
        (_, None) => TrustedClock { info: clock.clone(), fixed: Nanos(0.0), error: clock.step, period },
    }
}

/// Times a kernel on both clocks. Differences of two batches are free of any fixed cost.
async fn cross_check(
    profiler: &dyn Profiler,
    reference: &mut dyn Prepared,
    batch: Ending,
) -> Result<CrossCheck, BackendError> {
    let goal = LONG.0.max(LONG_PERIODS * batch.period.0).max(LONG_PROMPTS * batch.prompts.0);
    let mut repeats = 4u32;
    loop {
        let sample = reference.measure(Batch::new(repeats)).await?;
        let factor = (goal / sample.host.0.max(1.0)).clamp(0.0, 4.0);
        if factor <= 1.0 || repeats > 1 << 20 {
            break;
        }
        repeats = (f64::from(repeats) * factor.max(1.5)).ceil() as u32;
    }
    // Noise makes two correct clocks differ now and then; a wrong clock differs always. The pair that agrees best counts.
    let (mut device, mut host) = (Nanos(0.0), Nanos(0.0));
    let apart = |device: Nanos, host: Nanos| (device.0 / host.0.max(1.0) - 1.0).abs();
    for i in 0..PAIRS {
        let short = reference.measure(Batch::new(repeats / 4)).await?;
        let long = reference.measure(Batch::new(repeats)).await?;
        let (now, then) = (long.time - short.time, long.host - short.host);
        if i == 0 || apart(now, then) < apart(device, host) {
            (device, host) = (now, then);
        }
        if apart(device, host) < RATE_ERROR {
            break;
        }
    }
    let clock = profiler.clock();
    let steps = 2.0 * (clock.step.0 + clock.host_step.0 + batch.jitter()) + batch.period.0;
    let allowed = Nanos(RATE_ERROR * host.0.abs() + steps);
    Ok(CrossCheck { device, host, allowed })
}

/// Returns the reason to distrust the device's clock; `None` for a trusted one.
fn verdict(clock: &ClockInfo, check: CrossCheck) -> Option<String> {
    let apart = (check.device - check.host).0.abs();
    (apart > check.allowed.0).then(|| {
        format!(
            "the {} clock shows {} and the host's {}; the limit of their difference is {}, so the host's is used",
            clock.clock.label(),
            check.device,
            check.host,
            check.allowed
        )
    })
}
