//! Arguments of events, under Kineto's names.

use parallax_schema::case::Storage;
use parallax_schema::catalog::Catalog;
use parallax_schema::device::{Caps, DeviceInfo, Dialect, Launch, TraceSource};
use parallax_schema::record::{Measured, Record};
use parallax_schema::units::{Bytes, Nanos};
use serde_json::{Map, Value, json};

use crate::trace::DEVICE;
use crate::trace::event::Thread;

/// Threads of a warp on every CUDA device so far.
const WARP: f64 = 32.0;

/// Returns pairs as a map.
pub(super) fn map<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the name of a source of device spans.
pub(super) fn source(source: TraceSource) -> &'static str {
    match source {
        TraceSource::Cupti => "cupti",
        TraceSource::Events => "events",
        TraceSource::Timestamps => "timestamps",
        TraceSource::Host => "host",
    }
}

/// Returns the arguments of a case.
pub(super) fn case(record: &Record, measured: &Measured, shapes: bool) -> Map<String, Value> {
    let mut args = map([
        ("dtype", json!(record.parts.dtype)),
        ("variant", json!(record.actual.as_ref().map_or(&record.parts.variant, |a| &a.variant))),
        ("flops", json!(record.cost.flops)),
        ("bytes", json!(record.cost.moved())),
        ("median_ns", json!(measured.timing.as_ref().map(|t| t.summary.median))),
    ]);
    if let (Some(items), Some(timing)) = (&record.items, &measured.timing) {
        args.insert(items.name.clone(), json!(items.count));
        args.insert(format!("{}/s", items.name), json!(items.per_second(timing.summary.median)));
    }
    if shapes {
        args.insert("shape".to_owned(), json!(record.parts.shape));
        args.insert("options".to_owned(), json!(record.parts.options));
    }
    if let Some(trace) = &measured.trace {
        args.insert("device_spans_from".to_owned(), json!(trace.source.map(source)));
        args.insert("alignment_error_ns".to_owned(), json!(trace.alignment_error));
    }
    args
}

/// Returns extents and types of the inputs under the names of PyTorch's profiler. Empty for a case that this version does not
/// know.
pub(super) fn inputs(record: &Record, catalog: &dyn Catalog) -> Map<String, Value> {
    let Some(facts) = catalog.case(&record.case) else { return Map::new() };
    let name = |storage| match storage {
        Storage::F32 => "float",
        Storage::F16 => "c10::Half",
        Storage::BF16 => "c10::BFloat16",
        Storage::U32 => "unsigned int",
    };
    map([
        ("Input Dims", facts.inputs.iter().map(|input| json!(input.dims)).collect()),
        ("Input type", facts.inputs.iter().map(|input| json!(name(input.storage))).collect()),
    ])
}

/// Returns the common arguments of events on the device.
pub(super) fn device(external: u64, correlation: u64, (device, stream): Thread) -> Map<String, Value> {
    map([
        ("External id", json!(external)),
        ("device", json!(device)),
        ("context", json!(1)),
        ("stream", json!(stream)),
        ("correlation", json!(correlation)),
    ])
}

/// Returns the arguments of a kernel's launch.
pub(super) fn launch(launch: &Launch, caps: &Caps) -> Map<String, Value> {
    let mut args =
        map([("grid", json!(launch.grid)), ("block", json!(launch.block)), ("shared memory", json!(launch.shared))]);
    let mut known = |key: &str, value: Option<Value>| args.extend(value.map(|v| (key.to_owned(), v)));
    known("registers per thread", launch.registers.map(|r| json!(r)));
    known("spilled bytes per thread", launch.spilled.map(|s| json!(s)));
    known("est. achieved occupancy %", launch.occupancy.map(|o| json!((o * 100.0).round() as u32)));
    if let (Dialect::Cuda, Some(units)) = (caps.dialect, caps.compute_units.filter(|u| *u > 0)) {
        let product = |extents: [u32; 3]| extents.iter().map(|e| f64::from(*e)).product::<f64>();
        let blocks = product(launch.grid) / f64::from(units);
        let warps = blocks * (product(launch.block) / WARP).ceil();
        known("blocks per SM", Some(json!(blocks)));
        known("warps per SM", Some(json!(warps)));
    }
    args
}

/// Returns the arguments of a copy or a fill.
pub(super) fn moved(bytes: Option<Bytes>, time: Nanos) -> Map<String, Value> {
    let Some(bytes) = bytes else { return Map::new() };
    let mut args = map([("bytes", json!(bytes))]);
    if time.0 > 0.0 {
        args.insert("memory bandwidth (GB/s)".to_owned(), json!(bytes.per(time) / 1e9));
    }
    args
}

/// Returns the known properties of the device.
pub(super) fn properties(device: &DeviceInfo) -> Map<String, Value> {
    let caps = &device.caps;
    let mut args = map([("id", json!(DEVICE)), ("name", json!(device.name))]);
    let mut known = |key: &str, value: Option<Value>| args.extend(value.map(|v| (key.to_owned(), v)));
    known("totalGlobalMem", caps.memory.map(|m| json!(m)));
    known("computeMajor", caps.compute_capability.map(|(major, _)| json!(major)));
    known("computeMinor", caps.compute_capability.map(|(_, minor)| json!(minor)));
    known("maxThreadsPerBlock", Some(json!(caps.max_invocations)));
    known("warpSize", caps.subgroup.filter(|(least, most)| least == most).map(|(size, _)| json!(size)));
    known("sharedMemPerBlock", Some(json!(caps.shared_bytes)));
    known("numSms", caps.compute_units.map(|u| json!(u)));
    args
}
