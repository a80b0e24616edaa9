//! A run as a trace in the format of PyTorch's profiler (Kineto's), so that its viewers and scripts work on it.
//!
//! The host is a process with one thread. Its slices, from the outside in:
//!
//! - a case, once for each stretch of time spent on it;
//! - the phases of the case;
//! - one `ProfilerStep#N` for each kept execution, in the phase `trace`;
//! - the operator (`cpu_op`);
//! - its calls into the interface (`cuda_runtime`, or `cuda_driver` for calls of CUDA's driver).
//!
//! Each device is a process, and each of its streams a thread (a lane). Work on a stream without a number (WebGPU's queue) is
//! shown on stream 7, CUDA's default. A mark with the name of the component surrounds its work (`gpu_user_annotation`).
//! A call and the device work that it launched have one `correlation`, unique in the file, and an arrow joins them (`ac2g`).
//! Times are microseconds since the profiler was opened, with three decimals.
//!
//! Slices of one thread always nest or follow each other. Where clocks disagree, device work is moved back as a whole on all
//! lanes, so that work on different streams still overlaps. `moved_ns` gives the distance, and durations stay. Host calls are cut
//! to their phase.
//!
//! [`Layout`] makes the events of one record at a time, so that the file is written during the run. [`text`] makes the whole file
//! of a complete run.
//! The format is the Trace Event Format, which Perfetto and chrome://tracing read. Names of arguments and categories are those of
//! `torch.profiler`'s `export_chrome_trace`.

mod args;
mod axis;
mod counters;
pub mod diff;
mod event;
mod execution;
mod file;
mod lanes;
mod layout;
pub mod stages;

pub use event::Event;
pub use file::{line, opening, text};
pub use layout::Layout;

use parallax_schema::device::{Span, SpanKind, Track};
use parallax_schema::record::Record;

/// Process of the host: a number beyond the ordinals of devices.
pub const HOST: u32 = 1000;
/// Thread of the host.
pub const HOST_THREAD: u32 = 1;
/// Process of the first device. A device's process is its ordinal, as in Kineto.
pub const DEVICE: u32 = 0;
/// Thread of device work on a stream without a number.
pub const STREAM: u32 = 7;

/// Returns the approximate bytes of the trace of a record, before any compression.
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
