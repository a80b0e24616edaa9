//! Calls: work submitted alone to an idle device, and the time until the host knows of its end.
//!
//! A call is measured by itself, because the intercept of a batch does not give its time. The API may poll for completion rarely;
//! short work then completes late for the host, or just in time.

use parallax_ir::device::{Awaited, BackendError, Prepared, Profiler};
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{OneCall, Waited};
use parallax_schema::units::Nanos;

use crate::measure::reference_kernel::ReferenceKernel;
use crate::measure::sampler::TrustedClock;

/// Number of calls of a case, for each of the two ends.
const CALLS: usize = 15;
/// Number of calls of each length in the sweep.
const READINGS: usize = 9;
/// Smallest number of calls.
const FEWEST: usize = 3;
/// Smallest number of calls on a host that looks for completed work with a long period. Calls take the period there.
const FEWEST_OF_A_PERIOD: usize = 2;
/// Approximate time that the calls of one kind may take together.
const PATIENCE: Nanos = Nanos(30e6);
/// Length of an execution beyond which the cost of a call is negligible.
pub(super) const LONG: Nanos = Nanos(50e6);
/// Approximate length of the longest work in the sweep.
const LONGEST: Nanos = Nanos(20e6);

/// Numbers of repeated calls.
#[derive(Clone, Copy)]
struct Calls {
    /// Calls before the first that counts, which have one-time costs.
    first: usize,
    fewest: usize,
    most: usize,
}

impl Calls {
    const USUAL: Calls = Calls { first: 1, fewest: FEWEST, most: CALLS };
    /// One-time costs are small beside a period.
    const OF_A_PERIOD: Calls = Calls { first: 0, fewest: FEWEST_OF_A_PERIOD, most: FEWEST_OF_A_PERIOD };
}

/// Returns the times of repeated calls of a case; `None` for an `execution` beside which a call costs nothing. `period` is that
/// of the host's looks for completed work: nothing prompts a call.
///
/// # Errors
/// Errors of the device.
pub async fn calls(
    prepared: &mut dyn Prepared,
    profiler: &dyn Profiler,
    period: Option<Nanos>,
    execution: Nanos,
) -> Result<Option<OneCall>, BackendError> {
    if execution.0 > LONG.0 {
        return Ok(None);
    }
    let calls = if period.is_some_and(|period| period.0 > PATIENCE.0) { Calls::OF_A_PERIOD } else { Calls::USUAL };
    let done = repeated(prepared, profiler, (1, Awaited::Done), calls).await?;
    let result = repeated(prepared, profiler, (1, Awaited::Result), calls).await?;
    Ok(Some(OneCall { done, result }))
}

/// Returns completion times of the reference kernel, with the number of executions doubled at each step. The first entry is an
/// empty submission, whose times are given.
///
/// # Errors
/// Errors of the device.
pub async fn sweep(
    profiler: &dyn Profiler,
    reference: &mut ReferenceKernel,
    clock: &TrustedClock,
    empty: Option<Summary>,
) -> Result<Vec<Waited>, BackendError> {
    let execution = reference.read(clock).await?;
    let mut sweep: Vec<Waited> = empty.into_iter().map(|done| Waited { device: Nanos(0.0), done }).collect();
    let mut executions = 1u32;
    while execution.0 > 0.0 && execution.0 * f64::from(executions) <= LONGEST.0 {
        let calls = Calls { most: READINGS, ..Calls::USUAL };
        let readings = repeated(reference.prepared(), profiler, (executions, Awaited::Done), calls).await?;
        let device = Nanos(execution.0 * f64::from(executions));
        sweep.extend(Summary::of(&readings).map(|done| Waited { device, done }));
        executions = executions.saturating_mul(2);
    }
    Ok(sweep)
}

/// Returns host times of calls, fewer than the most where they take long.
async fn repeated(
    prepared: &mut dyn Prepared,
    profiler: &dyn Profiler,
    (executions, until): (u32, Awaited),
    calls: Calls,
) -> Result<Vec<f64>, BackendError> {
    for _ in 0..calls.first {
        prepared.call(executions, until).await?;
    }
    let (mut times, began) = (Vec::new(), profiler.now());
    while times.len() < calls.fewest || (times.len() < calls.most && (profiler.now() - began).0 < PATIENCE.0) {
        times.push(prepared.call(executions, until).await?.0);
        profiler.yield_now().await;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::device::Clock;
    use parallax_schema::record::completion_step;
    use parallax_testing::mock::{FIXED, Mock, READ, World};
    use parallax_workloads::parse_case;
    use pollster::block_on;

    #[test]
    fn a_call_is_taken_as_one_until_either_is_known() {
        let mut mock = Mock::in_world(World { time: |_| 5e4, known: |done| done.max(2.4e6), ..World::default() });
        let case = parse_case("copy/fwd/n64/f32/scalar").expect("valid");
        let mut prepared = block_on(mock.prepare(&case, &case.problem.inputs(1), 1)).expect("a mock");
        let call = block_on(calls(&mut *prepared, &mock, None, Nanos(5e4))).expect("no fault").expect("short");
        assert_eq!((call.done.len(), call.result.len()), (13, 13), "calls of 2.4 ms for 30 ms");
        assert_eq!(call.done().expect("calls").median, Nanos(2.4e6), "although it took {FIXED} and 50 µs");
        assert_eq!(call.result().expect("calls").median, Nanos(2.4e6 + READ));
        assert_eq!(block_on(calls(&mut *prepared, &mock, None, Nanos(2e8))), Ok(None), "too long to matter");
        let call =
            block_on(calls(&mut *prepared, &mock, Some(Nanos(100e6)), Nanos(5e4))).expect("no fault").expect("short");
        assert_eq!((call.done.len(), call.result.len()), (2, 2), "each takes the period");
    }

    #[test]
    fn the_sweep_finds_where_whoever_tells_looks_again() {
        let known = |done: f64| if done < 1e5 { 1.2e5 } else { done.max(2.5e6) };
        let mut mock = Mock::in_world(World { time: |_| 3e4, known, ..World::default() });
        let (sweep, step) = block_on(async {
            let mut reference = ReferenceKernel::new(&mut mock).await.expect("a mock");
            let clock =
                TrustedClock { info: mock.clock().clone(), fixed: Nanos(0.0), error: Nanos(1.0), period: Nanos(0.0) };
            assert_eq!(clock.info.clock, Clock::GpuTimestamps);
            let empty = Summary::of(&[1.2e5]);
            let sweep = sweep(&mock, &mut reference, &clock, empty).await.expect("no fault");
            let step = completion_step(&sweep);
            (sweep, step)
        });
        assert!(sweep.windows(2).all(|pair| pair[0].device < pair[1].device), "{sweep:?}");
        let step = step.expect("a step of 2.4 ms");
        assert!(step.within.0 < 1e5 && step.beyond.0 > 5e4 && step.late == Nanos(2.5e6), "{step:?}");
    }
}
