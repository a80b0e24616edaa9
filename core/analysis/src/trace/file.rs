//! JSON of a file, in pieces: an opening, a line for each event, a closing.

use std::convert::Infallible;

use parallax_schema::catalog::Catalog;
use parallax_schema::record::Run;
use serde_json::{Map, Value, json};

use crate::trace::args;
use crate::trace::event::Event;
use crate::trace::layout::Layout;

/// Returns everything before the first record, of a run that has begun. Lines follow, then [`Layout::closing`].
pub fn opening(run: &Run) -> String {
    let spec = &run.spec;
    let mut head = args::map([
        ("schemaVersion", json!(1)),
        ("displayTimeUnit", json!("ns")),
        ("deviceProperties", json!([args::properties(run.device())])),
        ("distributedInfo", json!({ "rank": 0, "world_size": 1 })),
    ]);
    // PyTorch's profiler names the enabled options and omits the rest.
    for (name, on) in [
        ("record_shapes", spec.record_shapes),
        ("profile_memory", spec.profile_memory),
        ("with_stack", spec.with_stack),
    ] {
        if on {
            head.insert(name.to_owned(), json!(1));
        }
    }
    // Scripts search for the rank with a space before the number, so this part is not compact.
    let head = serde_json::to_string_pretty(&Value::Object(head)).expect("values are JSON");
    let head = head.trim_end_matches(['}', '\n']);
    let names: Vec<String> = Layout::names(run).iter().map(json_of).collect();
    format!("{head},\n  \"traceEvents\": [\n{}", names.join(",\n"))
}

/// Returns the line of one more event.
pub fn line(event: &Event) -> String {
    format!(",\n{}", json_of(event))
}

fn json_of(event: &Event) -> String {
    serde_json::to_string(event).expect("values are JSON")
}

impl Layout {
    /// Returns everything after the last event.
    pub fn closing(&self, run: &Run) -> String {
        let other: Map<String, Value> = args::map([
            ("suite", json!(run.suite.version)),
            ("commit", json!(run.suite.commit)),
            ("target", json!(run.target)),
            ("device", json!(run.device().name)),
            ("api", json!(run.device().api)),
            ("driver", json!(run.device().driver)),
            ("started", json!(run.started)),
            ("clock", json!(run.clock.clock.label())),
            ("clock_step_ns", json!(run.clock.step)),
            ("schedule", json!(run.spec.schedule.to_string())),
            ("device_spans_from", json!(self.sources().join(", "))),
            ("alignment_error_ns", json!(self.alignment_error())),
            ("interrupted", json!(run.interrupted)),
        ]);
        let other = serde_json::to_string(&other).expect("values are JSON");
        format!("\n  ],\n  \"otherData\": {other}\n}}\n")
    }
}

/// Returns the whole file of a run.
pub fn text(run: &Run, catalog: &dyn Catalog) -> String {
    let mut layout = Layout::of(run);
    let mut text = opening(run);
    let mut emit = |event: Event| -> Result<(), Infallible> {
        text.push_str(&line(&event));
        Ok(())
    };
    let all = run.records.iter().try_for_each(|record| layout.record(record, catalog, &mut emit));
    let Ok(()) = all.and_then(|()| layout.end(run, &mut emit));
    text.push_str(&layout.closing(run));
    text
}
