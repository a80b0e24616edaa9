//! Trace of an execution from events.

use parallax_schema::device::{Span, SpanKind, Trace, TraceSource};
use parallax_schema::units::Nanos;

use super::submission::{Submission, Told, device_span, host_spans};

/// Returns a trace. `times` are begin and end of each call's work, relative to one moment. `streams` are the positions of their
/// streams, if there are several.
///
/// The events' clock and the host's have no common zero. The device's work lies between the begin of the submission and the end of
/// the wait. The trace aligns the end of the work with the end of the wait, its latest possible position. The remaining time before
/// the work is the alignment error.
pub(super) fn from_events(submission: &Submission, times: &[[Nanos; 2]], streams: &[Option<u32>]) -> Trace {
    let [wait, done] = submission.wait;
    let begin = submission.calls.first().map_or(wait, |call| call.begin);
    let busy = times.iter().map(|[_, end]| *end).fold(Nanos(0.0), |a, b| Nanos(a.0.max(b.0)));
    let room = done - begin - busy;
    // Two clocks may differ by more than the remaining time; the work then begins with the submission.
    let zero = if room.0 < 0.0 { begin } else { done - busy };
    let mut spans = host_spans(submission);
    for (i, (call, [start, end])) in submission.calls.iter().zip(times).enumerate() {
        let stages = &submission.stages[call.stages.clone()];
        let told = match stages {
            [stage] => stage.clone(),
            _ => Told {
                label: format!("graph of {} stages", stages.len()).into(),
                kind: SpanKind::Kernel,
                bytes: None,
                symbol: None,
            },
        };
        let stream = streams.get(i).copied().flatten();
        spans.push(Span { stream, ..device_span(&told, i, [zero + *start, zero + *end]) });
    }
    Trace { spans, alignment_error: Some(Nanos(room.0.abs())), source: Some(TraceSource::Events) }
}

#[cfg(test)]
mod tests {
    use super::super::submission::made::{TWO, graph, submission, told};
    use super::*;

    #[test]
    fn the_device_track_ends_with_the_wait_and_states_the_room_before_it() {
        let trace = from_events(
            &submission(&TWO, [130.0, 200.0]),
            &[[0.0, 30.0], [30.0, 80.0]].map(|t| t.map(Nanos)),
            &[None; 2],
        );
        let want = [
            ("cuLaunchKernel", 100.0, 110.0, Some(1)),
            ("cuLaunchKernel", 115.0, 130.0, Some(2)),
            ("cuStreamSynchronize", 130.0, 200.0, None),
            ("a", 120.0, 150.0, Some(1)),
            ("b", 150.0, 200.0, Some(2)),
        ];
        assert_eq!(told(&trace), want);
        assert_eq!(trace.alignment_error, Some(Nanos(20.0)));
        let kinds: Vec<_> = trace.spans.iter().map(|span| span.kind).collect();
        let (runtime, wait, kernel) = (SpanKind::Runtime, SpanKind::Wait, SpanKind::Kernel);
        assert_eq!(kinds, [runtime, runtime, wait, kernel, kernel]);
    }

    #[test]
    fn device_work_never_begins_before_its_submission() {
        let trace = from_events(&submission(&TWO[..1], [110.0, 200.0]), &[[0.0, 130.0].map(Nanos)], &[None]);
        assert_eq!(trace.spans[2].start, Nanos(100.0));
        assert_eq!(trace.alignment_error, Some(Nanos(30.0)));
    }

    #[test]
    fn without_cupti_a_graph_is_one_span_and_streams_are_numbered_if_there_are_several() {
        let trace = from_events(&graph(0), &[[5.0, 45.0].map(Nanos)], &[None]);
        assert_eq!(told(&trace)[2..], [("graph of 4 stages", 860.0, 900.0, Some(1))]);
        let times = [[0.0, 50.0], [20.0, 80.0]].map(|t| t.map(Nanos));
        let trace = from_events(&submission(&TWO, [130.0, 200.0]), &times, &[Some(1), Some(0)]);
        assert_eq!(told(&trace)[3..], [("a", 120.0, 170.0, Some(1)), ("b", 140.0, 200.0, Some(2))]);
        assert_eq!(trace.spans[3..].iter().map(|span| span.stream).collect::<Vec<_>>(), [Some(1), Some(0)]);
    }
}
