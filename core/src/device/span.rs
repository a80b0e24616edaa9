//! One execution in detail.

use crate::device::columns::{self, Columns};
use crate::device::digits;
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a span ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    /// The host: encoding, submission, waiting.
    #[default]
    Host,
    /// The device.
    Gpu,
}

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// A kernel on the device.
    #[default]
    Kernel,
    /// A call into the interface: encode, submit, launch.
    Runtime,
    /// Waiting for the device.
    Wait,
    /// A copy on the device, or to or from it.
    Memcpy,
    /// A fill on the device.
    Memset,
    /// A mark around others, such as one iteration of the schedule.
    Annotation,
}

/// One interval of a traced execution, in nanoseconds since the profiler was opened.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Span {
    /// What ran: the stage's label, or what the host did.
    pub name: String,
    /// The driver's name, where it is another than `name`: which kernel a library chose to run, or which way a copy went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// What it is.
    pub kind: SpanKind,
    /// Where it ran.
    pub track: Track,
    /// Which device of the run, for spans of the device.
    #[serde(skip_serializing_if = "is_first")]
    pub device: u32,
    /// Which of the device's streams (queues), in the interface's own numbers; absent where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
    /// Begin, on the host clock; to the nanosecond.
    #[serde(serialize_with = "digits::whole_time")]
    pub start: Nanos,
    /// End, on the host clock; to the nanosecond.
    #[serde(serialize_with = "digits::whole_time")]
    pub end: Nanos,
    /// Joins the host span that submitted work with the device spans that carried it out.
    pub correlation: Option<u32>,
    /// Bytes moved, for copies and fills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// The host's call stack at this point, innermost frame first, where it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

fn is_first(device: &u32) -> bool {
    *device == 0
}

/// Where device spans come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceSource {
    /// Activity records of CUPTI: begin and end of each kernel as the hardware saw them.
    Cupti,
    /// Events between kernels: a span includes the gap before its kernel.
    Events,
    /// Timestamps at pass boundaries, one pass per kernel.
    Timestamps,
    /// The host's clock around each kernel.
    Host,
}

/// One execution in detail.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Host and device spans. Spans of one stream of one device do not overlap; those of different streams may.
    #[serde(with = "columns")]
    #[schemars(with = "Columns")]
    pub spans: Vec<Span>,
    /// How far the device track may be shifted against the host track.
    pub alignment_error: Option<Nanos>,
    /// Where the device spans come from.
    #[serde(default)]
    pub source: Option<TraceSource>,
}
