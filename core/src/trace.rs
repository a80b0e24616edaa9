//! A run as a Chrome trace, with one layout for every target.
//!
//! One process per run; thread 1 is the host, thread 2 the device. On the host track each case is a span that holds its
//! phases (prepare, check, sample, trace, recheck), and the traced execution's submissions lie inside `trace`; the device
//! track has one span per stage. Flow arrows lead from a submission to its first stage. Times are microseconds with
//! fractions since the profiler was opened. The format is the Trace Event Format that Perfetto and chrome://tracing read.

use serde_json::{Value, json};

use crate::profiler::{Span, Track};
use crate::record::{Measured, Record, Run};
use crate::units::Nanos;

const PID: u32 = 1;
const HOST: u32 = 1;
const GPU: u32 = 2;

/// The trace of a run.
pub fn chrome(run: &Run) -> Value {
    let mut events = vec![
        name("process_name", HOST, &format!("parallax {} · {}", run.target, run.device.name)),
        name("thread_name", HOST, "host"),
        name("thread_name", GPU, "gpu"),
    ];
    let mut flow = 0;
    for record in &run.records {
        if let Some(measured) = record.measured() {
            case(record, measured, &mut flow, &mut events);
        }
    }
    json!({
        "displayTimeUnit": "ns",
        "otherData": {
            "suite": run.suite.version,
            "commit": run.suite.commit,
            "target": run.target,
            "device": run.device.name,
            "clock": run.clock.clock.label(),
        },
        "traceEvents": events,
    })
}

fn name(what: &str, thread: u32, name: &str) -> Value {
    json!({"ph": "M", "pid": PID, "tid": thread, "name": what, "args": {"name": name}})
}

fn micros(time: Nanos) -> f64 {
    time.0 / 1e3
}

fn complete(thread: u32, category: &str, name: &str, start: Nanos, end: Nanos, args: Value) -> Value {
    json!({
        "ph": "X", "pid": PID, "tid": thread, "cat": category, "name": name,
        "ts": micros(start), "dur": micros(end - start), "args": args,
    })
}

fn case(record: &Record, measured: &Measured, flow: &mut u32, events: &mut Vec<Value>) {
    let (Some(first), Some(last)) = (measured.phases.first(), measured.phases.last()) else { return };
    let args = json!({
        "shape": record.parts.shape,
        "options": record.parts.options,
        "dtype": record.parts.dtype,
        "variant": record.actual.as_ref().map_or(&record.parts.variant, |a| &a.variant),
        "flops": record.cost.flops,
        "bytes": record.cost.moved(),
        "median_ns": measured.timing.as_ref().map(|t| t.summary.median),
        "alignment_error_ns": measured.trace.as_ref().and_then(|t| t.alignment_error),
    });
    events.push(complete(HOST, "case", &record.case, first.start, last.end, args.clone()));
    for phase in &measured.phases {
        events.push(complete(HOST, "phase", &phase.name, phase.start, phase.end, json!({})));
    }
    for (time, bytes) in [(first.end, measured.memory.peak.0), (last.end, 0)] {
        events.push(json!({
            "ph": "C", "pid": PID, "name": "device memory", "ts": micros(time), "args": {"bytes": bytes},
        }));
    }
    let spans = measured.trace.iter().flat_map(|t| &t.spans);
    for span in spans.clone() {
        let (thread, category) = match span.track {
            Track::Host => (HOST, "host"),
            Track::Gpu => (GPU, "kernel"),
        };
        let args = match span.track {
            Track::Host => json!({"correlation": span.correlation}),
            Track::Gpu => {
                let mut all = args.clone();
                all["correlation"] = json!(span.correlation);
                all["case"] = json!(record.case);
                all
            }
        };
        events.push(complete(thread, category, &span.name, span.start, span.end, args));
    }
    // One arrow per submission: from the host span that handed the work over to the first stage with its number.
    let submits = |span: &&Span| span.track == Track::Host && span.name.contains("submit") || span.name == "call";
    for submit in spans.clone().filter(submits) {
        let Some(stage) = spans.clone().find(|s| s.track == Track::Gpu && s.correlation == submit.correlation) else {
            continue;
        };
        *flow += 1;
        let end = |ph: &str, thread: u32, time: Nanos| {
            json!({
                "ph": ph, "pid": PID, "tid": thread, "cat": "flow", "name": "launch", "id": *flow,
                "ts": micros(time), "bp": "e",
            })
        };
        events.push(end("s", HOST, submit.start));
        events.push(end("f", GPU, stage.start));
    }
}
