//! Self-attention with its projections: `out = attention(x·wq + bq, x·wk + bk, x·wv + bv)·wo + bo`. Heads are adjacent in a row.
//!
//! Formula: Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2.
//!
//! `x` and `out` are `[b, s, h·d]`, each weight is `[h·d, h·d]` and each bias `[h·d]`. All are dense and row-major. Head `i` is
//! columns `i·d` to `(i+1)·d − 1`. The weights and biases of queries, keys and values are concatenated before the timing, for
//! variants with one GEMM over all three.
//!
//! The variants are levels of optimisation, each on top of the previous one. Level 0 fuses nothing. The next have one GEMM for the
//! three projections of `x`, no score matrix, and the best kernels of the device.
//!
//! Operations: those of the four GEMMs, `8·b·s·(h·d)²`, and of attention, `4·b·h·s²·d`, halved when causal.

use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Gemm, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Rearrange, Reference,
    Rows, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use self::heads::Heads;
use self::items::{Items, normal_items};
use super::attention::flash_wgmma_on_rows;
use super::linear::stages::{Epilogue, GemmKind, Stages};
use crate::SubOp;
use crate::dense::{add_to_rows, gemm_of};
use crate::real::Real;

pub(super) mod heads;
pub(super) mod items;

const X: usize = 0;
const WQ: usize = 1;
const BQ: usize = 4;
const WO: usize = 7;
const BO: usize = 8;

/// Components of the profile.
pub(crate) const INTO_HEADS: &str = "QKV projection";
pub(crate) const SCORES: &str = "score computation";
pub(crate) const SOFTMAX: &str = "softmax";
pub(crate) const WEIGHTED: &str = "weighted sum";
pub(crate) const FLASH: &str = "scores, softmax and weighted sum";
pub(crate) const OUT_OF_HEADS: &str = "output projection";

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "self-attention with its projections, by levels of optimisation",
        axes: const {
            &[
                Axis::extent("b", "batch"),
                Axis::extent("h", "heads"),
                Axis::extent("s", "tokens"),
                Axis::extent("d", "head dim"),
                Axis::word("mask", "keys that a query sees", &["", "causal"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| {
            let width = shape["h"] * shape["d"];
            [3 * shape["b"] * shape["s"] * width, 3 * width * width].into_iter().try_for_each(indexable)
        },
        forms: vec![forward()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        |p, output| tolerance(p, output, 1.0),
        Reference::new(row_cost, rows),
        OfNan::MIXED,
    )
    .headline("b1,h8,s512,d64")
    .shapes(shapes)
    .awkward(&["b1,h1,s1,d1", "b3,h2,s5,d3", "b2,h2,s70,d36,causal", "b1,h2,s130,d64"])
    .setup(side_by_side)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "level0",
            "nothing fused: three products, biases, heads and softmax in stages of their own, scores in device memory",
            level0,
        ),
        Variant::kernel("level1", "queries, keys and values by one product, biases added to sums in registers", level1),
        Variant::kernel("level2", "the same, and attention in one stage without a score matrix", level2)
            .available(|p, caps| attention(p, Direction::Fwd).available("flash", caps)),
        Variant::kernel("level3", "the same on the device's matrix units", level3).available(matrix_units),
        Variant::kernel(
            "wgmma",
            "products by four warps together with tiles from the copy engine, and attention likewise for heads of 64, 72, 80 or 128",
            wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| {
            attention(p, Direction::Fwd).available(by_warpgroups(p, caps, Direction::Fwd), caps)?;
            square(p).wgmma_available(p.dtype, caps)
        }),
        Variant::kernel("vendor", "products and attention by the vendor's libraries, cuBLASLt and cuDNN", vendor)
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| attention(p, Direction::Fwd).available("vendor", caps)),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["wgmma", "level3", "level2", "level1", "level0"])
    .stress(stress_inputs())
}

/// Shapes of a preset. 16 heads of 72 are those of SigLIP 2's So400m vision tower, which has 256 patches an image.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,h8,s512,d64", "b8,h16,s256,d72", "b1,h16,s2048,d64", "b1,h16,s2048,d64,causal"],
        _ => &["b1,h8,s512,d64", "b8,h16,s256,d72", "b256,h16,s256,d72", "b4,h16,s2048,d128,causal"],
    }
}

/// Number of elements in a row.
pub(crate) fn width(p: &Problem) -> u64 {
    p["h"] * p["d"]
}

/// Number of rows of all items.
pub(crate) fn row_count(p: &Problem) -> u64 {
    p["b"] * p["s"]
}

/// Weight scaled so that sums over normal inputs have about the magnitude of the inputs.
pub(crate) fn weight(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / ((shape["h"] * shape["d"]) as f64).sqrt()
}

pub(crate) fn bias(_: &Shape, draw: Draw) -> f64 {
    0.25 * draw.normal()
}

pub(crate) fn items(shape: &Shape, draw: Draw) -> f64 {
    normal_items(draw, shape["s"] * shape["h"] * shape["d"])
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, s, d, c) = (p["b"], p["h"], p["s"], p["d"], width(p));
    let inner = attention(p, Direction::Fwd);
    vec![
        BufferSpec::input("x", Elem::Real, &[b, s, c], items),
        BufferSpec::input("wq", Elem::Real, &[c, c], weight),
        BufferSpec::input("wk", Elem::Real, &[c, c], weight),
        BufferSpec::input("wv", Elem::Real, &[c, c], weight),
        BufferSpec::input("bq", Elem::Real, &[c], bias),
        BufferSpec::input("bk", Elem::Real, &[c], bias),
        BufferSpec::input("bv", Elem::Real, &[c], bias),
        BufferSpec::input("wo", Elem::Real, &[c, c], weight),
        BufferSpec::input("bo", Elem::Real, &[c], bias),
        BufferSpec::setup("wqkv", Elem::Real, &[c, 3 * c]),
        BufferSpec::setup("bqkv", Elem::Real, &[3 * c]),
        BufferSpec::output("out", Elem::Real, &[b, s, c]),
        BufferSpec::scratch("product", Elem::Real, &[b, s, c]),
        BufferSpec::scratch("rows", Elem::Real, &[b, s, c]),
        BufferSpec::scratch("qkv", Elem::Real, &[b, s, 3 * c]),
        BufferSpec::scratch("q", Elem::Real, &[b, h, s, d]),
        BufferSpec::scratch("k", Elem::Real, &[b, h, s, d]),
        BufferSpec::scratch("v", Elem::Real, &[b, h, s, d]),
        inner.scratch("scores", "scores"),
        inner.scratch("drawn", "drawn"),
        BufferSpec::scratch("mixed", Elem::Real, &[b, h, s, d]),
        BufferSpec::scratch("merged", Elem::Real, &[b, s, c]),
    ]
}

fn cost(p: &Problem) -> Cost {
    let (rows, c, element) = (row_count(p), width(p), Elem::Real.storage(p.dtype).bytes());
    let scores = 4 * rows * p["s"] * c / if p.shape.has("causal") { 2 } else { 1 };
    Cost::new(8 * rows * c * c + scores, (rows * c + 4 * c * c + 4 * c) * element, rows * c * element)
}

/// Indices of the checked buffers, in buffer order.
const WQKV: usize = 0;
const BQKV: usize = 1;

/// Tolerance for inputs `scale` times as large as seeded ones.
fn tolerance(p: &Problem, output: usize, scale: f64) -> Tolerance {
    if matches!(output, WQKV | BQKV) {
        return Tolerance { abs: smallest_normal(p), rel: 0.0, reason: "copied" };
    }
    let Rounding { u, sum } = Rounding::new(p, width(p));
    let projected = scale * (2.0 * u + sum);
    Tolerance {
        abs: 8.0 * (mixed_error(p, scale, projected) + scale * (u + sum)) + smallest_normal(p),
        rel: 2.0 * u,
        reason: "errors of random sign, eight times the standard deviation, which almost certainly bound all of them: sums of \
                 h·d products wander by √(h·d) f32 roundings; queries, keys and values are rounded twice to the element type \
                 and carry that into scores, weights and their sums, which are rounded, projected and rounded again",
    }
}

/// Standard deviations of errors in results of about one: of a rounding to the element type, and of an f32 sum of products.
#[derive(Clone, Copy)]
pub(crate) struct Rounding {
    pub(crate) u: f64,
    pub(crate) sum: f64,
}

impl Rounding {
    /// Errors of sums of `terms` products.
    pub(crate) fn new(p: &Problem, terms: u64) -> Rounding {
        Rounding { u: p.dtype.unit_roundoff(), sum: 2f64.powi(-23) * (terms as f64).sqrt() }
    }
}

/// Standard deviation of the error of attention's output. Queries, keys and values have the error `projected` and the magnitude
/// `scale`.
pub(crate) fn mixed_error(p: &Problem, scale: f64, projected: f64) -> f64 {
    let (f32u, s, d) = (2f64.powi(-24), p["s"] as f64, p["d"] as f64);
    // A score is 1/√d times the sum of d products of two inexact factors. Its error is the relative error of its weight.
    let score = 1.5 * scale * projected + 2.0 * f32u * d.sqrt() * scale * scale;
    projected + scale * (score.min(1.0) + p.dtype.unit_roundoff() + 2.0 * f32u * s.sqrt())
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "no inputs: every row is the projected bias of the values",
            |_| vec![("x", zero)],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "equal",
            "all rows alike: every key has the same weight",
            |_| vec![("x", one)],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "large",
            "inputs eight times as large: rows whose weights are close to one and nothing",
            |_| vec![("x", |shape, draw| 8.0 * items(shape, draw))],
            // Weights that are nearly equal may change places for an error of their scores.
            |p, output| tolerance(p, output, 8.0),
        ),
    ]
}

/// Multiply-adds of a row: its share of the projections, and attention.
fn row_cost(p: &Problem, output: usize) -> u64 {
    match output {
        WQKV | BQKV => 1,
        _ => 4 * width(p) * width(p) + 2 * p["s"] * width(p),
    }
}

pub(crate) fn heads_of(p: &Problem) -> Heads {
    Heads { s: p["s"] as usize, heads: p["h"] as usize, d: p["d"] as usize, causal: p.shape.has("causal") }
}

/// Output rows of a batch item.
fn item<T: Real>(p: &Problem, x: &[T], weights: [&[T]; 4], biases: [&[T]; 4]) -> Vec<T> {
    let (heads, c) = (heads_of(p), width(p));
    let square = Gemm::new(heads.s as u64, c, c);
    let projected = |x: &[T], which: usize| add_to_rows(gemm_of(square, x, weights[which]), biases[which]);
    let [q, k, v] = [0, 1, 2].map(|which| projected(x, which));
    projected(&heads.attend(&q, &k, &v).out, 3)
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (c, s) = (width(p), p["s"]);
    let weights = [WQ, WQ + 1, WQ + 2, WO].map(|w| inputs.whole(w));
    let biases = [BQ, BQ + 1, BQ + 2, BO].map(|b| inputs.whole(b));
    let made = |at: u64, _| {
        let x = inputs.values(X, at * s * c..(at + 1) * s * c);
        item(p, &x, weights.each_ref().map(|w| &w[..]), biases.each_ref().map(|b| &b[..]))
    };
    let items = Items::new(inputs, &[X], [p["b"], s * c], made);
    Box::new(move |output, row, out| match output {
        WQKV => row_beside(p, inputs, WQ, row, out),
        BQKV => row_beside(p, inputs, BQ, 0, out),
        _ => out.copy_from_slice(&items.item(row / s)[(row % s * c) as usize..][..c as usize]),
    })
}

/// Row of three concatenated weights or biases; `first` is the index of the first input.
pub(crate) fn row_beside(p: &Problem, inputs: &Inputs, first: usize, row: u64, out: &mut [f64]) {
    let c = width(p);
    for (out, at) in out.iter_mut().zip(0..) {
        *out = inputs.at(first + (at / c) as usize, row * c + at % c);
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let elements = (p["s"] * width(p)) as usize;
    let weights = [WQ, WQ + 1, WQ + 2, WO].map(|w| inputs[w].f32());
    let biases = [BQ, BQ + 1, BQ + 2, BO].map(|b| inputs[b].f32());
    for (out, x) in outputs[0].chunks_exact_mut(elements).zip(inputs[X].f32().chunks_exact(elements)) {
        out.copy_from_slice(&item(p, x, weights, biases));
    }
}

/// Attention as a sub-operation.
pub(crate) fn attention(p: &Problem, direction: Direction) -> SubOp {
    let causal = if p.shape.has("causal") { ",causal" } else { "" };
    let shape = format!("b{},h{},s{},d{}{causal}", p["b"], p["h"], p["s"], p["d"]);
    SubOp::new("attention", direction, &shape, p.dtype)
}

pub(crate) const PROJECTED: [&str; 3] = ["q", "k", "v"];
pub(crate) const WEIGHTS: [&str; 3] = ["wq", "wk", "wv"];
pub(crate) const BIASES: [&str; 3] = ["bq", "bk", "bv"];
const SPLIT: [&str; 3] = ["q_heads", "k_heads", "v_heads"];

/// Set-up that concatenates the weights, and the biases, of queries, keys and values into one buffer each.
pub(crate) fn side_by_side(p: &Problem, caps: &Caps) -> Program {
    let c = width(p);
    let beside = |rows: u64, names: [&'static str; 3], to: &'static str| {
        let stage = move |(which, from): (usize, &'static str)| {
            let moved = Rearrange::beside([rows, c], 3 * c, which as u64 * c);
            moved.stage(p.dtype, caps, [from, to]).label(format!("{from}_beside"))
        };
        names.into_iter().enumerate().map(stage).collect::<Vec<_>>()
    };
    Program { stages: beside(c, WEIGHTS, "wqkv").into_iter().chain(beside(1, BIASES, "bqkv")).collect() }
}

pub(crate) fn stages<'a>(p: &Problem, caps: &'a Caps, kind: GemmKind) -> Stages<'a> {
    Stages { dtype: p.dtype, caps, kind }
}

/// GEMM of all rows with a square matrix.
pub(crate) fn square(p: &Problem) -> Gemm {
    Gemm::new(row_count(p), width(p), width(p))
}

/// Rearrangement that separates heads, from rows of `width` elements with the heads at `first`.
pub(crate) fn split(p: &Problem, width: u64, first: u64) -> Rearrange {
    Rearrange::split_heads([p["b"], p["h"], p["s"], p["d"]], width, first)
}

fn level0(p: &Problem, caps: &Caps) -> Program {
    let mut all = projected_apart(p, caps, "x");
    all.extend(unfused(p, caps));
    all.extend(output_apart(p, caps, "out"));
    Program { stages: all }
}

/// Stages of the query, key and value projections of a buffer, one per step.
pub(crate) fn projected_apart(p: &Problem, caps: &Caps, x: &'static str) -> Vec<Stage> {
    let (made, c) = (stages(p, caps, GemmKind::Tiles), width(p));
    let rows = [row_count(p), c];
    let mut all = Vec::new();
    for which in 0..3 {
        let name = PROJECTED[which];
        all.push(made.gemm(square(p), [x, WEIGHTS[which], "product"]).label(format!("{name}_product")));
        all.push(
            made.finish(rows, Epilogue::Bias, ["product", "rows"], &[BIASES[which]]).label(format!("{name}_bias")),
        );
        all.push(split(p, c, 0).stage(p.dtype, caps, ["rows", name]).label(SPLIT[which]));
    }
    all.into_iter().map(|stage| stage.component(INTO_HEADS)).collect()
}

/// Stages after attention, one per step.
pub(crate) fn output_apart(p: &Problem, caps: &Caps, out: &'static str) -> Vec<Stage> {
    let (made, rows) = (stages(p, caps, GemmKind::Tiles), [row_count(p), width(p)]);
    let gemm = made.gemm(square(p), ["merged", "wo", "product"]).label("out_product");
    let bias = made.finish(rows, Epilogue::Bias, ["product", out], &["bo"]).label("out_bias");
    [merge(p, caps), gemm, bias].into_iter().map(|stage| stage.component(OUT_OF_HEADS)).collect()
}

/// Attention with its scores in device memory.
pub(crate) fn unfused(p: &Problem, caps: &Caps) -> Vec<Stage> {
    let stages = attention(p, Direction::Fwd).stages("manual", caps, &[("out", "mixed")]);
    stages.into_iter().zip([SCORES, SOFTMAX, WEIGHTED]).map(|(stage, component)| stage.component(component)).collect()
}

/// Stage that concatenates the heads again.
pub(crate) fn merge(p: &Problem, caps: &Caps) -> Stage {
    split(p, width(p), 0).reversed().stage(p.dtype, caps, ["mixed", "merged"]).label("merge_heads")
}

/// Stages of the query, key and value projections of a buffer, with one GEMM.
pub(crate) fn projected(p: &Problem, caps: &Caps, kind: GemmKind, x: &'static str) -> Vec<Stage> {
    let c = width(p);
    let wide = Gemm::new(row_count(p), 3 * c, c);
    let gemm = stages(p, caps, kind).with_bias(wide, [x, "wqkv", "qkv"], "bqkv").label("qkv_product");
    let mut all = vec![gemm];
    let apart = if on_rows(p, caps, kind) { 0..0 } else { 0..3 };
    for which in apart {
        let apart = split(p, 3 * c, which as u64 * c);
        all.push(apart.stage(p.dtype, caps, ["qkv", PROJECTED[which]]).label(SPLIT[which]));
    }
    all.into_iter().map(|stage| stage.component(INTO_HEADS)).collect()
}

/// Stages after attention.
pub(crate) fn output(p: &Problem, caps: &Caps, kind: GemmKind, out: &'static str) -> Vec<Stage> {
    let gemm = stages(p, caps, kind).with_bias(square(p), ["merged", "wo", out], "bo").label("out_product");
    let merged = (!on_rows(p, caps, kind)).then(|| merge(p, caps));
    merged.into_iter().chain([gemm]).map(|stage| stage.component(OUT_OF_HEADS)).collect()
}

/// Whether attention beside GEMMs of this kind reads `qkv` and writes `merged`, without a matrix for each head. Otherwise it reads
/// `q`, `k` and `v`, and writes `mixed`.
pub(crate) fn on_rows(p: &Problem, caps: &Caps, kind: GemmKind) -> bool {
    matches!(kind, GemmKind::Wgmma) && by_warpgroups(p, caps, Direction::Fwd) == "flash_wgmma"
}

/// Attention beside GEMMs of this kind: on rows where [`on_rows`] says it, otherwise by the named variant.
pub(crate) fn attended(p: &Problem, caps: &Caps, kind: GemmKind, variant: &str) -> Vec<Stage> {
    if !on_rows(p, caps, kind) {
        return flash(p, caps, variant);
    }
    let inner = attention(p, Direction::Fwd);
    let stages = flash_wgmma_on_rows(inner.problem(), caps).stages;
    let names = [("q", "qkv"), ("k", "qkv"), ("v", "qkv"), ("out", "merged")];
    stages.into_iter().map(|stage| stage.on_buffers(&names).component(FLASH)).collect()
}

/// Program with one GEMM into heads and one out of them, around attention.
fn around(p: &Problem, caps: &Caps, kind: GemmKind, attention: Vec<Stage>) -> Program {
    let mut all = projected(p, caps, kind, "x");
    all.extend(attention);
    all.extend(output(p, caps, kind, "out"));
    Program { stages: all }
}

fn level1(p: &Problem, caps: &Caps) -> Program {
    around(p, caps, GemmKind::Tiles, unfused(p, caps))
}

/// Attention in one stage, by the named variant.
fn flash(p: &Problem, caps: &Caps, variant: &str) -> Vec<Stage> {
    attention(p, Direction::Fwd)
        .stages(variant, caps, &[("out", "mixed")])
        .into_iter()
        .map(|stage| stage.component(FLASH))
        .collect()
}

fn level2(p: &Problem, caps: &Caps) -> Program {
    around(p, caps, GemmKind::Tiles, flash(p, caps, "flash"))
}

/// Attention variant beside GEMMs by warpgroups: by warpgroups too, if there is one for these heads.
pub(crate) fn by_warpgroups(p: &Problem, caps: &Caps, direction: Direction) -> &'static str {
    match attention(p, direction).available("flash_wgmma", caps) {
        Ok(()) => "flash_wgmma",
        Err(_) => "flash_mma",
    }
}

/// GEMM kind on the device's matrix units, and the attention variant for them.
fn on_matrix_units(caps: &Caps) -> (GemmKind, &'static str) {
    match caps.dialect {
        Dialect::Wgsl => (GemmKind::Coopmat, "flash_coopmat"),
        _ => (GemmKind::Mma, "flash_mma"),
    }
}

/// Checks that the device has matrix units for it.
pub(crate) fn matrix_units(p: &Problem, caps: &Caps) -> Result<(), String> {
    let (kind, flash) = on_matrix_units(caps);
    let gemm = || match kind {
        GemmKind::Coopmat => Gemm::coopmat_available(p.dtype, caps),
        _ => Gemm::mma_available(p.dtype, caps),
    };
    let both = attention(p, Direction::Fwd).available(flash, caps).and_then(|()| gemm());
    both.map_err(|why| format!("level2 is the best that this device has: {why}"))
}

fn level3(p: &Problem, caps: &Caps) -> Program {
    let (kind, attention) = on_matrix_units(caps);
    around(p, caps, kind, flash(p, caps, attention))
}

fn wgmma(p: &Problem, caps: &Caps) -> Program {
    let kind = GemmKind::Wgmma;
    around(p, caps, kind, attended(p, caps, kind, by_warpgroups(p, caps, Direction::Fwd)))
}

fn vendor(p: &Problem, caps: &Caps) -> Program {
    around(p, caps, GemmKind::Library, flash(p, caps, "vendor"))
}
