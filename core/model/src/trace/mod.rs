//! Traces of `torch.profiler` with `record_shapes`: operators with their shapes, and the time of their kernels.

mod operators;
mod parts;

use std::collections::HashMap;

use parallax_schema::record::{Model, ModelFormat};
use parallax_schema::units::Nanos;
use serde::{Deserialize, Deserializer};

use crate::problems::{product, unmatched};
use crate::tally::Tally;
use crate::{MOST_OPERATIONS, ModelError, Options};

use operators::{Operator, computes, matched, usual_type};

/// Trace file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Trace {
    Object {
        #[serde(rename = "traceEvents")]
        events: Vec<Event>,
    },
    List(Vec<Event>),
}

/// Event, as far as it is needed.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default, deserialize_with = "number")]
    ts: f64,
    #[serde(default, deserialize_with = "number")]
    dur: f64,
    #[serde(default, deserialize_with = "label")]
    tid: String,
    #[serde(default)]
    args: Args,
}

#[derive(Default, Deserialize)]
struct Args {
    #[serde(rename = "Input Dims", default)]
    dims: Vec<Dims>,
    #[serde(rename = "Input type", alias = "Input Types", default)]
    types: Vec<serde_json::Value>,
    #[serde(rename = "Concrete Inputs", default)]
    concrete: Vec<serde_json::Value>,
    #[serde(rename = "External id", alias = "external id")]
    id: Option<u64>,
}

/// Extents of a tensor, or of each tensor of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Dims {
    Tensor(Vec<u64>),
    List(Vec<Vec<u64>>),
    Other(serde::de::IgnoredAny),
}

/// Times are numbers, or texts with numbers.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Number(number) => number.as_f64().unwrap_or(0.0),
        serde_json::Value::String(text) => text.parse().unwrap_or(0.0),
        _ => 0.0,
    })
}

fn label<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(serde_json::Value::deserialize(deserializer)?.to_string())
}

/// Reads a trace.
///
/// # Errors
/// JSON that is no trace, or a trace without shapes.
pub fn read(contents: &[u8], name: &str, options: &Options) -> Result<Model, ModelError> {
    let wrong = |reason: String| ModelError::Json { expected: "trace of torch.profiler", reason };
    let trace = serde_json::from_slice(contents).map_err(|error| wrong(error.to_string()))?;
    let (Trace::Object { events } | Trace::List(events)) = trace;
    if let Some(name) = options.extents.keys().next() {
        return Err(ModelError::UnknownDimension { name: name.clone(), known: "the extents of its trace".to_owned() });
    }
    let mut operators: Vec<&Event> = events.iter().filter(|event| event.cat == "cpu_op").collect();
    if operators.len() > MOST_OPERATIONS {
        return Err(ModelError::TooManyOperations(operators.len()));
    }
    if operators.iter().all(|event| event.args.dims.is_empty()) {
        return Err(wrong("no operator has `Input Dims`; record it with record_shapes=True".to_owned()));
    }
    let mut kernels = HashMap::<u64, f64>::new();
    for event in events.iter().filter(|event| event.cat == "kernel") {
        event.args.id.into_iter().for_each(|id| *kernels.entry(id).or_default() += event.dur.max(0.0));
    }
    // Outer operators come before those that they call.
    operators.sort_by(|a, b| a.tid.cmp(&b.tid).then(a.ts.total_cmp(&b.ts)).then(b.dur.total_cmp(&a.dur)));
    let usual = usual_type(&operators);
    let mut tally = Tally::default();
    let mut place = 0;
    while place < operators.len() {
        let outer = operators[place];
        let time = |count: usize| -> f64 {
            operators[place..place + count].iter().filter_map(|event| kernels.get(&event.args.id?)).sum()
        };
        if let Some(whole) = parts::joined(&operators[place..], options.dtype) {
            let traced = Some(time(whole.events)).filter(|time| *time > 0.0);
            tally.add((whole.kind, ""), 1, whole.stand_in, traced.map(|time| Nanos(time * 1e3)))?;
            place += whole.events;
            continue;
        }
        let within = events_of(&operators[place..]) - 1;
        let time = time(1 + within);
        match matched(&Operator::of(outer), options.dtype, usual) {
            Some(stand_in) => {
                let traced = (time > 0.0).then_some(Nanos(time * 1e3));
                tally.add((&outer.name, ""), 1, stand_in, traced)?;
                place += 1 + within;
            }
            // An unknown operator without inner ones did the work itself.
            None => {
                let own = outer.args.id.and_then(|id| kernels.get(&id)).copied().unwrap_or(0.0);
                if own > 0.0 || (within == 0 && kernels.is_empty() && computes(&outer.name)) {
                    let operator = Operator::of(outer);
                    let read: Vec<u64> = operator.dims.iter().filter(|d| !d.is_empty()).map(|d| product(d)).collect();
                    let written = read.iter().copied().max().unwrap_or(0);
                    let stand_in =
                        unmatched(format!("the suite has no {}", outer.name), &read, written, operator.dtype());
                    tally.add((&outer.name, ""), 1, stand_in, (own > 0.0).then_some(Nanos(own * 1e3)))?;
                }
                place += 1;
            }
        }
    }
    let operations = tally.finish();
    Ok(Model { name: name.to_owned(), format: ModelFormat::Trace, extents: Default::default(), operations })
}

/// Number of events of the first operator: itself, and those that it calls.
fn events_of(operators: &[&Event]) -> usize {
    let (outer, end) = (operators[0], operators[0].ts + operators[0].dur);
    1 + operators[1..].iter().take_while(|event| event.tid == outer.tid && event.ts < end).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"{"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "tid": 1, "ts": 10, "dur": 50,
         "args": {"External id": 1, "Input Dims": [[2, 64, 768], [3072, 768], [3072]], "Input type": ["float", "float", "float"]}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "tid": 1, "ts": 12, "dur": 40,
         "args": {"External id": 2, "Input Dims": [[3072], [128, 768], [768, 3072], [], []], "Input type": ["float"]}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "tid": 7, "ts": 90, "dur": 12.5, "args": {"External id": 2}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "tid": 1, "ts": "110", "dur": 50,
         "args": {"External id": 3, "Input Dims": [[2, 64, 768], [3072, 768], [3072]], "Input type": ["float", "float", "float"]}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "tid": 7, "ts": 190, "dur": 7.5, "args": {"External id": 3}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "tid": 1, "ts": 200, "dur": 9,
         "args": {"External id": 4, "Input Dims": [[1, 8, 56, 56], [8, 1, 3, 3], [], [], [], [], []], "Input type": ["c10::Half"],
                  "Concrete Inputs": ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "8"]}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "tid": 1, "ts": 300, "dur": 9,
         "args": {"External id": 5, "Input Dims": [[4, 4], [4, 4], []], "Input type": ["float", "float", "Scalar"]}},
        {"ph": "X", "cat": "kernel", "name": "add", "tid": 7, "ts": 390, "dur": 3, "args": {"External id": 5}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::view", "tid": 1, "ts": 400, "dur": 1, "args": {"Input Dims": [[4, 4], []]}}
    ]}"#;

    fn said(text: &str) -> String {
        read(text.as_bytes(), "t", &Options::default()).expect_err(text).to_string()
    }

    #[test]
    fn operators_have_the_time_of_the_kernels_below_them() {
        let model = read(TRACE.as_bytes(), "t", &Options::default()).expect("a trace");
        let rows: Vec<(&str, u64, Option<&str>, Option<f64>)> = model
            .operations
            .iter()
            .map(|op| (op.kind.as_str(), op.count, op.problem(), op.traced.map(|time| time.0)))
            .collect();
        assert_eq!(
            rows,
            [
                ("aten::linear", 2, Some("linear/fwd/m128,n3072,k768,nt/f32"), Some(10_000.0)),
                ("aten::conv2d", 1, Some("depthwise_conv2d/fwd/n1,c8,h56,k3,s2,p1,nchw/f16"), None),
                ("aten::add", 1, Some("elementwise/fwd/r1,c16,add/f32"), Some(3000.0)),
            ]
        );
    }

    /// Trace of operators one behind the other, each with a kernel of a microsecond: name, extents, types, concrete inputs.
    fn traced(operators: &[(&str, &str, &str, &str)]) -> Vec<(String, u64, Option<String>, Option<f64>)> {
        let event = |(at, (name, dims, types, concrete)): (usize, &(&str, &str, &str, &str))| {
            let (ts, split) =
                (at * 10, |list: &str| list.split(';').map(|part| format!("{part:?}")).collect::<Vec<_>>());
            format!(
                r#"{{"cat": "cpu_op", "name": "aten::{name}", "tid": 1, "ts": {ts}, "dur": 5, "args": {{"External id": {at},
                    "Input Dims": {dims}, "Input type": [{}], "Concrete Inputs": [{}]}}}},
                   {{"cat": "kernel", "name": "k", "tid": 7, "ts": {ts}, "dur": 1, "args": {{"External id": {at}}}}}"#,
                split(types).join(","),
                split(concrete).join(","),
            )
        };
        let events: Vec<String> = operators.iter().enumerate().map(event).collect();
        let text = format!(r#"{{"traceEvents": [{}]}}"#, events.join(","));
        let model = read(text.as_bytes(), "t", &Options::default()).expect("a trace");
        let row = |op: &parallax_schema::record::Operation| {
            (op.kind.clone(), op.count, op.problem().map(str::to_owned), op.traced.map(|time| time.0))
        };
        model.operations.iter().map(row).collect()
    }

    const NORM: [(&str, &str, &str, &str); 8] = [
        ("to", "[[2, 64, 256], []]", "c10::BFloat16", ""),
        ("pow", "[[2, 64, 256], []]", "float;Scalar", ";2"),
        ("mean", "[[2, 64, 256], [], []]", "float", ";[-1];True"),
        ("add", "[[2, 64, 1], [], []]", "float", ";;1"),
        ("rsqrt", "[[2, 64, 1]]", "float", ""),
        ("mul", "[[2, 64, 256], [2, 64, 1]]", "float;float", ";"),
        ("to", "[[2, 64, 256], []]", "float", ""),
        ("mul", "[[256], [2, 64, 256]]", "c10::BFloat16;c10::BFloat16", ";"),
    ];

    #[test]
    fn norms_and_rotations_in_parts_are_one_operation_with_the_time_of_all() {
        let found = |problem: &str| Some(format!("{problem}/bf16"));
        let norm = ("RMSNorm in parts".to_owned(), 1, found("rmsnorm/fwd/r128,c256"), Some(8000.0));
        assert_eq!(traced(&NORM), [norm]);
        let half = "c10::BFloat16;c10::BFloat16";
        let rotary = [
            ("mul", "[[1, 4, 64, 32], [1, 1, 64, 32]]", half, ";"),
            ("slice", "[[1, 4, 64, 32], []]", half, ";"),
            ("neg", "[[1, 4, 64, 16]]", half, ""),
            ("cat", "[[[1, 4, 64, 16], [1, 4, 64, 16]], []]", "TensorList;Scalar", ";-1"),
            ("mul", "[[1, 4, 64, 32], [1, 1, 64, 32]]", half, ";"),
            ("add", "[[1, 4, 64, 32], [1, 4, 64, 32], []]", half, ";;1"),
        ];
        let turned = ("rotary embedding in parts".to_owned(), 1, found("rope/fwd/b1,h4,s64,d32"), Some(6000.0));
        assert_eq!(traced(&rotary), [turned]);
        // With another power, or without a product by columns, the operators stand for themselves.
        for change in
            [("pow", "[[2, 64, 256], []]", "float;Scalar", ";3"), ("pow", "[[2, 64, 256], []]", "float", ";2")]
        {
            let mut parts = NORM;
            parts[1] = change;
            parts[7] = if change.3 == ";2" { ("mul", "[[2, 64, 256], [2, 64, 256]]", half, ";") } else { NORM[7] };
            assert!(traced(&parts).iter().all(|(kind, ..)| !kind.contains("in parts")), "{change:?}");
            assert!(traced(&parts).len() > 4, "{change:?}");
        }
    }

    #[test]
    fn movements_and_functions_of_elements_have_problems_of_as_many_bytes() {
        let half = "c10::BFloat16";
        for (operator, problem) in [
            (("clamp", "[[4, 32, 8, 8], [], []]", half, ";0;6"), Some("elementwise/fwd/r8,c1024,relu/bf16")),
            (("neg", "[[4, 32, 8, 8]]", half, ""), Some("elementwise/fwd/r8,c1024,relu/bf16")),
            (
                ("native_batch_norm", "[[4, 32, 8, 8], [32], [32], [32], [32], [], [], []]", half, ""),
                Some("elementwise/fwd/r128,c64,mul,column/bf16"),
            ),
            (
                (
                    "conv_transpose3d",
                    "[[4, 16, 8, 8, 8], [16, 4, 2, 2, 2], [4]]",
                    half,
                    ";;;[2, 2, 2];[0, 0, 0];[0, 0, 0];1",
                ),
                Some("matmul/fwd/m2048,n32,k16/bf16"),
            ),
            // Windows that overlap.
            (
                (
                    "conv_transpose3d",
                    "[[4, 16, 8, 8, 8], [16, 4, 3, 3, 3], [4]]",
                    half,
                    ";;;[2, 2, 2];[0, 0, 0];[0, 0, 0];1",
                ),
                None,
            ),
            (("cumsum", "[[4, 32]]", half, ";1"), None),
        ] {
            let found: Vec<Option<String>> = traced(&[operator]).into_iter().map(|(_, _, found, _)| found).collect();
            assert_eq!(found, [problem.map(str::to_owned)], "{operator:?}");
        }
        let joined = ("cat", "[[[4, 64, 8, 8], [4, 32, 8, 8]], []]", "TensorList;Scalar", ";1");
        let found = traced(&[("neg", "[[4, 32, 8, 8]]", half, ""), joined]);
        assert_eq!(found[1].2.as_deref(), Some("copy/fwd/n24576/bf16"), "the type of the other operators");
    }

    #[test]
    fn traces_that_cannot_be_used_say_why() {
        for (text, part) in [
            (TRACE.replace("Input Dims", "Dims"), "record_shapes=True"),
            (TRACE[..700].to_owned(), "no trace of torch.profiler"),
            (r#"{"traceEvents": 7}"#.to_owned(), "no trace"),
        ] {
            assert!(said(&text).contains(part), "{}", said(&text));
        }
    }
}
