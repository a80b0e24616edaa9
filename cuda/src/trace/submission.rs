//! Submission of an execution under observation: the host's part of a trace.

use std::borrow::Cow;
use std::ops::Range;

use parallax_ir::device::BackendError;
use parallax_ir::device::stack::Stack;
use parallax_schema::device::{Launching, Span, SpanKind, Track};
use parallax_schema::units::{Bytes, Nanos};

use crate::driver::CudaStream;
use crate::launch::BoundStage;
use crate::prepared::PreparedCase;

/// Label, kind and identification of a stage.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) label: Cow<'static, str>,
    pub(super) kind: SpanKind,
    pub(super) bytes: Option<Bytes>,
    /// Name of a kernel of this suite in the driver; a library's kernels have their own names.
    pub(super) symbol: Option<&'static str>,
}

/// A call on the host clock, and the stages that it submits.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
    pub(super) stack: Option<Stack>,
    pub(super) stages: Range<usize>,
}

/// The host's part of an execution.
pub(super) struct Submission {
    pub(super) stages: Vec<Told>,
    pub(super) calls: Vec<Call>,
    /// Begin and end of the wait for the device.
    pub(super) wait: [Nanos; 2],
}

/// Action on a stream before or after a call. The first argument is the number of the call.
pub(super) type Around<'a> = &'a mut dyn FnMut(usize, &CudaStream) -> Result<(), BackendError>;

/// Submits the stages as the case does, and waits. `now` reads the clock; `before` and `after` run around each call.
pub(super) fn submit(
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
    // CUPTI may not separate the stages of a graph made before the recording, so this graph is new.
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
    // Wait also after a failed launch: no work may be in flight when the buffers are dropped.
    let waited = case.wait();
    let done = now();
    launched.and(waited)?;
    let described = |step: &BoundStage| {
        let (kind, bytes) = step.kind();
        Told { label: step.label.clone(), kind, bytes, symbol: step.symbol() }
    };
    Ok(Submission { stages: steps.iter().map(described).collect(), calls, wait: [wait, done] })
}

/// Returns the number that joins a call and its work. It counts from one, in order of the calls.
fn correlation(call: usize) -> Option<u32> {
    u32::try_from(call + 1).ok()
}

pub(super) fn host_spans(submission: &Submission) -> Vec<Span> {
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

pub(super) fn device_span(told: &Told, call: usize, [start, end]: [Nanos; 2]) -> Span {
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

/// Submissions for tests.
#[cfg(test)]
pub(super) mod made {
    use parallax_schema::device::Trace;

    use super::*;

    pub(in crate::trace) fn submission(launches: &[(&'static str, f64, f64)], wait: [f64; 2]) -> Submission {
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

    pub(in crate::trace) fn told(trace: &Trace) -> Vec<(&str, f64, f64, Option<u32>)> {
        trace.spans.iter().map(|s| (s.name.as_str(), s.start.0, s.end.0, s.correlation)).collect()
    }

    pub(in crate::trace) const TWO: [(&str, f64, f64); 2] = [("a", 100.0, 110.0), ("b", 115.0, 130.0)];

    /// A graph of two kernels, a copy, a fill and library calls: one call, one number.
    pub(in crate::trace) fn graph(libraries: usize) -> Submission {
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
}
