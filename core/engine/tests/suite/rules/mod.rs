//! Rules of viewers and scripts for a trace, checked without them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The events of a trace.
pub fn events(trace: &Value) -> &[Value] {
    trace["traceEvents"].as_array().expect("events")
}

fn slices(trace: &Value) -> impl Iterator<Item = &Value> {
    events(trace).iter().filter(|e| e["ph"] == "X")
}

/// Start and end in whole nanoseconds, as Perfetto reads them.
fn extent(slice: &Value) -> (i64, i64) {
    let nanos = |key: &str| (slice[key].as_f64().expect("a time") * 1e3).round() as i64;
    let (start, length) = (nanos("ts"), nanos("dur"));
    assert!(length >= 0, "{slice}");
    (start, start + length)
}

/// Perfetto: slices of one thread nest or follow each other, in whatever order they were written. Gives how many threads
/// there are with slices.
pub fn slices_nest(trace: &Value) -> usize {
    let mut threads: BTreeMap<(u64, u64), Vec<&Value>> = BTreeMap::new();
    for slice in slices(trace) {
        let thread = (slice["pid"].as_u64().expect("a process"), slice["tid"].as_u64().expect("a thread"));
        threads.entry(thread).or_default().push(slice);
    }
    for (thread, list) in &mut threads {
        list.sort_by_key(|s| (extent(s).0, std::cmp::Reverse(extent(s).1)));
        let mut open: Vec<&Value> = Vec::new();
        for slice in &*list {
            let (start, end) = extent(slice);
            open.retain(|outer| extent(outer).1 > start);
            for outer in &open {
                assert!(end <= extent(outer).1, "on {thread:?} {slice} leaves {outer}");
            }
            open.push(slice);
        }
    }
    threads.len()
}

/// Arrows have one beginning and one end each, in slices that begin there.
pub fn arrows_have_both_ends(trace: &Value) -> usize {
    let ends = |phase: &str| -> BTreeSet<u64> {
        let list: Vec<&Value> = events(trace).iter().filter(|e| e["ph"] == phase).collect();
        for end in &list {
            let at = |s: &&Value| s["pid"] == end["pid"] && s["tid"] == end["tid"] && s["ts"] == end["ts"];
            assert!(slices(trace).any(|s| at(&s) && s["args"]["correlation"] == end["id"]), "{end} hangs in the air");
        }
        let ids: BTreeSet<u64> = list.iter().map(|e| e["id"].as_u64().expect("a number")).collect();
        assert_eq!(ids.len(), list.len(), "an arrow for each number");
        ids
    };
    assert_eq!(ends("s"), ends("f"));
    ends("s").len()
}

/// HolisticTraceAnalysis treats slices with a `stream` and a `correlation` as the device's. It joins each to the one slice
/// without `stream` of the same number, and finds the step by its time. From the
/// device's slices it computes busy and idle shares, which must add up. Gives the number of kernels.
pub fn analysable(text: &str) -> usize {
    assert!(text.lines().any(|l| l.contains("\"rank\": 0")), "the rank, on a line, with a space");
    let trace: Value = serde_json::from_str(text).expect("JSON");
    let all: Vec<&Value> = slices(&trace).collect();
    assert!(all.iter().all(|s| s["cat"].is_string()), "slices without category are dropped");
    let (device, host): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|s| s["args"]["stream"].is_number());
    let steps: Vec<(i64, i64)> = host
        .iter()
        .filter(|s| s["name"].as_str().is_some_and(|n| n.starts_with("ProfilerStep#")))
        .map(|s| extent(s))
        .collect();
    let mut launches: BTreeMap<u64, &Value> = BTreeMap::new();
    for call in host.iter().filter(|s| s["args"]["correlation"].is_number()) {
        let number = call["args"]["correlation"].as_u64().expect("not negative");
        assert!(launches.insert(number, call).is_none(), "two calls with number {number}");
    }
    for slice in &device {
        assert!(["kernel", "gpu_memcpy", "gpu_memset"].contains(&slice["cat"].as_str().expect("text")), "{slice}");
        assert_eq!(slice["tid"], slice["args"]["stream"]);
        assert_eq!(slice["pid"], slice["args"]["device"]);
        let number = slice["args"]["correlation"].as_u64().expect("not negative");
        let launch = launches.get(&number).unwrap_or_else(|| panic!("no launch of {slice}"));
        assert!(["cuda_runtime", "cuda_driver"].contains(&launch["cat"].as_str().expect("text")), "{launch}");
        let at = extent(launch).0;
        assert!(steps.iter().any(|(start, end)| (*start..=*end).contains(&at)), "{launch} lies in no step");
    }
    // A device is busy while any of its streams is.
    let mut extents: Vec<(i64, i64)> = device.iter().map(|s| extent(s)).collect();
    extents.sort_unstable();
    let (mut busy, mut until) = (0, i64::MIN);
    for (start, end) in &extents {
        busy += (end - (*start).max(until)).max(0);
        until = until.max(*end);
    }
    let all = until - extents.first().expect("work").0;
    assert!(0 < busy && busy <= all, "busy for {busy} ns of {all}");
    device.iter().filter(|s| s["cat"] == "kernel").count()
}
