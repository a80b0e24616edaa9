//! Layer of a transformer's encoder, with a norm before each part: `y = x + attention(norm(x))·wo + bo`, `out = y + gelu(norm(y)·w1
//! + b1)·w2 + b2`.
//!
//! Formula: Vaswani et al., "Attention Is All You Need" (2017), with the norms before the parts as in Xiong et al., "On Layer
//! Normalization in the Transformer Architecture" (2020).
//!
//! `x` and `out` are `[b, s, c]` with `c = h·d`, all dense and row-major. Weights: see `attention_block`; `mlp_gelu` for `w1` `[c,
//! f]` and `w2` `[f, c]`; `layernorm` for factors and offsets `[c]`. Defaults of a shape are those of SigLIP 2's So400m vision
//! tower: 256 patches, 16 heads of 72, 4304 in the middle of the MLP.
//!
//! With `kept`, GELU's argument stays in memory for the backward pass. Forward it is an additional output, backward it is an input.
//! Otherwise the backward pass recomputes it from the sum `y`.
//!
//! With a share `p`, both parts have dropout before their addition, with the words and choices of `dropout`. The addition to `x`
//! uses the key `seed1`, that to `y` uses `seed2`. The backward pass draws the same words again, and stores none.
//!
//! Operations forward: `2·b·s·c·(4·c + 2·f)` of the GEMMs and attention's own, `4·b·h·s²·d`. Backward: twice those of the GEMMs and
//! two and a half times attention's. Recomputation and dropout are not counted.

use std::borrow::Cow;

use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Reference, Rows, Shape, StressInput,
    Tolerance, Variant, Workload, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

use self::dropout::{drops, factor};
use super::attention_block::heads::Heads;
use super::attention_block::items::Items;
use super::attention_block::{BIASES, Rounding, WEIGHTS, items, mixed_error, row_beside, side_by_side, weight, width};
use super::dropout::below_one;
use super::layernorm;
use super::linear::stages::GemmKind;

mod backward;
mod backward_stages;
mod both;
mod dropout;
mod forward;
mod layer;

pub(crate) use both::{checkpointed, halves, left};
pub(crate) use layer::{Layer, Parameters};

/// Inputs of both directions, in buffer order: the item's rows, and the parameters.
const X: usize = 0;
pub(crate) const LEARNED: [&str; 16] =
    ["gamma1", "beta1", "wq", "wk", "wv", "bq", "bk", "bv", "wo", "bo", "gamma2", "beta2", "w1", "b1", "w2", "b2"];
/// Indices of two of them, counted from the first input.
pub(crate) const WQ: usize = 3;
pub(crate) const BQ: usize = 6;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "a whole layer of a transformer's encoder",
        axes: const {
            &[
                Axis::extent("b", "batch"),
                Axis::optional("s", "tokens", 1, 256),
                Axis::optional("h", "heads", 1, 16),
                Axis::optional("d", "head dim", 1, 72),
                Axis::optional("f", "hidden width, of the MLP", 1, 4304),
                Axis::decimal("p", "dropped share, of the sum that each part adds", (0, 1), "0"),
                Axis::word(
                    "activation",
                    "whether GELU's argument stays in memory for the backward pass",
                    &["", "kept"],
                ),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexed(shape).and_then(|()| below_one(shape)),
        forms: vec![form(), backward::form(), both::form()],
    }
}

/// Checks that kernels can index a layer's arrays.
///
/// # Errors
/// Reason why they cannot.
pub(crate) fn indexed(shape: &Shape) -> Result<(), String> {
    let (rows, c, f) = (shape["b"] * shape["s"], shape["h"] * shape["d"], shape["f"]);
    [3 * rows * c, rows * f, 3 * c * c, c * f].into_iter().try_for_each(indexable)
}

/// Shapes that cross the edges of tiles, heads and rows of every part. One has more items than distinct ones. Two have dropout, one
/// of them with items that end within the four elements of a counter.
const AWKWARD: &[&str] = &[
    "b1,s1,h1,d1,f1",
    "b3,s5,h2,d3,f7",
    "b3,s5,h2,d3,f7,p0.5",
    "b3,s34,h2,d36,f136,kept",
    "b2,s34,h2,d36,f136,p0.25,kept",
    "b2,s65,h1,f132",
];

fn form() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        |p, output| tolerance(p, output, 1.0),
        Reference::new(row_cost, rows),
        OfNan::MIXED,
    )
    .headline("b1,s64,h8,d64,f2048")
    .shapes(shapes)
    .awkward(AWKWARD)
    .setup(side_by_side)
    .host(host)
    .variants(vec![
        Variant::kernel("unfused", "every step a stage, scores in device memory", forward::unfused),
        Variant::kernel(
            "fused",
            "queries, keys and values by one product, no score matrix, sums normalised as they are made, biases and GELU \
             done to sums in registers",
            |p, caps| forward::fused(p, caps, GemmKind::Tiles),
        )
        .available(|p, caps| forward::fusable(p, caps, GemmKind::Tiles)),
        Variant::kernel("mma", "the same on tensor cores by warp-wide instructions", |p, caps| {
            forward::fused(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| forward::fusable(p, caps, GemmKind::Mma)),
        Variant::kernel("wgmma", "the same on tensor cores by four warps together; the copy engine loads and stores tiles", |p, caps| {
            forward::fused(p, caps, GemmKind::Wgmma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| forward::fusable(p, caps, GemmKind::Wgmma)),
        Variant::kernel(
            "vendor",
            "the same with products and attention by the vendor's libraries, cuBLASLt and cuDNN; a kept argument makes GELU a stage of ours",
            |p, caps| forward::fused(p, caps, GemmKind::Library),
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| forward::fusable(p, caps, GemmKind::Library)),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["wgmma", "mma", "fused", "unfused"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,s64,h8,d64,f2048", "b1", "b8", "b8,p0.1"],
        _ => &["b1,s64,h8,d64,f2048", "b1", "b8", "b8,p0.1", "b128", "b1024"],
    }
}

/// Whether GELU's argument stays in memory.
fn kept(p: &Problem) -> bool {
    p.shape.has("kept")
}

fn out_of_middle(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / (shape["f"] as f64).sqrt()
}

fn bias(_: &Shape, draw: Draw) -> f64 {
    0.25 * draw.normal()
}

/// Inputs of both directions.
fn inputs(p: &Problem) -> Vec<BufferSpec> {
    let (c, f) = (width(p), p["f"]);
    let learned = |name: &'static str| match name {
        "gamma1" | "gamma2" => BufferSpec::input(name, Elem::Real, &[c], layernorm::factor),
        "wq" | "wk" | "wv" | "wo" => BufferSpec::input(name, Elem::Real, &[c, c], weight),
        "w1" => BufferSpec::input(name, Elem::Real, &[c, f], weight),
        "w2" => BufferSpec::input(name, Elem::Real, &[f, c], out_of_middle),
        "b1" => BufferSpec::input(name, Elem::Real, &[f], bias),
        _ => BufferSpec::input(name, Elem::Real, &[c], bias),
    };
    let x = BufferSpec::input("x", Elem::Real, &[p["b"], p["s"], c], items);
    std::iter::once(x).chain(LEARNED.map(learned)).collect()
}

/// Concatenated weights and biases, computed before the timing.
fn side_by_side_buffers(p: &Problem) -> [BufferSpec; 2] {
    let c = width(p);
    [BufferSpec::setup("wqkv", Elem::Real, &[c, 3 * c]), BufferSpec::setup("bqkv", Elem::Real, &[3 * c])]
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (rows, c, f) = ([p["b"], p["s"]], width(p), p["f"]);
    let mut buffers = inputs(p);
    buffers.extend(dropout::keys(p));
    buffers.extend(side_by_side_buffers(p));
    if kept(p) {
        buffers.push(BufferSpec::output("pre", Elem::Real, &[rows[0], rows[1], f]));
    } else {
        buffers.push(BufferSpec::scratch("pre", Elem::Real, &[rows[0], rows[1], f]));
    }
    buffers.push(BufferSpec::output("out", Elem::Real, &[rows[0], rows[1], c]));
    buffers.extend(forward::scratch(p));
    buffers
}

/// Elements of the rows, of all weights, and of rows of the MLP's middle.
fn sizes(p: &Problem) -> [u64; 3] {
    let (rows, c, f) = (p["b"] * p["s"], width(p), p["f"]);
    [rows * c, 4 * c * c + 2 * c * f + 9 * c + f, rows * f]
}

/// Operations of the GEMMs, and of attention.
fn operations(p: &Problem) -> [u64; 2] {
    let (rows, c, f) = (p["b"] * p["s"], width(p), p["f"]);
    [2 * rows * c * (4 * c + 2 * f), 4 * rows * p["s"] * c]
}

fn cost(p: &Problem) -> Cost {
    let ([matrix, learned, middle], element) = (sizes(p), Elem::Real.storage(p.dtype).bytes());
    let [products, attention] = operations(p);
    let pre = if kept(p) { middle } else { 0 };
    Cost::new(products + attention, (matrix + learned) * element, (matrix + pre) * element)
}

/// Indices of the checked buffers, in buffer order; GELU's argument is absent if it is not kept.
const WQKV: usize = 0;
const BQKV: usize = 1;
const PRE: usize = 2;

fn checked(p: &Problem, output: usize) -> usize {
    if kept(p) || output < PRE { output } else { output + 1 }
}

/// Standard deviations of intermediate errors, for rows with a residual stream `scale` times as large as a seeded one.
#[derive(Clone, Copy)]
struct Errors {
    /// Of a query, key or value.
    projected: f64,
    /// Of attention's output.
    mixed: f64,
    /// Of the sum of `x` and attention's projection.
    sum: f64,
    /// Of GELU's argument.
    pre: f64,
    /// Of the result.
    out: f64,
}

impl Errors {
    fn new(p: &Problem, scale: f64) -> Errors {
        let Rounding { u, sum: by_width } = Rounding::new(p, width(p));
        let by_middle = Rounding::new(p, p["f"]).sum;
        // Normalised rows are about one, with the error of their rounding.
        let normed = 2.0 * u + by_width;
        let projected = normed + 2.0 * u + by_width;
        let mixed = mixed_error(p, 1.0, projected);
        // Dropout multiplies the kept elements and their error, and rounds once more.
        let (kept, more) = (factor(p), if drops(p) { 1.0 } else { 0.0 });
        let sum = kept * (mixed + by_width + (2.0 + more + scale) * u);
        let pre = sum + normed + 2.0 * u + by_width;
        let out = sum + kept * 2.0 * pre + kept * by_middle + kept * (4.0 + more + scale) * u;
        Errors { projected, mixed, sum, pre, out }
    }
}

const REASON: &str = "errors of random sign, eight times their standard deviation, which almost certainly bound all of them: \
                      sums of products wander by the root of their number of f32 roundings, and every step rounds its result \
                      to the element type, from which the next goes on";

/// Tolerance of eight standard deviations.
fn likely(p: &Problem, deviation: f64) -> Tolerance {
    Tolerance { abs: 8.0 * deviation + smallest_normal(p), rel: 2.0 * p.dtype.unit_roundoff(), reason: REASON }
}

fn tolerance(p: &Problem, output: usize, scale: f64) -> Tolerance {
    let errors = Errors::new(p, scale);
    match checked(p, output) {
        WQKV | BQKV => Tolerance { abs: smallest_normal(p), rel: 0.0, reason: "copied" },
        PRE => likely(p, errors.pre),
        _ => likely(p, errors.out),
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "no inputs and no offsets: norms divide by the root of ε, and biases are all there is",
            |_| vec![("x", zero), ("beta1", zero), ("bv", zero), ("bo", zero)],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "equal",
            "all rows alike: every key has the same weight",
            |_| vec![("x", |shape: &Shape, draw: Draw| normal(shape, draw.repeating(shape["h"] * shape["d"])))],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "large",
            "a residual stream 64 times as large, beside which the layer's parts are small",
            |_| vec![("x", |shape, draw| 64.0 * items(shape, draw)), ("gamma1", one)],
            |p, output| tolerance(p, output, 64.0),
        ),
    ]
}

pub(crate) fn layer_of(p: &Problem) -> Layer {
    let heads = Heads { s: p["s"] as usize, heads: p["h"] as usize, d: p["d"] as usize, causal: false };
    Layer { heads, f: p["f"] as usize }
}

/// Parameters of the layer, by the index of their buffers.
pub(crate) fn parameters<'a, T: Clone>(read: impl Fn(usize) -> Cow<'a, [T]>) -> Parameters<'a, T> {
    let at = |name: &str| read(1 + LEARNED.iter().position(|n| *n == name).expect("of the layer"));
    Parameters {
        gamma1: at("gamma1"),
        beta1: at("beta1"),
        w: WEIGHTS.map(at),
        b: BIASES.map(at),
        wo: at("wo"),
        bo: at("bo"),
        gamma2: at("gamma2"),
        beta2: at("beta2"),
        w1: at("w1"),
        b1: at("b1"),
        w2: at("w2"),
        b2: at("b2"),
    }
}

/// State of each item, computed once for equal items. With dropout all items are distinct.
fn items_of<T>(p: &Problem, inputs: &Inputs, buffers: &[usize], make: impl FnMut(u64, f64) -> T) -> Items<T> {
    match drops(p) {
        true => Items::each(p["b"], make),
        false => Items::new(inputs, buffers, [p["b"], p["s"] * width(p)], make),
    }
}

/// Operations of a row.
fn row_cost(p: &Problem, output: usize) -> u64 {
    match checked(p, output) {
        WQKV | BQKV => 1,
        _ => width(p) * (4 * width(p) + 2 * p["f"] + 2 * p["s"]),
    }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (c, f, s) = (width(p), p["f"], p["s"]);
    let of = parameters(|buffer| inputs.whole(buffer).into());
    let made = |at: u64, _| {
        let x = inputs.values(X, at * s * c..(at + 1) * s * c);
        let passed = layer_of(p).forward(&x, &of, dropout::of_inputs(p, inputs, at));
        [passed.pre, passed.out]
    };
    let items = items_of(p, inputs, &[X], made);
    Box::new(move |output, row, out| match checked(p, output) {
        WQKV => row_beside(p, inputs, WQ, row, out),
        BQKV => row_beside(p, inputs, BQ, 0, out),
        output => {
            let [pre, result] = items.item(row / s);
            let (from, columns) = if output == PRE { (pre, f) } else { (result, c) };
            out.copy_from_slice(&from[(row % s * columns) as usize..][..columns as usize]);
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (elements, middle) = ((p["s"] * width(p)) as usize, (p["s"] * p["f"]) as usize);
    let of = parameters(|buffer| inputs[buffer].f32().into());
    for (item, x) in inputs[X].f32().chunks_exact(elements).enumerate() {
        let passed = layer_of(p).forward(x, &of, dropout::of_host(p, inputs, item));
        let (out, pre) = outputs.split_last_mut().expect("the result, and the kept argument");
        out[item * elements..][..elements].copy_from_slice(&passed.out);
        if let [pre] = pre {
            pre[item * middle..][..middle].copy_from_slice(&passed.pre);
        }
    }
}
