//! Trace of one execution: host calls, device work, and the call behind each piece of work.

mod activities;
mod alignment;
mod events;
mod submission;

use parallax_ir::device::{BackendError, Prepared};
use parallax_schema::device::{Launching, Trace};
use parallax_schema::units::Nanos;

use self::activities::from_activities;
use self::alignment::Alignment;
use self::events::from_events;
use self::submission::submit;
use crate::cupti::Recording;
use crate::driver::{CudaEvent, CudaStream};
use crate::errors::Context;
use crate::events::{elapsed, event};
use crate::prepared::PreparedCase;

/// Runs the case once and traces it. Device work comes from CUPTI where it works, or else from events.
pub(crate) fn trace(case: &mut PreparedCase, stacks: bool) -> Result<Trace, BackendError> {
    match by_cupti(case, stacks)? {
        Some(trace) => Ok(trace),
        None => by_events(case, stacks),
    }
}

/// Returns CUPTI's trace. `None` where CUPTI is missing, refuses, or returns incomplete records.
fn by_cupti(case: &mut PreparedCase, stacks: bool) -> Result<Option<Trace>, BackendError> {
    let Some(recording) = Recording::begin() else { return Ok(None) };
    let Some(aligned) = Alignment::measure(|| case.now(), || recording.now()) else { return Ok(None) };
    let now = || recording.now().map_or(Nanos(f64::NAN), |now| aligned.to_host(now));
    let mut nothing = |_: usize, _: &CudaStream| Ok(());
    let mut as_little = nothing;
    // CUPTI prepares for a kernel at its first launch. The second execution is like any other.
    submit(case, false, now, [&mut nothing, &mut as_little])?;
    let submission = submit(case, stacks, now, [&mut nothing, &mut as_little])?;
    let Some(activities) = recording.finish() else { return Ok(None) };
    Ok(from_activities(&submission, &activities, aligned))
}

/// Returns the events' trace. Events around each call time its work, so a span includes the gap before the work. A graph is one
/// call, and its stages cannot be separated.
fn by_events(case: &mut PreparedCase, stacks: bool) -> Result<Trace, BackendError> {
    let calls = match case.launching {
        Launching::Graph => 1,
        _ => case.steps(0).len(),
    };
    let made = || (0..calls).map(|_| event(&case.context)).collect::<Result<Vec<CudaEvent>, _>>();
    let (zero, begins, ends) = (event(&case.context)?, made()?, made()?);
    let opened = case.opened;
    case.record(&zero)?;
    let mut streams = Vec::new();
    let submission = submit(
        case,
        stacks,
        || crate::events::since(opened),
        [
            &mut |i, stream| {
                streams.push(stream.cu_stream());
                begins[i].record(stream).doing(|| "recording an event".into())
            },
            &mut |i, stream| ends[i].record(stream).doing(|| "recording an event".into()),
        ],
    )?;
    let time = |(begin, end): (&CudaEvent, &CudaEvent)| Ok([elapsed(&zero, begin)?, elapsed(&zero, end)?]);
    let times = begins.iter().zip(&ends).map(time).collect::<Result<Vec<_>, BackendError>>()?;
    let lane = |stream: &_| case.streams.position(*stream);
    let lanes: Vec<Option<u32>> = streams.iter().map(lane).collect();
    Ok(from_events(&submission, &times, &lanes))
}
