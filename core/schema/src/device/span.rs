//! One execution in detail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::columnar::Columns;
use crate::device::{columnar, rounding};
use crate::units::{Bytes, Nanos};

/// Location of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    /// Host: encoding, submission, waiting.
    #[default]
    Host,
    /// Device.
    Gpu,
}

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// Kernel on the device.
    #[default]
    Kernel,
    /// Call into the interface: encode, submit, launch.
    Runtime,
    /// Wait for the device.
    Wait,
    /// Copy on the device, or to or from it.
    Memcpy,
    /// Fill on the device.
    Memset,
    /// Mark around other spans, such as one iteration of the schedule.
    Annotation,
}

/// One interval of a traced execution, in nanoseconds since the profiler was opened.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Span {
    /// Label of the stage, or name of the host's action.
    pub name: String,
    /// Name from the driver, if other than `name`: the kernel that a library chose, or the direction of a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Kind of the span.
    pub kind: SpanKind,
    /// Location of the span.
    pub track: Track,
    /// Index of the run's device, for spans of the device.
    #[serde(skip_serializing_if = "is_first")]
    pub device: u32,
    /// Stream (queue) of the device, in the interface's own numbers; absent on a device with only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
    /// Start on the host clock, rounded to the nanosecond.
    #[serde(serialize_with = "rounding::whole_time")]
    pub start: Nanos,
    /// End on the host clock, rounded to the nanosecond.
    #[serde(serialize_with = "rounding::whole_time")]
    pub end: Nanos,
    /// Number that joins the host span of a submission with the device spans of its work.
    pub correlation: Option<u32>,
    /// Bytes moved, for copies and fills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Call stack of the host at this point, innermost frame first, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

fn is_first(device: &u32) -> bool {
    *device == 0
}

/// Source of device spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceSource {
    /// Activity records of CUPTI: begin and end of each kernel, measured by the hardware.
    Cupti,
    /// Events between kernels: a span includes the gap before its kernel.
    Events,
    /// Timestamps at pass boundaries, one pass per kernel.
    Timestamps,
    /// The host's clock around each kernel.
    Host,
}

/// Trace of one execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Spans of host and device. Spans of one stream of one device do not overlap; those of different streams may.
    #[serde(with = "columnar")]
    #[schemars(with = "Columns")]
    pub spans: Vec<Span>,
    /// Largest possible shift of the device track against the host track.
    pub alignment_error: Option<Nanos>,
    /// Source of the device spans.
    #[serde(default)]
    pub source: Option<TraceSource>,
}
