//! Trace of one exchange: the host's calls, and a lane for each rank.

use parallax_ir::device::stack::Stack;
use parallax_ir::device::{BackendError, Prepared};
use parallax_schema::device::{Span, SpanKind, Trace, TraceSource, Track};
use parallax_schema::units::Nanos;

use super::prepared::PreparedGroup;
use super::rank::{Rank, align};
use crate::driver::CudaEvent;
use crate::events::{elapsed, event};
use crate::nccl::call_of;

/// A call on the host clock.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) label: String,
    /// Position of the stream of its work, if there are several.
    pub(super) stream: Option<u32>,
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
    pub(super) stack: Vec<String>,
}

/// Runs the exchanges once, with events around each on every rank. A span includes the gap before its work.
pub(super) fn trace(case: &mut PreparedGroup, stacks: bool) -> Result<Trace, BackendError> {
    let set = case.rotation.take();
    let exchanges = &case.executions[set];
    let pairs = |rank: &Rank| {
        let pair = |_| Ok::<_, BackendError>([event(&rank.context)?, event(&rank.context)?]);
        (0..exchanges.len()).map(pair).collect::<Result<Vec<_>, _>>()
    };
    let zeros = case.ranks.iter().map(|rank| event(&rank.context)).collect::<Result<Vec<_>, _>>()?;
    let events = case.ranks.iter().map(pairs).collect::<Result<Vec<_>, _>>()?;
    let mut calls = Vec::new();
    let mut submit = || {
        align(&case.ranks, &case.marks)?;
        case.ranks.iter().zip(&zeros).try_for_each(|(rank, zero)| rank.record(zero))?;
        for (i, bound) in exchanges.iter().enumerate() {
            let record = |edge: usize| {
                let mut all = case.ranks.iter().zip(&events);
                all.try_for_each(|(rank, pairs)| rank.record(&pairs[i][edge]))
            };
            record(0)?;
            let stack = stacks.then(Stack::capture);
            let begin = case.now();
            case.queue(bound)?;
            let (end, stack) = (case.now(), stack.as_ref().map(Stack::names).unwrap_or_default());
            let (name, label) = (call_of(&bound.parts), bound.label.to_string());
            calls.push(Call { name, label, stream: None, begin, end, stack });
            record(1)?;
        }
        Ok::<_, BackendError>(())
    };
    let submitted = submit();
    let wait = case.now();
    // Wait also after a failed call: no work may be in flight when the buffers are dropped.
    let waited = case.wait();
    let done = case.now();
    submitted.and(waited)?;
    Ok(joined(&calls, [wait, done], &times(&zeros, &events)?))
}

/// Returns the times between each pair of events on each rank, relative to the rank's zero.
pub(super) fn times(zeros: &[CudaEvent], events: &[Vec<[CudaEvent; 2]>]) -> Result<Vec<Vec<[Nanos; 2]>>, BackendError> {
    let of_rank = |(zero, pairs): (&CudaEvent, &Vec<[CudaEvent; 2]>)| {
        let times = |[begin, end]: &[CudaEvent; 2]| Ok::<_, BackendError>([elapsed(zero, begin)?, elapsed(zero, end)?]);
        pairs.iter().map(times).collect::<Result<Vec<_>, _>>()
    };
    zeros.iter().zip(events).map(of_rank).collect()
}

/// Returns the spans of calls, wait and work. `times` are begin and end of each stage on each rank, relative to the moment when
/// the ranks were aligned.
///
/// The events' clocks and the host's have no common zero. The work of the last rank ends with the wait, its latest possible
/// position. The remaining time before the work is the alignment error.
pub(super) fn joined(calls: &[Call], [wait, done]: [Nanos; 2], times: &[Vec<[Nanos; 2]>]) -> Trace {
    let correlation = |i: usize| u32::try_from(i + 1).ok();
    let begin = calls.first().map_or(wait, |call| call.begin);
    let busy = times.iter().flatten().map(|[_, end]| end.0).fold(0.0, f64::max);
    let room = done - begin - Nanos(busy);
    // Two clocks may differ by more than the remaining time; the work then begins with the call.
    let zero = if room.0 < 0.0 { begin } else { done - Nanos(busy) };
    let called = |(i, call): (usize, &Call)| Span {
        name: call.name.to_owned(),
        kind: SpanKind::Runtime,
        track: Track::Host,
        start: call.begin,
        end: call.end,
        correlation: correlation(i),
        stack: call.stack.clone(),
        ..Span::default()
    };
    let mut spans: Vec<Span> = calls.iter().enumerate().map(called).collect();
    spans.push(Span {
        name: "cuStreamSynchronize".to_owned(),
        kind: SpanKind::Wait,
        track: Track::Host,
        start: wait,
        end: done,
        ..Span::default()
    });
    for (device, times) in (0..).zip(times) {
        let work = |(i, (call, [start, end])): (usize, (&Call, &[Nanos; 2]))| Span {
            name: call.label.clone(),
            kind: SpanKind::Kernel,
            track: Track::Gpu,
            device,
            stream: call.stream,
            start: zero + *start,
            end: zero + *end,
            correlation: correlation(i),
            ..Span::default()
        };
        spans.extend(calls.iter().zip(times).enumerate().map(work));
    }
    Trace { spans, alignment_error: Some(Nanos(room.0.abs())), source: Some(TraceSource::Events) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls() -> Vec<Call> {
        let call = |label: &str, begin, end| Call {
            name: "ncclAllReduce",
            label: label.to_owned(),
            stream: None,
            begin: Nanos(begin),
            end: Nanos(end),
            stack: Vec::new(),
        };
        vec![call("first", 100.0, 110.0), call("second", 115.0, 130.0)]
    }

    #[test]
    fn every_rank_has_a_lane_and_the_last_ends_with_the_wait() {
        let times = [[[0.0, 30.0], [30.0, 70.0]], [[1.0, 31.0], [32.0, 80.0]]];
        let times = times.map(|rank| rank.map(|pair| pair.map(Nanos)).to_vec());
        let trace = joined(&calls(), [130.0, 200.0].map(Nanos), &times);
        let found: Vec<_> =
            trace.spans.iter().map(|s| (s.name.as_str(), s.device, s.start.0, s.end.0, s.correlation)).collect();
        let want = [
            ("ncclAllReduce", 0, 100.0, 110.0, Some(1)),
            ("ncclAllReduce", 0, 115.0, 130.0, Some(2)),
            ("cuStreamSynchronize", 0, 130.0, 200.0, None),
            ("first", 0, 120.0, 150.0, Some(1)),
            ("second", 0, 150.0, 190.0, Some(2)),
            ("first", 1, 121.0, 151.0, Some(1)),
            ("second", 1, 152.0, 200.0, Some(2)),
        ];
        assert_eq!(found, want);
        assert_eq!((trace.alignment_error, trace.source), (Some(Nanos(20.0)), Some(TraceSource::Events)));
    }

    #[test]
    fn work_never_begins_before_its_call() {
        let times = [vec![[0.0, 130.0].map(Nanos)]];
        let trace = joined(&calls()[..1], [110.0, 200.0].map(Nanos), &times);
        assert_eq!((trace.spans[2].start, trace.alignment_error), (Nanos(100.0), Some(Nanos(30.0))));
    }
}
