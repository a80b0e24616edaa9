//! Traces have the form that PyTorch's profiler gives them, and keep the rules of their readers.
//!
//! `./x bless` rewrites the example files in `tests/trace/`.

use parallax_workloads::Registry;
use std::collections::BTreeSet;
use std::path::PathBuf;

use parallax_analysis::trace::text;
use parallax_schema::device::{Span, SpanKind, Track};
use parallax_schema::record::{Outcome, Run};
use parallax_schema::units::{Bytes, Nanos};
use serde_json::{Value, json};

use crate::synthetic_runs::{KEPT, browser_run, cuda_run, overlapped_run};
use crate::{published, rules};

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&text(run, &Registry)).expect("JSON")
}

/// Events with a name, or a name that begins so.
fn named<'t>(trace: &'t Value, name: &str) -> Vec<&'t Value> {
    rules::events(trace).iter().filter(|e| e["name"].as_str().is_some_and(|n| n.starts_with(name))).collect()
}

fn spans(run: &mut Run, record: usize) -> &mut Vec<Span> {
    match &mut run.records[record].outcome {
        Outcome::Pass(measured) => &mut measured.trace.as_mut().expect("traced").spans,
        other => panic!("{other:?}"),
    }
}

fn device_spans(run: &Run) -> impl Iterator<Item = &Span> {
    let traces = run.records.iter().filter_map(|record| record.measured()?.trace.as_ref());
    traces.flat_map(|trace| &trace.spans).filter(|span| span.track == Track::Gpu)
}

fn keeps_the_rules(run: &Run, kernels: usize) {
    let trace = parsed(run);
    let streams: BTreeSet<_> = device_spans(run).map(|span| (span.device, span.stream)).collect();
    assert_eq!(rules::slices_nest(&trace), 1 + streams.len(), "the host, and every stream of the device");
    assert_eq!(rules::analysable(&text(run, &Registry)), kernels);
    assert!(rules::arrows_have_both_ends(&trace) > 0);
}

#[test]
fn example_files_keep_their_form_and_the_rules() {
    for (name, run) in [("cuda", cuda_run()), ("browser", browser_run()), ("overlap", overlapped_run())] {
        keeps_the_rules(&run, KEPT * 6);
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/trace/{name}.trace.json"));
        published::assert_is(&path, &text(&run, &Registry));
    }
}

/// Device times that overlap, between executions and within one, because the clocks' difference is known roughly.
#[test]
fn device_work_that_overlaps_moves_back_and_keeps_its_length() {
    let mut run = browser_run();
    let busy = |spans: &[Span]| -> f64 {
        spans.iter().filter(|s| s.track == Track::Gpu).map(|s| s.end.0.round() - s.start.0.round()).sum()
    };
    let mut before = 0.0;
    for record in 0..run.records.len() {
        for (i, span) in spans(&mut run, record).iter_mut().filter(|s| s.track == Track::Gpu).enumerate() {
            span.start = Nanos(span.start.0 - 1e6 * (i % 3) as f64);
            span.end = Nanos(span.end.0 + 1e6);
        }
        before += busy(spans(&mut run, record));
    }
    keeps_the_rules(&run, KEPT * 6);
    let trace = parsed(&run);
    let kernels: Vec<&Value> = rules::events(&trace).iter().filter(|e| e["cat"] == "kernel").collect();
    let after: f64 = kernels.iter().map(|k| k["dur"].as_f64().expect("number") * 1e3).sum();
    assert!((after - before).abs() < 1.0, "{after} ns of {before} ns");
    assert!(kernels.iter().any(|k| k["args"]["moved_ns"].as_f64().is_some_and(|ns| ns > 0.0)));
}

/// How long two lanes of a trace were busy at the same time, in nanoseconds.
fn beside(trace: &Value, one: u64, other: u64) -> f64 {
    let lane = |stream: u64| -> Vec<(f64, f64)> {
        let on = |e: &&Value| e["ph"] == "X" && e["args"]["stream"].as_u64() == Some(stream);
        let extent = |e: &Value| {
            let (at, length) = (e["ts"].as_f64().expect("a time"), e["dur"].as_f64().expect("a length"));
            (at, at + length)
        };
        rules::events(trace).iter().filter(on).map(extent).collect()
    };
    let (ones, others) = (lane(one), lane(other));
    let both = |a: &(f64, f64)| others.iter().map(|b| (a.1.min(b.1) - a.0.max(b.0)).max(0.0)).sum::<f64>();
    ones.iter().map(both).sum::<f64>() * 1e3
}

/// Two streams have a lane each, on which work overlaps for the recorded time.
#[test]
fn work_of_two_streams_overlaps_as_it_did() {
    let mut run = overlapped_run();
    let (copies, kernels): (Vec<&Span>, Vec<&Span>) = device_spans(&run).partition(|s| s.kind == SpanKind::Memcpy);
    let both = |a: &Span, b: &Span| (a.end.0.min(b.end.0) - a.start.0.max(b.start.0)).max(0.0);
    let told: f64 = copies.iter().flat_map(|a| kernels.iter().map(|b| both(a, b))).sum();
    assert!(told > 1e5, "{told} ns");
    let trace = parsed(&run);
    assert!((beside(&trace, 13, 14) - told).abs() < 100.0, "{} of {told} ns", beside(&trace, 13, 14));
    let names: Vec<&Value> = named(&trace, "thread_name").iter().map(|e| &e["args"]["name"]).collect();
    assert_eq!(names[1..], ["stream 14", "stream 13"], "named once, as they come");
    let copy = named(&trace, "Memcpy HtoD (Pinned -> Device)")[1];
    assert_eq!(
        (&copy["tid"], &copy["args"]["stream"], &copy["args"]["stage"]),
        (&json!(14), &json!(14), &json!("upload 1"))
    );
    assert!(named(&trace, "[").iter().all(|e| e["args"]["moved_ns"].is_null()), "nothing had to move");

    // Where the device seems to be ahead of the host by more than the gap between two executions, lanes move together.
    let mut late = 0.0;
    for record in 0..run.records.len() {
        for span in spans(&mut run, record) {
            late += if span.kind == SpanKind::Annotation { 70_000.0 } else { 0.0 };
            if span.track == Track::Gpu {
                (span.start.0, span.end.0) = (span.start.0 - late, span.end.0 - late);
            }
        }
    }
    keeps_the_rules(&run, KEPT * 6);
    let trace = parsed(&run);
    assert!(rules::events(&trace).iter().any(|e| e["args"]["moved_ns"].as_f64().is_some_and(|ns| ns > 0.0)));
    assert!((beside(&trace, 13, 14) - told).abs() < 100.0, "{} of {told} ns", beside(&trace, 13, 14));
}

/// Recordings without device and stream load, and a launch without a number has none in the file.
#[test]
fn spans_without_device_and_stream_load_and_are_written_as_before() {
    let old = json!({"name": "a", "kind": "kernel", "track": "gpu", "start": 1.0, "end": 2.0, "correlation": 1});
    let span: Span = serde_json::from_value(old.clone()).expect("as it was written");
    assert_eq!((span.device, span.stream), (0, None));
    assert_eq!(serde_json::to_value(&span).expect("JSON"), old);
    let second = Span { device: 1, stream: Some(14), ..span };
    let text = serde_json::to_value(&second).expect("JSON");
    assert_eq!((&text["device"], &text["stream"]), (&json!(1), &json!(14)));
    assert_eq!(serde_json::from_value::<Span>(text).expect("its own text"), second);
}

/// Calls of the host that stick out of their phase or into each other, because another clock took them.
#[test]
fn host_calls_are_cut_to_lie_in_their_phase() {
    let mut run = cuda_run();
    for record in 0..run.records.len() {
        for span in spans(&mut run, record).iter_mut().filter(|s| s.track == Track::Host) {
            span.start = Nanos(span.start.0 - 40_000.0);
            span.end = Nanos(span.end.0 + 45_000.0);
        }
    }
    keeps_the_rules(&run, KEPT * 6);
}

/// After a lost device the run goes on with a fresh profiler, whose clock begins at zero.
#[test]
fn a_second_profilers_records_come_behind_the_first_ones() {
    let mut run = cuda_run();
    let mut again = run.records.clone();
    run.records.append(&mut again);
    keeps_the_rules(&run, 2 * KEPT * 6);
    let trace = parsed(&run);
    let starts: Vec<f64> = named(&trace, &run.records[0].case).iter().filter_map(|e| e["ts"].as_f64()).collect();
    assert_eq!(starts.len(), 4, "two stretches in each half");
    assert!(starts.is_sorted(), "{starts:?}");
}

#[test]
fn kernels_calls_and_operators_carry_kinetos_arguments() {
    let run = cuda_run();
    let trace = parsed(&run);
    assert_eq!(trace["schemaVersion"], 1);
    assert_eq!(trace["distributedInfo"]["rank"], 0);
    let device = &trace["deviceProperties"][0];
    let known = ["name", "totalGlobalMem", "computeMajor", "numSms", "warpSize"].map(|key| device[key].clone());
    assert_eq!(known, [json!("NVIDIA H200"), json!(150_000_000_000u64), json!(9), json!(132), json!(32)]);
    assert_eq!(trace["otherData"]["device_spans_from"], "cupti");
    assert_eq!(trace["otherData"]["alignment_error_ns"], 420.0);

    let kernel = named(&trace, "softmax")[0];
    assert_eq!((kernel["pid"].as_u64(), kernel["tid"].as_u64()), (Some(0), Some(7)));
    for (key, value) in [
        ("stream", json!(7)),
        ("device", json!(0)),
        ("context", json!(1)),
        ("grid", json!([64, 8, 1])),
        ("block", json!([128, 1, 1])),
        ("registers per thread", json!(40)),
        ("shared memory", json!(16_384)),
        ("est. achieved occupancy %", json!(44)),
    ] {
        assert_eq!(kernel["args"][key], value, "{key}");
    }
    let launch = named(&trace, "cuLaunchKernel")[1];
    assert_eq!(launch["cat"], "cuda_driver");
    assert_eq!(launch["args"]["correlation"], kernel["args"]["correlation"]);
    let operator = named(&trace, "parallax::attention_fwd")[0];
    assert_eq!(operator["cat"], "cpu_op");
    assert_eq!(operator["args"]["External id"], kernel["args"]["External id"]);
    assert_eq!(operator["args"]["Input Dims"], json!([[1, 8, 512, 64], [1, 8, 512, 64], [1, 8, 512, 64]]));
    assert_eq!(operator["args"]["Input type"], json!(["c10::Half", "c10::Half", "c10::Half"]));
    assert_eq!(named(&trace, "reference kernel").len(), run.drift.len());
    assert_eq!(named(&trace, "SM clock")[0]["args"]["MHz"], 1980.0);
    let case = named(&trace, &run.records[0].case)[0];
    assert_eq!(case["args"]["device_spans_from"], "cupti");
    assert_eq!(case["args"]["alignment_error_ns"], 420.0);
}

#[test]
fn settings_decide_what_is_told() {
    let mut run = cuda_run();
    let trace = parsed(&run);
    assert!(named(&trace, "[memory]").is_empty() && named(&trace, "device memory").is_empty());
    run.spec.profile_memory = true;
    run.spec.record_shapes = false;
    let trace = parsed(&run);
    let steps = named(&trace, "[memory]");
    assert_eq!(steps.len(), 2 * run.records.len(), "every case is held and dropped");
    let totals: Vec<u64> = steps.iter().filter_map(|e| e["args"]["Total Allocated"].as_u64()).collect();
    let held: u64 = run.records.iter().filter_map(|r| Some(r.measured()?.memory.current.0)).sum();
    assert_eq!(totals.iter().max(), Some(&held), "all cases are prepared before the first is traced");
    assert_eq!(totals.last(), Some(&0));
    let operators = named(&trace, "parallax::");
    assert!(!operators.is_empty() && operators.iter().all(|o| o["args"]["Input Dims"].is_null()));
    assert!(named(&trace, &run.records[0].case)[0]["args"]["shape"].is_null());
}

#[test]
fn copies_fills_stacks_and_symbols_have_their_own_form() {
    let mut run = cuda_run();
    let list = spans(&mut run, 0);
    let kernel = list.iter_mut().find(|s| s.name == "scores").expect("a kernel");
    (kernel.kind, kernel.name, kernel.bytes) = (SpanKind::Memset, "poison".to_owned(), Some(Bytes(4_096)));
    let kernel = list.iter_mut().find(|s| s.name == "softmax").expect("a kernel");
    (kernel.kind, kernel.name, kernel.bytes) = (SpanKind::Memcpy, "Memcpy DtoH".to_owned(), Some(Bytes(1 << 20)));
    let call = list.iter_mut().find(|s| s.name == "cuLaunchKernel").expect("a call");
    call.stack = ["inner", "outer"].map(str::to_owned).to_vec();
    let kernel = list.iter_mut().find(|s| s.name == "weighted_sum").expect("a kernel");
    kernel.symbol = Some("library_kernel_128x256".to_owned());
    keeps_the_rules(&run, KEPT * 6 - 2);
    let trace = parsed(&run);
    let (fill, copy) = (named(&trace, "Memset (poison)")[0], named(&trace, "Memcpy DtoH")[0]);
    assert_eq!((&fill["cat"], &copy["cat"]), (&json!("gpu_memset"), &json!("gpu_memcpy")));
    assert_eq!(copy["args"]["bytes"], 1 << 20);
    assert!(copy["args"]["memory bandwidth (GB/s)"].as_f64().is_some_and(|b| b > 1.0));
    assert_eq!(named(&trace, "cuLaunchKernel")[0]["args"]["Call stack"], "inner;outer");
    let kernels = named(&trace, "weighted_sum");
    assert_eq!(kernels[0]["args"]["symbol"], "library_kernel_128x256");
    assert!(kernels[1]["args"]["symbol"].is_null());
}

#[test]
fn the_size_is_estimated_before_it_is_written() {
    for mut run in [cuda_run(), browser_run()] {
        for record in 0..run.records.len() {
            let one = spans(&mut run, record);
            let many = vec![&one[..]; 50].concat();
            *one = many;
        }
        let estimate: u64 = run.records.iter().map(parallax_analysis::trace::estimate).sum();
        let ratio = estimate as f64 / text(&run, &Registry).len() as f64;
        assert!((0.7..1.4).contains(&ratio), "{}: {ratio}", run.target);
    }
}

#[test]
fn a_run_that_only_checked_has_a_trace_of_its_phases() {
    let mut run = browser_run();
    run.records.truncate(1);
    if let Outcome::Pass(measured) = &mut run.records[0].outcome {
        measured.trace = None;
    }
    let trace = parsed(&run);
    assert_eq!(rules::slices_nest(&trace), 1);
    assert_eq!(named(&trace, "recheck").len(), 1);
    assert_eq!(trace["otherData"]["device_spans_from"], "");
    let empty = Run { records: Vec::new(), ..run };
    assert!(parsed(&empty)["traceEvents"].as_array().is_some_and(|e| !e.is_empty()));
}
