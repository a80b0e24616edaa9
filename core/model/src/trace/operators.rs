//! Operators of a trace, and the problems that stand for them.

use parallax_schema::case::DType;

use super::{Dims, Event};
use crate::problems::{self, Attention, Conv, Gemm, StandIn, movement, of_rows, product};

/// Operator, with the extents of its tensors.
pub(super) struct Operator<'t> {
    pub event: &'t Event,
    pub dims: Vec<&'t [u64]>,
}

impl<'t> Operator<'t> {
    pub fn of(event: &'t Event) -> Operator<'t> {
        let dims = event.args.dims.iter().map(|dims| match dims {
            Dims::Tensor(extents) => &extents[..],
            Dims::List(_) | Dims::Other(_) => &[],
        });
        Operator { event, dims: dims.collect() }
    }

    pub fn shape(&self, at: usize) -> Option<&'t [u64]> {
        self.dims.get(at).copied().filter(|shape| !shape.is_empty())
    }

    pub fn dtype(&self) -> Option<DType> {
        self.event.args.types.iter().filter_map(serde_json::Value::as_str).find_map(|name| match name {
            "float" | "float32" => Some(DType::F32),
            "c10::Half" => Some(DType::F16),
            "c10::BFloat16" => Some(DType::BF16),
            _ => None,
        })
    }

    /// Whether it takes a list of tensors, whose type a trace does not have.
    fn takes_list(&self) -> bool {
        self.event.args.types.first().is_some_and(|name| name == "TensorList")
    }

    pub fn text(&self, at: usize) -> Option<&'t str> {
        self.event.args.concrete.get(at)?.as_str()
    }

    pub fn flag(&self, at: usize) -> bool {
        self.text(at) == Some("True")
    }

    /// Returns a list such as `[1, 1]`.
    pub fn list(&self, at: usize) -> Option<Vec<u64>> {
        let inner = self.text(at)?.trim_matches(['[', ']', '(', ')']);
        inner.split(',').filter(|part| !part.trim().is_empty()).map(|part| part.trim().parse().ok()).collect()
    }
}

/// Whether an operator does more than create a view or memory.
pub(super) fn computes(name: &str) -> bool {
    const VIEWS: [&str; 26] = [
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
        "aten::dropout",
        "aten::resize_",
        "aten::result_type",
        "aten::item",
    ];
    name.starts_with("aten::") && !VIEWS.contains(&name)
}

/// Type of most operators that have one.
pub(super) fn usual_type(operators: &[&Event]) -> Option<DType> {
    let types: Vec<DType> = operators.iter().filter_map(|event| Operator::of(event).dtype()).collect();
    DType::ALL.into_iter().map(|(_, dtype)| dtype).max_by_key(|one| types.iter().filter(|dtype| *dtype == one).count())
}

/// Returns the problem of an operator; `None` for one that is not known, whose inner operators may be. Lists of tensors have the type
/// `usual`.
pub(super) fn matched(operator: &Operator, wanted: Option<DType>, usual: Option<DType>) -> Option<StandIn> {
    let dtype = wanted.or_else(|| operator.dtype()).or(usual.filter(|_| operator.takes_list()))?;
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
        "aten::conv_transpose1d" | "aten::conv_transpose2d" | "aten::conv_transpose3d" => upsampling(operator, dtype),
        "aten::scaled_dot_product_attention" => {
            let ([b, h, s, d], [_, kv, t, _]) = (operator.shape(0)?, operator.shape(1)?) else { return None };
            let causal = operator.flag(5);
            let note = if operator.shape(3).is_some() { "the mask is not applied" } else { "" };
            Some(Attention { b: *b, h: *h, kv: *kv, s: *s, t: *t, d: *d, w: 0, causal }.problem(dtype, note))
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
        name @ ("aten::upsample_nearest2d" | "aten::upsample_bilinear2d") => {
            let [n, c, h, w] = *operator.shape(0)? else { return None };
            let [oh, ow] = operator.list(1)?[..] else { return None };
            let kind = if name.contains("nearest") { "nearest" } else { "bilinear" };
            Some(problems::resize([n, c, h, w], [oh, ow], kind, dtype, ""))
        }
        name @ ("aten::add" | "aten::add_" | "aten::sub" | "aten::mul" | "aten::mul_" | "aten::div") => {
            let op = name.trim_start_matches("aten::").trim_end_matches('_');
            problems::broadcast(op, operator.shape(0)?, operator.dims.get(1)?, dtype)
        }
        name @ ("aten::relu" | "aten::relu_" | "aten::silu" | "aten::sigmoid" | "aten::tanh" | "aten::hardswish") => {
            let op = name.trim_start_matches("aten::").trim_end_matches('_');
            Some(problems::elementwise(op, [1, elements(0)?], problems::Second::Same, dtype, ""))
        }
        "aten::batch_norm" | "aten::native_batch_norm" | "aten::cudnn_batch_norm" => {
            problems::scaled_channels(operator.shape(0)?, dtype)
        }
        "aten::clamp" | "aten::clamp_" | "aten::clamp_min" | "aten::hardtanh" | "aten::hardtanh_" => {
            Some(of_elements(elements(0)?, dtype, "the problem has one bound, zero"))
        }
        "aten::neg" | "aten::abs" | "aten::pow" | "aten::sqrt" | "aten::rsqrt" | "aten::exp" | "aten::cos"
        | "aten::sin" => Some(of_elements(elements(0)?, dtype, "the problem has another function of one element")),
        "aten::cat" => {
            let Dims::List(parts) = operator.event.args.dims.first()? else { return None };
            let elements = parts.iter().fold(0u64, |sum, part| sum.saturating_add(product(part)));
            (elements > 0).then(|| movement(elements, dtype, "parts are moved beside each other"))
        }
        "aten::copy_" | "aten::clone" | "aten::contiguous" => {
            Some(movement(elements(0)?, dtype, "elements are moved, and perhaps permuted"))
        }
        _ => None,
    }
}

/// Function of each element on its own, by the suite's ReLU: it reads and writes as much.
fn of_elements(elements: u64, dtype: DType, note: &str) -> StandIn {
    problems::elementwise("relu", [1, elements], problems::Second::Same, dtype, note)
}

/// Returns a transposed convolution whose windows touch and do not overlap.
fn upsampling(operator: &Operator, dtype: DType) -> Option<StandIn> {
    let ([images, channels, input @ ..], [_, filters, window @ ..]) = (operator.shape(0)?, operator.shape(1)?) else {
        return None;
    };
    let apart = operator.list(3)? == window && operator.list(4)?.iter().all(|pad| *pad == 0);
    let positions = images.saturating_mul(product(input));
    let columns = filters.saturating_mul(product(window));
    (apart && operator.text(6) == Some("1")).then(|| problems::upsampling_conv(positions, *channels, columns, dtype))
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
