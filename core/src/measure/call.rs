//! Calls: work submitted alone on an idle device, and how long the host waits for it.
//!
//! A batch's intercept is no call: whoever tells that work is done may look rarely, and then short work is known to be
//! done late, or just in time. So a call is measured as one.

use crate::device::{Awaited, BackendError, Prepared, Profiler};
use crate::measure::reference_kernel::ReferenceKernel;
use crate::measure::sampler::TrustedClock;
use crate::record::stats::Summary;
use crate::record::{OneCall, Waited};
use crate::units::Nanos;

/// Calls of a case, of either kind.
const CALLS: usize = 15;
/// Calls of each length in the sweep.
const READINGS: usize = 9;
/// There are so many at least, or none.
const FEWEST: usize = 3;
/// Calls of one kind take about so long together.
const PATIENCE: Nanos = Nanos(60e6);
/// Beside an execution of this length, what a call costs more is nothing.
const LONG: Nanos = Nanos(100e6);
/// The sweep ends with work of about this length.
const LONGEST: Nanos = Nanos(20e6);

/// Call a case, an execution of which takes so long, time and again. `None` for one that is too long for it to matter.
///
/// # Errors
/// Those of the device.
pub async fn calls(
    prepared: &mut dyn Prepared,
    profiler: &dyn Profiler,
    execution: Nanos,
) -> Result<Option<OneCall>, BackendError> {
    if execution.0 > LONG.0 {
        return Ok(None);
    }
    let done = repeated(prepared, profiler, 1, Awaited::Done, CALLS).await?;
    let result = repeated(prepared, profiler, 1, Awaited::Result, CALLS).await?;
    Ok(Some(OneCall { done, result }))
}

/// Work of more and more executions of the reference kernel, and when each is known to be done. The first is no work at
/// all, whose times are known.
///
/// # Errors
/// Those of the device.
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
        let readings = repeated(reference.prepared(), profiler, executions, Awaited::Done, READINGS).await?;
        let device = Nanos(execution.0 * f64::from(executions));
        sweep.extend(Summary::of(&readings).map(|done| Waited { device, done }));
        executions = executions.saturating_mul(2);
    }
    Ok(sweep)
}

/// Host times of so many calls, fewer where they take long. The first one pays for what later ones do not, and is left
/// out.
async fn repeated(
    prepared: &mut dyn Prepared,
    profiler: &dyn Profiler,
    executions: u32,
    until: Awaited,
    most: usize,
) -> Result<Vec<f64>, BackendError> {
    prepared.call(executions, until).await?;
    let (mut times, began) = (Vec::new(), profiler.now());
    while times.len() < FEWEST || (times.len() < most && (profiler.now() - began).0 < PATIENCE.0) {
        times.push(prepared.call(executions, until).await?.0);
        profiler.yield_now().await;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use pollster::block_on;

    use super::*;
    use crate::device::Clock;
    use crate::record::completion_step;
    use crate::suite::Case;
    use crate::testing::mock::{FIXED, Mock, READ, World};

    #[test]
    fn a_call_is_taken_as_one_until_either_is_known() {
        let mut mock = Mock::of(World { time: |_| 5e4, known: |done| done.max(2.4e6), ..World::default() });
        let case: Case = "copy/fwd/n64/f32/scalar".parse().expect("valid");
        let mut prepared = block_on(mock.prepare(&case, &case.problem.inputs(1), 1)).expect("a mock");
        let call = block_on(calls(&mut *prepared, &mock, Nanos(5e4))).expect("no fault").expect("short");
        assert_eq!((call.done.len(), call.result.len()), (CALLS, CALLS));
        assert_eq!(call.done().expect("calls").median, Nanos(2.4e6), "although it took {FIXED} and 50 µs");
        assert_eq!(call.result().expect("calls").median, Nanos(2.4e6 + READ));
        assert_eq!(block_on(calls(&mut *prepared, &mock, Nanos(2e8))), Ok(None), "too long to matter");
    }

    #[test]
    fn the_sweep_finds_where_whoever_tells_looks_again() {
        let known = |done: f64| if done < 1e5 { 1.2e5 } else { done.max(2.5e6) };
        let mut mock = Mock::of(World { time: |_| 3e4, known, ..World::default() });
        let (sweep, step) = block_on(async {
            let mut reference = ReferenceKernel::new(&mut mock).await.expect("a mock");
            let clock = TrustedClock { info: mock.clock().clone(), fixed: Nanos(0.0), error: Nanos(1.0) };
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
