//! Trace of an execution from CUPTI's records. Each piece of work is joined to its call and to its stage.

use std::collections::HashMap;

use parallax_schema::device::{Span, SpanKind, Trace, TraceSource};
use parallax_schema::units::{Bytes, Nanos};

use super::alignment::Alignment;
use super::submission::{Submission, Told, device_span, host_spans};
use crate::cupti::{Activity, What};

/// Returns the span of a CUPTI record.
fn activity_span(told: &Told, call: usize, activity: &Activity, times: [Nanos; 2]) -> Span {
    let span = device_span(told, call, times);
    Span {
        symbol: activity.name.clone().filter(|symbol| *symbol != span.name),
        kind: kind(activity.what),
        device: activity.device,
        stream: Some(activity.stream),
        bytes: activity.bytes.map(Bytes),
        ..span
    }
}

fn kind(what: What) -> SpanKind {
    match what {
        What::Copy => SpanKind::Memcpy,
        What::Fill => SpanKind::Memset,
        What::Kernel | What::Call => SpanKind::Kernel,
    }
}

/// Returns a trace of the execution's kernels, copies and fills, each joined to its call and its stage. `None` for ambiguous
/// records, or for a stage without work: an incomplete trace would be mistaken for a complete one.
pub(super) fn from_activities(submission: &Submission, activities: &[Activity], aligned: Alignment) -> Option<Trace> {
    let begin = submission.calls.first()?.begin;
    let on_host = |activity: &Activity| [aligned.to_host(activity.start), aligned.to_host(activity.end)];
    // The records contain the previous execution too; the device was idle between them.
    let of = |calls: bool| {
        let wanted = move |activity: &&Activity| (activity.what == What::Call) == calls;
        activities.iter().filter(wanted).filter(|activity| on_host(activity)[0].0 >= begin.0)
    };
    let mut works: Vec<&Activity> = of(false).collect();
    if works.iter().any(|work| work.start == 0 || work.end < work.start) {
        return None;
    }
    works.sort_by_key(|work| work.start);
    // The call of the submission whose host span contains the driver call with the work's correlation number.
    let call_of = |work: &&Activity| {
        let call = of(true).find(|call| call.correlation == work.correlation)?;
        let [start, end] = on_host(call);
        submission.calls.iter().position(|ours| ours.begin.0 <= start.0 && end.0 <= ours.end.0)
    };
    let one_stream = || works.iter().all(|work| (work.device, work.stream) == (works[0].device, works[0].stream));
    let calls: Vec<usize> = match works.iter().map(call_of).collect() {
        Some(calls) => calls,
        // A single call is the only candidate.
        None if submission.calls.len() == 1 => vec![0; works.len()],
        // One stream works in the order of the calls. With equal numbers of works and calls, records of calls are unnecessary.
        None if works.len() == submission.calls.len() && one_stream() => (0..works.len()).collect(),
        None => return None,
    };
    let stages = stages(submission, &works, &calls)?;
    let mut spans = host_spans(submission);
    let mut free = HashMap::new();
    for ((call, stage), work) in calls.into_iter().zip(stages).zip(works) {
        let [start, end] = on_host(work);
        // A kernel may start while the last blocks of the previous one run. A stream shows one kernel at a time.
        let free = free.entry((work.device, work.stream)).or_insert(start);
        let start = Nanos(start.0.max(free.0));
        *free = Nanos(end.0.max(start.0));
        spans.push(activity_span(&submission.stages[stage], call, work, [start, *free]));
    }
    Some(Trace { spans, alignment_error: Some(aligned.error), source: Some(TraceSource::Cupti) })
}

/// Returns the stage of each piece of work, from its call. `None` if ambiguous, or for a stage without work.
fn stages(submission: &Submission, works: &[&Activity], calls: &[usize]) -> Option<Vec<usize>> {
    let mut found = vec![None; works.len()];
    for (i, call) in submission.calls.iter().enumerate() {
        let mine: Vec<usize> = (0..works.len()).filter(|work| calls[*work] == i).collect();
        if call.stages.len() == 1 {
            mine.iter().for_each(|work| found[*work] = Some(call.stages.start));
            continue;
        }
        // In a graph of many stages, each stage of this suite has one piece of work. Its name or its kind identifies it.
        let mut left: Vec<usize> = call.stages.clone().collect();
        for work in &mine {
            let activity = works[*work];
            let is_it = |stage: &usize| {
                let told = &submission.stages[*stage];
                match activity.what {
                    What::Kernel => told.symbol.is_some() && told.symbol == activity.name.as_deref(),
                    what => told.kind == kind(what) && told.bytes.is_none_or(|b| Some(b.0) == activity.bytes),
                }
            };
            if let Some(at) = left.iter().position(is_it) {
                found[*work] = Some(left.remove(at));
            }
        }
        // Work of a library, if its library call is unambiguous.
        let libraries: Vec<usize> = left
            .iter()
            .copied()
            .filter(|stage| {
                let told = &submission.stages[*stage];
                told.kind == SpanKind::Kernel && told.symbol.is_none()
            })
            .collect();
        let others: Vec<usize> = mine.into_iter().filter(|work| found[*work].is_none()).collect();
        match &libraries[..] {
            [one] => others.iter().for_each(|work| found[*work] = Some(*one)),
            many if many.len() == others.len() => {
                others.iter().zip(many).for_each(|(work, stage)| found[*work] = Some(*stage));
            }
            _ => return None,
        }
    }
    let found: Vec<usize> = found.into_iter().collect::<Option<_>>()?;
    (0..submission.stages.len()).all(|stage| found.contains(&stage)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::super::submission::made::{TWO, graph, submission, told};
    use super::*;

    /// Large start value of CUPTI's clock.
    const EPOCH: u64 = 1_800_000_000_000_000_000;
    const ALIGNED: Alignment = Alignment { host: Nanos(0.0), cupti: EPOCH, error: Nanos(4.0) };

    fn record(what: What, start: u64, end: u64, correlation: u32) -> Activity {
        let (start, end) = (EPOCH + start, EPOCH + end);
        Activity { what, name: None, device: 0, stream: 13, bytes: None, start, end, correlation }
    }

    #[test]
    fn kernels_are_joined_to_launches_through_their_calls() {
        let submission = submission(&TWO, [130.0, 200.0]);
        let kernel = |name: &str, start, end, correlation| Activity {
            name: Some(name.to_owned()),
            ..record(What::Kernel, start, end, correlation)
        };
        let activities = [
            // The previous execution.
            record(What::Call, 50, 55, 6),
            record(What::Kernel, 60, 70, 6),
            kernel("reduce", 171, 190, 9),
            kernel("split_k", 150, 170, 8),
            kernel("a", 125, 149, 7),
            record(What::Call, 101, 109, 7),
            // Two kernels of one launch.
            record(What::Call, 116, 118, 8),
            record(What::Call, 120, 128, 9),
        ];
        let trace = from_activities(&submission, &activities, ALIGNED).expect("whole");
        let want = [("a", 125.0, 149.0, Some(1)), ("b", 150.0, 170.0, Some(2)), ("b", 171.0, 190.0, Some(2))];
        assert_eq!(told(&trace)[3..], want);
        let symbols: Vec<Option<&str>> = trace.spans[3..].iter().map(|span| span.symbol.as_deref()).collect();
        assert_eq!(symbols, [None, Some("split_k"), Some("reduce")], "only where they say more");
        assert_eq!((trace.source, trace.alignment_error), (Some(TraceSource::Cupti), Some(Nanos(4.0))));
    }

    #[test]
    fn without_calls_the_order_tells_if_the_numbers_agree() {
        let submission = submission(&TWO, [130.0, 200.0]);
        let kernels = [record(What::Kernel, 125, 149, 7), record(What::Kernel, 148, 170, 8)];
        let trace = from_activities(&submission, &kernels, ALIGNED).expect("whole");
        assert_eq!(told(&trace)[3..], [("a", 125.0, 149.0, Some(1)), ("b", 149.0, 170.0, Some(2))], "no overlap");
        assert_eq!(from_activities(&submission, &kernels[..1], ALIGNED), None, "a launch without its kernel");
    }

    #[test]
    fn what_overlaps_on_two_streams_still_does() {
        let submission = submission(&TWO, [130.0, 200.0]);
        let copy = Activity {
            name: Some("Memcpy HtoD (Pinned -> Device)".to_owned()),
            stream: 14,
            bytes: Some(64),
            ..record(What::Copy, 122, 160, 7)
        };
        let kernel = record(What::Kernel, 130, 170, 8);
        let calls = [record(What::Call, 101, 109, 7), record(What::Call, 116, 118, 8)];
        let both = [copy.clone(), kernel.clone(), calls[0].clone(), calls[1].clone()];
        let trace = from_activities(&submission, &both, ALIGNED).expect("whole");
        let spans = &trace.spans[3..];
        assert_eq!(told(&trace)[3..], [("a", 122.0, 160.0, Some(1)), ("b", 130.0, 170.0, Some(2))]);
        assert_eq!(spans.iter().map(|span| span.stream).collect::<Vec<_>>(), [Some(14), Some(13)]);
        assert_eq!((spans[0].kind, spans[0].bytes), (SpanKind::Memcpy, Some(Bytes(64))));
        assert_eq!(spans[0].symbol.as_deref(), Some("Memcpy HtoD (Pinned -> Device)"));
        assert_eq!(from_activities(&submission, &both[..2], ALIGNED), None, "no order across streams");
    }

    #[test]
    fn work_of_a_graph_is_told_apart_by_name_and_kind() {
        let work = |what, name: &str, at: u64, bytes: Option<u64>| Activity {
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            bytes,
            ..record(what, at, at + 10, 7)
        };
        let ours = [
            record(What::Call, 101, 109, 7),
            work(What::Kernel, "half", 120, None),
            work(What::Copy, "Memcpy HtoD (Pinned -> Device)", 131, Some(64)),
            work(What::Kernel, "half", 160, None),
            work(What::Fill, "", 140, Some(8)),
        ];
        let names = |libraries, more: &[Activity]| {
            let activities = [&ours[..], more].concat();
            let trace = from_activities(&graph(libraries), &activities, ALIGNED)?;
            Some(trace.spans[2..].iter().map(|s| (s.name.clone(), s.correlation)).collect::<Vec<_>>())
        };
        let of = |names: &[&str]| Some(names.iter().map(|n| ((*n).to_owned(), Some(1))).collect::<Vec<_>>());
        assert_eq!(names(0, &[]), of(&["first half", "upload", "zeros", "second half"]));
        let library = [work(What::Kernel, "split_k", 180, None), work(What::Kernel, "reduce", 200, None)];
        assert_eq!(names(0, &library), None, "whose are they?");
        let both = of(&["first half", "upload", "zeros", "second half", "product", "product"]);
        assert_eq!(names(1, &library), both, "one call made both");
        assert_eq!(names(2, &library), both, "one for each call");
        assert_eq!(names(3, &library), None, "a call without its kernel");
        assert_eq!(from_activities(&graph(0), &ours[..4], ALIGNED), None, "a stage without its work");
    }

    #[test]
    fn incomplete_records_are_no_story() {
        let submission = submission(&TWO[..1], [110.0, 200.0]);
        let call = record(What::Call, 101, 109, 7);
        let unfinished = Activity { end: 0, ..record(What::Kernel, 125, 149, 7) };
        assert_eq!(from_activities(&submission, &[call.clone(), unfinished], ALIGNED), None);
        let twice_called = [call, record(What::Kernel, 125, 149, 7)];
        assert!(from_activities(&submission, &twice_called, ALIGNED).is_some());
    }
}
