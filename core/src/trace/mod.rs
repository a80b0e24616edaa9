//! A run as a trace, in the form that PyTorch's profiler writes (Kineto's), so that its viewers and scripts work on it.
//!
//! The host is a process with one thread. On it lie, from the outside in: a case (once for each stretch of time that was
//! spent on it), its phases, in the phase `trace` one `ProfilerStep#N` for each kept execution, the operator (`cpu_op`),
//! and its calls into the interface (`cuda_runtime`, or `cuda_driver` for calls of CUDA's driver). Each device is a process
//! and each of its streams a thread of it, a lane; work whose stream has no number (WebGPU's queue) is shown on stream 7,
//! CUDA's default. Around work of one component lies a mark with its name (`gpu_user_annotation`). A call and the device work that it
//! launched carry one `correlation`, unique in the file, and an arrow leads from one to the other (`ac2g`). Times are
//! microseconds since the profiler was opened, with three digits of fraction.
//!
//! Slices of one thread nest or follow each other, always: where clocks disagree, device work is moved back as a whole,
//! all lanes together, so that what overlapped on different streams still does (`moved_ns` says how far, durations stay),
//! and host calls are cut to lie within their phase.
//!
//! [`Layout`] makes the events of one record at a time, so that a file can be written while the run goes on; [`text`]
//! makes the whole file of a run that is complete. The format is the Trace Event Format that Perfetto and
//! chrome://tracing read; names of arguments and categories are those of `torch.profiler`'s `export_chrome_trace`.

mod args;
mod axis;
mod counters;
mod event;
mod execution;
mod file;
mod lanes;
mod layout;

pub use event::Event;
pub use file::{line, opening, text};
pub use layout::Layout;

use crate::device::{Span, SpanKind, Track};
use crate::record::Record;

/// Process of the host: a number that no device's ordinal reaches.
pub const HOST: u32 = 1000;
/// Thread of the host.
pub const HOST_THREAD: u32 = 1;
/// Process of the first device. A device's process is its ordinal, as Kineto has it.
pub const DEVICE: u32 = 0;
/// Thread of device work whose stream has no number of its own.
pub const STREAM: u32 = 7;

/// About how many bytes of text the trace of a record takes, before any compression.
pub fn estimate(record: &Record) -> u64 {
    let spans = record.measured().and_then(|m| m.trace.as_ref()).map_or(&[][..], |t| &t.spans);
    let bytes = |span: &Span| match (span.track, span.kind) {
        // A step and its operator.
        (_, SpanKind::Annotation) => 360,
        // A call and one end of an arrow.
        (Track::Host, _) => 200 + span.stack.iter().map(|frame| frame.len() + 1).sum::<usize>(),
        // A kernel with its launch, and the other end.
        (Track::Gpu, _) => 420,
    };
    spans.iter().map(|span| bytes(span) as u64).sum()
}
