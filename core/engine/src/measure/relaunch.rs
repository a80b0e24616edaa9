//! Comparison of two launch methods of one case.

use parallax_ir::device::{BackendError, Batch, Prepared, Profiler};
use parallax_schema::record::roofline::Bound;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Method, Relaunched, Timing};

use crate::measure::sampler::TrustedClock;

/// Number of batches of each launch method.
const PAIRS: usize = 15;

/// Times the stages in their usual launch method and in a cheaper one, alternately. Only cases that are bound by launching are
/// compared.
///
/// # Errors
/// A failed execution. A case that lacks the other launch method gives `None`.
pub async fn relaunch(
    prepared: &mut dyn Prepared,
    (timing, bound): (&Timing, Option<Bound>),
    clock: &TrustedClock,
    profiler: &dyn Profiler,
) -> Result<Option<Relaunched>, BackendError> {
    let (Some(Bound::Launch), Some(usual)) = (bound, prepared.launching()) else { return Ok(None) };
    let Some(other) = usual.cheaper().filter(|_| timing.method == Method::Batch) else { return Ok(None) };
    let batch = Batch { lead: timing.lead, repeats: timing.repeats };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..PAIRS {
        for (way, times) in [usual, other].into_iter().zip(&mut times) {
            match prepared.launch_as(way).await {
                Ok(()) => {}
                Err(BackendError::Unsupported(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
            let sample = prepared.measure(batch).await?;
            times.push(clock.read(sample).0 / f64::from(batch.repeats));
        }
        profiler.yield_now().await;
    }
    prepared.launch_as(usual).await?;
    let [usual_times, other_times] = &times;
    let both = Summary::of(usual_times).zip(Summary::of(other_times));
    Ok(both.map(|(as_usual, summary)| Relaunched { launch: other, as_usual, summary }))
}
