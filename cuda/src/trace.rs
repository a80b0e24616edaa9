//! One execution in detail: what the host called, what the device ran, and which call made which kernel run.

use std::borrow::Cow;
use std::collections::HashMap;

use parallax_core::device::{BackendError, Span, SpanKind, Trace, TraceSource, Track};
use parallax_core::units::{Bytes, Nanos};

use crate::cupti::{Activity, Recording, What};
use crate::events::{elapsed, event};
use crate::prepared::PreparedCase;
use parallax_core::device::stack::Stack;

/// Run the case once and look. Kernels come from CUPTI where it works, else from events.
pub(crate) fn trace(case: &mut PreparedCase, stacks: bool) -> Result<Trace, BackendError> {
    match by_cupti(case, stacks)? {
        Some(trace) => Ok(trace),
        None => by_events(case, stacks),
    }
}

/// One launch as the host saw it, on the host clock.
struct Launched {
    label: Cow<'static, str>,
    kind: SpanKind,
    bytes: Option<Bytes>,
    call: &'static str,
    begin: Nanos,
    end: Nanos,
    stack: Option<Stack>,
}

/// The host's side of an execution.
struct Submission {
    launches: Vec<Launched>,
    /// Begin and end of waiting for the device.
    wait: [Nanos; 2],
}

/// Launch the stages one by one and wait. `now` reads the clock; `after` is called behind each launch.
fn submit(
    case: &mut PreparedCase,
    stacks: bool,
    now: impl Fn() -> Nanos,
    mut after: impl FnMut(&PreparedCase, usize) -> Result<(), BackendError>,
) -> Result<Submission, BackendError> {
    let set = case.advance();
    let mut launches = Vec::new();
    let launched = case.steps(set).iter().enumerate().try_for_each(|(i, step)| {
        let stack = stacks.then(Stack::capture);
        let begin = now();
        step.launch(&case.stream)?;
        let end = now();
        let (kind, bytes) = step.kind();
        launches.push(Launched { label: step.label.clone(), kind, bytes, call: step.call(), begin, end, stack });
        after(case, i)
    });
    let wait = now();
    // Wait also after a failed launch: nothing may be in flight when the buffers are dropped.
    let waited = case.wait();
    let done = now();
    launched.and(waited)?;
    Ok(Submission { launches, wait: [wait, done] })
}

/// `None` where CUPTI is missing, refuses, or tells a story with holes.
fn by_cupti(case: &mut PreparedCase, stacks: bool) -> Result<Option<Trace>, BackendError> {
    let Some(recording) = Recording::begin() else { return Ok(None) };
    let Some(aligned) = Alignment::measure(|| case.now(), || recording.now()) else { return Ok(None) };
    let now = || recording.now().map_or(Nanos(f64::NAN), |now| aligned.to_host(now));
    // CUPTI prepares for a kernel when it first sees it; the second execution is like any other.
    submit(case, false, now, |_, _| Ok(()))?;
    let submission = submit(case, stacks, now, |_, _| Ok(()))?;
    let Some(activities) = recording.finish() else { return Ok(None) };
    Ok(from_activities(&submission, &activities, aligned))
}

/// Stages are timed by events between them, so that a stage's span includes the gap before its start.
fn by_events(case: &mut PreparedCase, stacks: bool) -> Result<Trace, BackendError> {
    let marks = (0..=case.steps(0).len()).map(|_| event(&case.context)).collect::<Result<Vec<_>, _>>()?;
    let opened = case.opened;
    case.record(&marks[0])?;
    let submission = submit(case, stacks, || crate::events::since(opened), |case, i| case.record(&marks[i + 1]))?;
    let times = marks.iter().map(|mark| elapsed(&marks[0], mark)).collect::<Result<Vec<_>, _>>()?;
    Ok(from_events(&submission, &times))
}

/// Numbers that join launches and kernels count from one, in order of the launches.
fn correlation(launch: usize) -> Option<u32> {
    u32::try_from(launch + 1).ok()
}

fn host_spans(submission: &Submission) -> Vec<Span> {
    let launch = |(i, launched): (usize, &Launched)| Span {
        name: launched.call.to_owned(),
        kind: SpanKind::Runtime,
        track: Track::Host,
        start: launched.begin,
        end: launched.end,
        correlation: correlation(i),
        stack: launched.stack.as_ref().map(Stack::names).unwrap_or_default(),
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
    submission.launches.iter().enumerate().map(launch).chain([wait]).collect()
}

fn device_span(submission: &Submission, launch: usize, [start, end]: [Nanos; 2]) -> Span {
    let Launched { label, kind, bytes, .. } = &submission.launches[launch];
    Span {
        name: label.to_string(),
        kind: *kind,
        bytes: *bytes,
        track: Track::Gpu,
        start,
        end,
        correlation: correlation(launch),
        ..Span::default()
    }
}

/// What a record of CUPTI's tells beside its times.
fn activity_span(submission: &Submission, launch: usize, activity: &Activity, times: [Nanos; 2]) -> Span {
    let span = device_span(submission, launch, times);
    Span {
        symbol: activity.name.clone().filter(|symbol| *symbol != span.name),
        kind: match activity.what {
            What::Copy => SpanKind::Memcpy,
            What::Fill => SpanKind::Memset,
            What::Kernel | What::Call => SpanKind::Kernel,
        },
        device: activity.device,
        stream: Some(activity.stream),
        bytes: activity.bytes.map(Bytes),
        ..span
    }
}

/// `times` are the marks around the stages, from the first mark on.
///
/// The events' clock has no common zero with the host's. The device's work lies somewhere between the begin of the
/// submission and the end of the wait; the track is laid so that it ends with the wait, the latest that it can have
/// been, and the room that remains at the front is stated as the alignment error.
fn from_events(submission: &Submission, times: &[Nanos]) -> Trace {
    let [wait, done] = submission.wait;
    let begin = submission.launches.first().map_or(wait, |launch| launch.begin);
    let busy = times.last().copied().unwrap_or_default();
    let room = done - begin - busy;
    // Two clocks may disagree by more than the room that there is; then the track begins with the submission.
    let zero = if room.0 < 0.0 { begin } else { done - busy };
    let mut spans = host_spans(submission);
    let stages = times.windows(2).enumerate();
    spans.extend(stages.map(|(i, mark)| device_span(submission, i, [zero + mark[0], zero + mark[1]])));
    Trace { spans, alignment_error: Some(Nanos(room.0.abs())), source: Some(TraceSource::Events) }
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

/// The kernels, copies and fills of the execution, each joined to the launch that called for it. `None` when that cannot be
/// told, or when a launch has no work of its own: half a story would be taken for a whole one.
fn from_activities(submission: &Submission, activities: &[Activity], aligned: Alignment) -> Option<Trace> {
    let begin = submission.launches.first()?.begin;
    let on_host = |activity: &Activity| [aligned.to_host(activity.start), aligned.to_host(activity.end)];
    // The execution before this one is in the records too; the stream was empty between them.
    let of = |calls: bool| {
        let wanted = move |activity: &&Activity| (activity.what == What::Call) == calls;
        activities.iter().filter(wanted).filter(|activity| on_host(activity)[0].0 >= begin.0)
    };
    let mut works: Vec<&Activity> = of(false).collect();
    if works.iter().any(|work| work.start == 0 || work.end < work.start) {
        return None;
    }
    works.sort_by_key(|work| work.start);
    // The launch whose span on the host holds the call that the work is correlated with.
    let launch_of = |work: &&Activity| {
        let call = of(true).find(|call| call.correlation == work.correlation)?;
        let [start, end] = on_host(call);
        submission.launches.iter().position(|launch| launch.begin.0 <= start.0 && end.0 <= launch.end.0)
    };
    let one_stream = || works.iter().all(|work| (work.device, work.stream) == (works[0].device, works[0].stream));
    let launches: Vec<usize> = match works.iter().map(launch_of).collect() {
        Some(launches) => launches,
        // One stream works in the order of the launches, so that as many works as launches need no records of calls.
        None if works.len() == submission.launches.len() && one_stream() => (0..works.len()).collect(),
        None => return None,
    };
    if (0..submission.launches.len()).any(|launch| !launches.contains(&launch)) {
        return None;
    }
    let mut spans = host_spans(submission);
    let mut free = HashMap::new();
    for (launch, work) in launches.into_iter().zip(works) {
        let [start, end] = on_host(work);
        // A kernel may be let in while the last blocks of the one before it still run; a stream shows one at a time.
        let free = free.entry((work.device, work.stream)).or_insert(start);
        let start = Nanos(start.0.max(free.0));
        *free = Nanos(end.0.max(start.0));
        spans.push(activity_span(submission, launch, work, [start, *free]));
    }
    Some(Trace { spans, alignment_error: Some(aligned.error), source: Some(TraceSource::Cupti) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(launches: &[(&'static str, f64, f64)], wait: [f64; 2]) -> Submission {
        let launched = |&(label, begin, end): &(&'static str, f64, f64)| Launched {
            label: label.into(),
            kind: SpanKind::Kernel,
            bytes: None,
            call: "cuLaunchKernel",
            begin: Nanos(begin),
            end: Nanos(end),
            stack: None,
        };
        Submission { launches: launches.iter().map(launched).collect(), wait: wait.map(Nanos) }
    }

    fn told(trace: &Trace) -> Vec<(&str, f64, f64, Option<u32>)> {
        trace.spans.iter().map(|s| (s.name.as_str(), s.start.0, s.end.0, s.correlation)).collect()
    }

    const TWO: [(&str, f64, f64); 2] = [("a", 100.0, 110.0), ("b", 115.0, 130.0)];

    #[test]
    fn the_device_track_ends_with_the_wait_and_states_the_room_before_it() {
        let trace = from_events(&submission(&TWO, [130.0, 200.0]), &[0.0, 30.0, 80.0].map(Nanos));
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
        let trace = from_events(&submission(&TWO[..1], [110.0, 200.0]), &[0.0, 130.0].map(Nanos));
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
