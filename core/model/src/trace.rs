//! Traces of `torch.profiler` with `record_shapes`: operators with their shapes, and the time of their kernels.

use std::collections::HashMap;

use parallax_schema::case::DType;
use parallax_schema::record::{Model, ModelFormat};
use parallax_schema::units::Nanos;
use serde::{Deserialize, Deserializer};

use crate::problems::{self, Attention, Conv, Gemm, StandIn, movement, of_rows, product, unmatched};
use crate::tally::Tally;
use crate::{MOST_OPERATIONS, ModelError, Options};

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

/// Extents of a tensor; lists of tensors have none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Dims {
    Tensor(Vec<u64>),
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

/// Operator, with the extents of its tensors.
struct Operator<'t> {
    event: &'t Event,
    dims: Vec<&'t [u64]>,
}

impl<'t> Operator<'t> {
    fn of(event: &'t Event) -> Operator<'t> {
        let dims = event.args.dims.iter().map(|dims| match dims {
            Dims::Tensor(extents) => &extents[..],
            Dims::Other(_) => &[],
        });
        Operator { event, dims: dims.collect() }
    }

    fn shape(&self, at: usize) -> Option<&'t [u64]> {
        self.dims.get(at).copied().filter(|shape| !shape.is_empty())
    }

    fn dtype(&self) -> Option<DType> {
        self.event.args.types.iter().filter_map(serde_json::Value::as_str).find_map(|name| match name {
            "float" | "float32" => Some(DType::F32),
            "c10::Half" => Some(DType::F16),
            "c10::BFloat16" => Some(DType::BF16),
            _ => None,
        })
    }

    fn text(&self, at: usize) -> Option<&'t str> {
        self.event.args.concrete.get(at)?.as_str()
    }

    fn flag(&self, at: usize) -> bool {
        self.text(at) == Some("True")
    }

    /// Returns a list such as `[1, 1]`.
    fn list(&self, at: usize) -> Option<Vec<u64>> {
        let inner = self.text(at)?.trim_matches(['[', ']', '(', ')']);
        inner.split(',').filter(|part| !part.trim().is_empty()).map(|part| part.trim().parse().ok()).collect()
    }
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
    let mut tally = Tally::default();
    let mut place = 0;
    while place < operators.len() {
        let outer = operators[place];
        let end = outer.ts + outer.dur;
        let within = operators[place + 1..].iter().take_while(|event| event.tid == outer.tid && event.ts < end).count();
        let inner = &operators[place..=place + within];
        let time: f64 = inner.iter().filter_map(|event| kernels.get(&event.args.id?)).sum();
        match matched(&Operator::of(outer), options.dtype) {
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

/// Whether an operator does more than create a view or memory.
fn computes(name: &str) -> bool {
    const VIEWS: [&str; 22] = [
        "aten::view",
        "aten::reshape",
        "aten::transpose",
        "aten::t",
        "aten::permute",
        "aten::expand",
        "aten::as_strided",
        "aten::slice",
        "aten::select",
        "aten::unsqueeze",
        "aten::squeeze",
        "aten::empty",
        "aten::empty_like",
        "aten::detach",
        "aten::empty_strided",
        "aten::_reshape_alias",
        "aten::resolve_conj",
        "aten::alias",
        "aten::to",
        "aten::narrow",
        "aten::chunk",
        "aten::split",
    ];
    name.starts_with("aten::") && !VIEWS.contains(&name)
}

/// Returns the problem of an operator; `None` for one that is not known, whose inner operators may be.
fn matched(operator: &Operator, wanted: Option<DType>) -> Option<StandIn> {
    let dtype = wanted.or_else(|| operator.dtype())?;
    let last = |at| operator.shape(at).and_then(|shape| shape.last().copied());
    let elements = |at| operator.shape(at).map(product);
    match operator.event.name.as_str() {
        "aten::linear" => {
            let (x, [n, k]) = (operator.shape(0)?, operator.shape(1)?) else { return None };
            Some(Gemm::linear(product(x) / k.max(&1), *n, *k, operator.shape(2).is_some()).problem(dtype))
        }
        // The weights of `addmm` are a view of a linear layer's.
        "aten::addmm" => {
            let ([m, k], [_, n]) = (operator.shape(1)?, operator.shape(2)?) else { return None };
            Some(Gemm { b: 1, m: *m, n: *n, k: *k, transposed: false, bias: true, gelu: false }.problem(dtype))
        }
        "aten::mm" => {
            let ([m, k], [_, n]) = (operator.shape(0)?, operator.shape(1)?) else { return None };
            Some(Gemm { b: 1, m: *m, n: *n, k: *k, transposed: false, bias: false, gelu: false }.problem(dtype))
        }
        "aten::bmm" => {
            let ([b, m, k], [_, _, n]) = (operator.shape(0)?, operator.shape(1)?) else { return None };
            Some(Gemm { b: *b, m: *m, n: *n, k: *k, transposed: false, bias: false, gelu: false }.problem(dtype))
        }
        "aten::conv2d" | "aten::conv3d" | "aten::conv1d" => {
            convolution(operator, [3, 4, 5], 6).map(|c| c.problem(dtype))
        }
        "aten::convolution" if !operator.flag(6) => convolution(operator, [3, 4, 5], 8).map(|c| c.problem(dtype)),
        "aten::scaled_dot_product_attention" => {
            let ([b, h, s, d], [_, kv, t, _]) = (operator.shape(0)?, operator.shape(1)?) else { return None };
            let causal = operator.flag(5);
            let note = if operator.shape(3).is_some() { "the mask is not applied" } else { "" };
            Some(Attention { b: *b, h: *h, kv: *kv, s: *s, t: *t, d: *d, causal }.problem(dtype, note))
        }
        "aten::layer_norm" | "aten::native_layer_norm" => {
            let columns = product(&operator.list(1).unwrap_or_else(|| last(0).into_iter().collect()));
            Some(of_rows("layernorm", elements(0)? / columns.max(1), columns, dtype, ""))
        }
        "aten::rms_norm" => Some(of_rows("rmsnorm", elements(0)? / last(0)?.max(1), last(0)?, dtype, "")),
        "aten::softmax" | "aten::_softmax" => {
            let rank = operator.shape(0)?.len() as i64;
            let along: i64 = operator.text(1).and_then(|text| text.parse().ok()).unwrap_or(-1);
            (along == -1 || along == rank - 1)
                .then(|| Some(of_rows("softmax", elements(0)? / last(0)?.max(1), last(0)?, dtype, "")))?
        }
        "aten::gelu" => {
            let formula = if operator.text(1) == Some("tanh") { "tanh" } else { "erf" };
            Some(problems::gelu(elements(0)?, formula, dtype, ""))
        }
        "aten::embedding" => {
            let [rows, columns] = operator.shape(0)? else { return None };
            Some(problems::embedding(elements(1)?, *rows, *columns, dtype))
        }
        "aten::max_pool2d" | "aten::avg_pool2d" => {
            let [n, c, input @ ..] = operator.shape(0)? else { return None };
            let kernel = both(operator.list(1)?)?;
            let strides = operator.list(2).filter(|list| !list.is_empty()).map_or(Some(kernel.clone()), both)?;
            let pads = operator.list(3).filter(|list| !list.is_empty()).map_or(Some(vec![0, 0]), both)?;
            let image = Conv {
                images: *n,
                channels: *c,
                filters: *c,
                input: input.to_vec(),
                kernel,
                strides,
                dilations: vec![1, 1],
                pads: pads.into_iter().map(|pad| (pad, pad)).collect(),
                groups: 1,
                bias: false,
                relu: false,
                channels_last: false,
            };
            let kind = if operator.event.name.contains("max") { "max" } else { "average" };
            (input.len() == 2).then(|| problems::pool(&image, kind, dtype))
        }
        "aten::adaptive_avg_pool2d" if operator.list(1)?.iter().all(|extent| *extent == 1) => {
            let [n, c, h, w] = operator.shape(0)? else { return None };
            Some(problems::global_pool(*n, *c, [*h, *w], dtype))
        }
        name @ ("aten::add" | "aten::add_" | "aten::sub" | "aten::mul" | "aten::mul_" | "aten::div") => {
            let op = name.trim_start_matches("aten::").trim_end_matches('_');
            problems::broadcast(op, operator.shape(0)?, operator.dims.get(1)?, dtype)
        }
        name @ ("aten::relu" | "aten::relu_" | "aten::silu" | "aten::sigmoid" | "aten::tanh" | "aten::hardswish") => {
            let op = name.trim_start_matches("aten::").trim_end_matches('_');
            Some(problems::elementwise(op, [1, elements(0)?], problems::Second::Same, dtype, ""))
        }
        "aten::copy_" | "aten::clone" | "aten::contiguous" => {
            Some(movement(elements(0)?, dtype, "elements are moved, and perhaps permuted"))
        }
        _ => None,
    }
}

/// Returns a value for each of two dimensions from one for both, or from two.
fn both(list: Vec<u64>) -> Option<Vec<u64>> {
    match list[..] {
        [one] => Some(vec![one, one]),
        [_, _] => Some(list),
        _ => None,
    }
}

/// Returns a convolution; its strides, padding, dilations and groups are at these places.
fn convolution(operator: &Operator, [strides, pads, dilations]: [usize; 3], groups: usize) -> Option<Conv> {
    let ([images, channels, input @ ..], [filters, _, kernel @ ..]) = (operator.shape(0)?, operator.shape(1)?) else {
        return None;
    };
    let rank = input.len();
    let list = |at: usize, default: u64| match operator.list(at) {
        Some(list) if list.len() == rank => Some(list),
        Some(list) if list.len() == 1 => Some(vec![list[0]; rank]),
        None => Some(vec![default; rank]),
        Some(_) => None,
    };
    let (strides, pads, dilations) = (list(strides, 1)?, list(pads, 0)?, list(dilations, 1)?);
    let groups = operator.text(groups).and_then(|text| text.parse().ok()).unwrap_or(1);
    let small = |extent: &u64| (1..1 << 24).contains(extent);
    (rank > 0 && kernel.len() == rank && strides.iter().chain(&dilations).chain(kernel).all(small)).then_some(())?;
    Some(Conv {
        images: *images,
        channels: *channels,
        filters: *filters,
        input: input.to_vec(),
        kernel: kernel.to_vec(),
        strides,
        dilations,
        pads: pads.into_iter().map(|pad| (pad, pad)).collect(),
        groups,
        bias: operator.shape(2).is_some(),
        relu: false,
        channels_last: false,
    })
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
