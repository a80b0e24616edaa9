//! Events on a stream: the clock of the samples, and its quality.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::CUevent_flags;
use parallax_ir::device::BackendError;
use parallax_schema::device::clock::{common_step, smallest_move};
use parallax_schema::device::{Clock, ClockInfo};
use parallax_schema::units::Nanos;

use crate::driver::{CudaContext, CudaEvent, CudaStream, DriverError, cuMemAlloc_v2, cuMemFree_v2, cuMemsetD8Async};
use crate::errors::Context;

/// Creates an event that records the time.
pub(crate) fn event(context: &Arc<CudaContext>) -> Result<CudaEvent, BackendError> {
    context.new_event(CUevent_flags::CU_EVENT_DEFAULT).doing(|| "creating an event".into())
}

/// Returns the time between two recorded events.
pub(crate) fn elapsed(begin: &CudaEvent, end: &CudaEvent) -> Result<Nanos, BackendError> {
    let milliseconds = begin.elapsed_ms(end).doing(|| "reading event times".into())?;
    Ok(Nanos(f64::from(milliseconds) * 1e6))
}

/// Host time since an instant.
pub(crate) fn since(instant: Instant) -> Nanos {
    Nanos::from_secs(instant.elapsed().as_secs_f64())
}

/// Step in the documentation of `cuEventElapsedTime`.
const DOCUMENTED_STEP: Nanos = Nanos(500.0);

/// Number of events in the test of the clock.
const MARKS: usize = 256;

/// Measures the quality of event times: their step, and the share of pairs around real work with zero or negative time. The work is
/// a fill of a few bytes, about the shortest work of a device.
///
/// # Errors
/// A driver error.
pub(crate) fn test_clock(context: &Arc<CudaContext>, stream: &CudaStream) -> Result<ClockInfo, DriverError> {
    context.bind_to_thread()?;
    let mut few = 0;
    // SAFETY: the context is current, and the memory is freed once, below.
    unsafe { cuMemAlloc_v2(&mut few, FEW) }?;
    let times = stamps(context, stream, few);
    // The stream must be idle before the memory is freed, also when a call above failed.
    let waited = stream.synchronize();
    // SAFETY: allocated above; no work uses it any more.
    let freed = unsafe { cuMemFree_v2(few) };
    let times = times?;
    waited.and(freed)?;

    let opened = Instant::now();
    let host_step = smallest_move(1000, || Nanos(opened.elapsed().as_nanos() as f64));
    Ok(describe(&times, host_step))
}

/// Bytes of a fill.
const FEW: usize = 4;

/// Returns the times of events with a fill of `few` between each two, relative to the first event.
fn stamps(context: &Arc<CudaContext>, stream: &CudaStream, few: u64) -> Result<Vec<Nanos>, DriverError> {
    let new = |_| context.new_event(CUevent_flags::CU_EVENT_DEFAULT);
    let marks = (0..MARKS).map(new).collect::<Result<Vec<_>, _>>()?;
    for mark in &marks {
        mark.record(stream)?;
        // SAFETY: the caller keeps the memory until the stream has been synchronised.
        unsafe { cuMemsetD8Async(few, 0, FEW, stream.cu_stream()) }?;
    }
    stream.synchronize()?;
    marks.iter().map(|mark| Ok(Nanos(f64::from(marks[0].elapsed_ms(mark)?) * 1e6))).collect()
}

/// Variation of the gap between two kernels on a stream, from run to run. Source: twenty A/A runs of an H200. Kernels of 6 to 12 µs
/// differed by up to 0.17 µs, and two kernels of 8 µs together by up to 0.45 µs. Kernels beyond 30 µs differed by less than 0.5 %.
/// Vulkan showed no such variation.
const GAP: Nanos = Nanos(250.0);

/// Describes the clock of a series of times. They arrive as f32 milliseconds: short spans have a resolution of whole nanoseconds.
fn describe(times: &[Nanos], host_step: Nanos) -> ClockInfo {
    let whole: Vec<i64> = times.iter().map(|time| time.0.round() as i64).collect();
    let step = common_step(whole.iter().map(|time| time.unsigned_abs()));
    let pairs = whole.len().saturating_sub(1).max(1) as f64;
    let share = |of: fn(i64) -> bool| whole.windows(2).filter(|pair| of(pair[1] - pair[0])).count() as f64 / pairs;
    ClockInfo {
        clock: Clock::CudaEvents,
        step: step.map_or(DOCUMENTED_STEP, |step| Nanos(step as f64)),
        host_step,
        zero_share: share(|passed| passed == 0),
        negative_share: share(|passed| passed < 0),
        launch_jitter: GAP,
        note: step.is_none().then(|| "no two events differed: the step is the documented 0.5 µs".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(times: &[f64]) -> ClockInfo {
        describe(&times.iter().copied().map(Nanos).collect::<Vec<_>>(), Nanos(1.0))
    }

    #[test]
    fn steps_and_shares_come_from_the_stamps() {
        let info = clock(&[0.0, 1024.0, 1024.0, 3072.1, 2048.0]);
        assert_eq!(info.step, Nanos(1024.0));
        assert_eq!((info.zero_share, info.negative_share), (0.25, 0.25));
        assert_eq!(info.note, None);
    }

    #[test]
    fn a_clock_that_stands_still_has_the_documented_step_and_says_so() {
        let info = clock(&[0.0, 0.0, 0.0]);
        assert_eq!((info.step, info.zero_share), (DOCUMENTED_STEP, 1.0));
        assert!(info.note.is_some());
    }
}
