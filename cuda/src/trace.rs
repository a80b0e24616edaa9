//! One execution in detail: what the host called, what the device ran, and which call made which work run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use cudarc::driver::{CudaEvent, CudaStream};
use parallax_core::device::stack::Stack;
use parallax_core::device::{BackendError, Launching, Prepared, Span, SpanKind, Trace, TraceSource, Track};
use parallax_core::units::{Bytes, Nanos};

use crate::cupti::{Activity, Recording, What};
use crate::errors::Context;
use crate::events::{elapsed, event};
use crate::prepared::PreparedCase;

/// Run the case once and look. Device work comes from CUPTI where it works, else from events.
pub(crate) fn trace(case: &mut PreparedCase, stacks: bool) -> Result<Trace, BackendError> {
    match by_cupti(case, stacks)? {
        Some(trace) => Ok(trace),
        None => by_events(case, stacks),
    }
}

/// What a stage is to be called, and how its work is known.
#[derive(Debug, Clone)]
struct Told {
    label: Cow<'static, str>,
    kind: SpanKind,
    bytes: Option<Bytes>,
    /// The name under which the driver knows a kernel of ours; what a library runs has names of its own.
    symbol: Option<&'static str>,
}

/// One call as the host saw it, on the host clock, and the stages that it handed over.
struct Call {
    name: &'static str,
    begin: Nanos,
    end: Nanos,
    stack: Option<Stack>,
    stages: Range<usize>,
}

/// The host's side of an execution.
struct Submission {
    stages: Vec<Told>,
    calls: Vec<Call>,
    /// Begin and end of waiting for the device.
    wait: [Nanos; 2],
}

/// Something to be done to a stream around what is put on it; calls are counted.
type Around<'a> = &'a mut dyn FnMut(usize, &CudaStream) -> Result<(), BackendError>;

/// Hand the stages over as the case does, and wait. `now` reads the clock; `before` and `after` are called around each
/// call.
fn submit(
    case: &mut PreparedCase,
    stacks: bool,
    now: impl Fn() -> Nanos,
    [before, after]: [Around<'_>; 2],
) -> Result<Submission, BackendError> {
    let set = case.rotation.take();
    let steps = case.steps(set);
    let mut calls = Vec::new();
    let mut call = |name, stages, stream: &CudaStream, launch: &dyn Fn() -> Result<(), BackendError>| {
        before(calls.len(), stream)?;
        let stack = stacks.then(Stack::capture);
        let begin = now();
        launch()?;
        calls.push(Call { name, begin, end: now(), stack, stages });
        after(calls.len() - 1, stream)
    };
    // A graph that was made before CUPTI looked may not be told apart: this one is made for the occasion.
    let graph = match case.launching {
        Launching::Graph => Some(case.capture(set)?),
        _ => None,
    };
    let launched = match &graph {
        Some(graph) => call("cuGraphLaunch", 0..steps.len(), &case.stream, &|| graph.launch(&case.stream)),
        None => case.streams.queue(|i, stream| {
            let step = &steps[i];
            call(step.call(), i..i + 1, stream, &|| step.launch(stream))
        }),
    };
    let wait = now();
    // Wait also after a failed launch: nothing may be in flight when the buffers are dropped.
    let waited = case.wait();
    let done = now();
    launched.and(waited)?;
    let told = |step: &crate::launch::Step| {
        let (kind, bytes) = step.kind();
        Told { label: step.label.clone(), kind, bytes, symbol: step.symbol() }
    };
    Ok(Submission { stages: steps.iter().map(told).collect(), calls, wait: [wait, done] })
}

/// `None` where CUPTI is missing, refuses, or tells a story with holes.
fn by_cupti(case: &mut PreparedCase, stacks: bool) -> Result<Option<Trace>, BackendError> {
    let Some(recording) = Recording::begin() else { return Ok(None) };
    let Some(aligned) = Alignment::measure(|| case.now(), || recording.now()) else { return Ok(None) };
    let now = || recording.now().map_or(Nanos(f64::NAN), |now| aligned.to_host(now));
    let mut nothing = |_: usize, _: &CudaStream| Ok(());
    let mut as_little = nothing;
    // CUPTI prepares for a kernel when it first sees it; the second execution is like any other.
    submit(case, false, now, [&mut nothing, &mut as_little])?;
    let submission = submit(case, stacks, now, [&mut nothing, &mut as_little])?;
    let Some(activities) = recording.finish() else { return Ok(None) };
    Ok(from_activities(&submission, &activities, aligned))
}

/// Calls are timed by events around what they put on a stream, so that a span includes the gap before its work. A graph
/// is one call, whose stages cannot be told apart.
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

/// Numbers that join calls and their work count from one, in order of the calls.
fn correlation(call: usize) -> Option<u32> {
    u32::try_from(call + 1).ok()
}

fn host_spans(submission: &Submission) -> Vec<Span> {
    let called = |(i, call): (usize, &Call)| Span {
        name: call.name.to_owned(),
        kind: SpanKind::Runtime,
        track: Track::Host,
        start: call.begin,
        end: call.end,
        correlation: correlation(i),
        stack: call.stack.as_ref().map(Stack::names).unwrap_or_default(),
        ..Span::default()
    };
    let [start, end] = submission.wait;
    let wait = Span {
        name: "cuStreamSynchronize".to_owned(),
        kind: SpanKind::Wait,
        track: Track::Host,
        start,
        end,
        ..Span::default()
    };
    submission.calls.iter().enumerate().map(called).chain([wait]).collect()
}

/// `times` are begin and end of each call's work, from one moment on; `streams` say where it was, if there are several.
///
/// The events' clock has no common zero with the host's. The device's work lies somewhere between the begin of the
/// submission and the end of the wait; it is laid so that it ends with the wait, the latest that it can have been, and
/// the room that remains at the front is stated as the alignment error.
fn from_events(submission: &Submission, times: &[[Nanos; 2]], streams: &[Option<u32>]) -> Trace {
    let [wait, done] = submission.wait;
    let begin = submission.calls.first().map_or(wait, |call| call.begin);
    let busy = times.iter().map(|[_, end]| *end).fold(Nanos(0.0), |a, b| Nanos(a.0.max(b.0)));
    let room = done - begin - busy;
    // Two clocks may disagree by more than the room that there is; then the work begins with the submission.
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

fn device_span(told: &Told, call: usize, [start, end]: [Nanos; 2]) -> Span {
    Span {
        name: told.label.to_string(),
        kind: told.kind,
        bytes: told.bytes,
        track: Track::Gpu,
        start,
        end,
        correlation: correlation(call),
        ..Span::default()
    }
}

/// What a record of CUPTI's tells beside its times.
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

/// Where two clocks stood at one moment.
#[derive(Debug, Clone, Copy)]
struct Alignment {
    host: Nanos,
    cupti: u64,
    /// Half the time between the readings of the host clock before and after.
    error: Nanos,
}

impl Alignment {
    /// Read one clock between two readings of the other, several times, and keep the narrowest.
    fn measure(host: impl Fn() -> Nanos, cupti: impl Fn() -> Option<u64>) -> Option<Alignment> {
        let once = |_| {
            let before = host();
            let cupti = cupti()?;
            let error = Nanos((host() - before).0 / 2.0);
            Some(Alignment { host: before + error, cupti, error })
        };
        (0..16).filter_map(once).min_by(|a, b| a.error.0.total_cmp(&b.error.0))
    }

    /// A time of CUPTI's clock on the host's. The difference is taken in whole numbers: nanoseconds since 1970 have more
    /// digits than an f64.
    fn to_host(self, cupti: u64) -> Nanos {
        self.host + Nanos(cupti.wrapping_sub(self.cupti).cast_signed() as f64)
    }
}

/// The kernels, copies and fills of the execution, each joined to the call that handed it over and to its stage. `None`
/// when that cannot be told, or when a stage has no work: half a story would be taken for a whole one.
fn from_activities(submission: &Submission, activities: &[Activity], aligned: Alignment) -> Option<Trace> {
    let begin = submission.calls.first()?.begin;
    let on_host = |activity: &Activity| [aligned.to_host(activity.start), aligned.to_host(activity.end)];
    // The execution before this one is in the records too; the device was idle between them.
    let of = |calls: bool| {
        let wanted = move |activity: &&Activity| (activity.what == What::Call) == calls;
        activities.iter().filter(wanted).filter(|activity| on_host(activity)[0].0 >= begin.0)
    };
    let mut works: Vec<&Activity> = of(false).collect();
    if works.iter().any(|work| work.start == 0 || work.end < work.start) {
        return None;
    }
    works.sort_by_key(|work| work.start);
    // The call of ours whose span on the host holds the driver's call that the work is correlated with.
    let call_of = |work: &&Activity| {
        let call = of(true).find(|call| call.correlation == work.correlation)?;
        let [start, end] = on_host(call);
        submission.calls.iter().position(|ours| ours.begin.0 <= start.0 && end.0 <= ours.end.0)
    };
    let one_stream = || works.iter().all(|work| (work.device, work.stream) == (works[0].device, works[0].stream));
    let calls: Vec<usize> = match works.iter().map(call_of).collect() {
        Some(calls) => calls,
        // There is only one that it can have been.
        None if submission.calls.len() == 1 => vec![0; works.len()],
        // One stream works in the order of the calls, so that as many works as calls need no records of calls.
        None if works.len() == submission.calls.len() && one_stream() => (0..works.len()).collect(),
        None => return None,
    };
    let stages = stages(submission, &works, &calls)?;
    let mut spans = host_spans(submission);
    let mut free = HashMap::new();
    for ((call, stage), work) in calls.into_iter().zip(stages).zip(works) {
        let [start, end] = on_host(work);
        // A kernel may be let in while the last blocks of the one before it still run; a stream shows one at a time.
        let free = free.entry((work.device, work.stream)).or_insert(start);
        let start = Nanos(start.0.max(free.0));
        *free = Nanos(end.0.max(start.0));
        spans.push(activity_span(&submission.stages[stage], call, work, [start, *free]));
    }
    Some(Trace { spans, alignment_error: Some(aligned.error), source: Some(TraceSource::Cupti) })
}

/// The stage of each work, by the call that handed it over. `None` when it cannot be told, or a stage is left without.
fn stages(submission: &Submission, works: &[&Activity], calls: &[usize]) -> Option<Vec<usize>> {
    let mut found = vec![None; works.len()];
    for (i, call) in submission.calls.iter().enumerate() {
        let mine: Vec<usize> = (0..works.len()).filter(|work| calls[*work] == i).collect();
        if call.stages.len() == 1 {
            mine.iter().for_each(|work| found[*work] = Some(call.stages.start));
            continue;
        }
        // Of many stages at once, each of ours has one piece of work, which its name or its kind gives away.
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
        // What a library ran, if it is clear which call of it that was.
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
    use super::*;

    fn submission(launches: &[(&'static str, f64, f64)], wait: [f64; 2]) -> Submission {
        let stage = |&(label, ..): &(&'static str, f64, f64)| Told {
            label: label.into(),
            kind: SpanKind::Kernel,
            bytes: None,
            symbol: None,
        };
        let call = |(i, &(_, begin, end)): (usize, &(&'static str, f64, f64))| Call {
            name: "cuLaunchKernel",
            begin: Nanos(begin),
            end: Nanos(end),
            stack: None,
            stages: i..i + 1,
        };
        Submission {
            stages: launches.iter().map(stage).collect(),
            calls: launches.iter().enumerate().map(call).collect(),
            wait: wait.map(Nanos),
        }
    }

    fn told(trace: &Trace) -> Vec<(&str, f64, f64, Option<u32>)> {
        trace.spans.iter().map(|s| (s.name.as_str(), s.start.0, s.end.0, s.correlation)).collect()
    }

    const TWO: [(&str, f64, f64); 2] = [("a", 100.0, 110.0), ("b", 115.0, 130.0)];

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

    /// CUPTI counts from long ago.
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
            // The execution before.
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

    /// A graph of two kernels, a copy, a fill and calls of a library: one call, one number.
    fn graph(libraries: usize) -> Submission {
        let told = |label: &'static str, kind, bytes: Option<u64>, symbol| Told {
            label: label.into(),
            kind,
            bytes: bytes.map(Bytes),
            symbol,
        };
        let mut stages = vec![
            told("first half", SpanKind::Kernel, None, Some("half")),
            told("upload", SpanKind::Memcpy, Some(64), None),
            told("second half", SpanKind::Kernel, None, Some("half")),
            told("zeros", SpanKind::Memset, Some(8), None),
        ];
        stages.extend((0..libraries).map(|_| told("product", SpanKind::Kernel, None, None)));
        let (name, stages_of_it) = ("cuGraphLaunch", 0..stages.len());
        let call = Call { name, begin: Nanos(100.0), end: Nanos(110.0), stack: None, stages: stages_of_it };
        Submission { stages, calls: vec![call], wait: [110.0, 900.0].map(Nanos) }
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
    fn without_cupti_a_graph_is_one_span_and_streams_are_numbered_if_there_are_several() {
        let trace = from_events(&graph(0), &[[5.0, 45.0].map(Nanos)], &[None]);
        assert_eq!(told(&trace)[2..], [("graph of 4 stages", 860.0, 900.0, Some(1))]);
        let times = [[0.0, 50.0], [20.0, 80.0]].map(|t| t.map(Nanos));
        let trace = from_events(&submission(&TWO, [130.0, 200.0]), &times, &[Some(1), Some(0)]);
        assert_eq!(told(&trace)[3..], [("a", 120.0, 170.0, Some(1)), ("b", 140.0, 200.0, Some(2))]);
        assert_eq!(trace.spans[3..].iter().map(|span| span.stream).collect::<Vec<_>>(), [Some(1), Some(0)]);
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

    #[test]
    fn the_narrowest_bracket_aligns_the_clocks() {
        // The host clock moves by 10 at every reading, once by 2.
        let readings = std::cell::Cell::new(0u32);
        let host = || {
            readings.set(readings.get() + 1);
            Nanos(if readings.get() == 6 { 52.0 } else { f64::from(readings.get()) * 10.0 })
        };
        let aligned = Alignment::measure(host, || Some(EPOCH)).expect("both clocks answer");
        assert_eq!((aligned.host, aligned.error), (Nanos(51.0), Nanos(1.0)));
        assert_eq!(aligned.to_host(EPOCH + 9), Nanos(60.0));
        assert_eq!(aligned.to_host(EPOCH - 1), Nanos(50.0));
        assert!(Alignment::measure(|| Nanos(0.0), || None).is_none());
    }
}
