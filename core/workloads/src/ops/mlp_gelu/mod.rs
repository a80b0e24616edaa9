//! Feed-forward part of a transformer: `out = gelu(x·w1 + b1)·w2 + b2`.
//!
//! `x` and `out` are `[m, c]`, `w1` is `[c, f]`, `w2` `[f, c]`, `b1` `[f]` and `b2` `[c]`. All are dense and row-major. GELU uses
//! the tanh formula of the workload `gelu`, and is applied to the f32 sum if it is fused. With `kept`, GELU's argument stays in
//! memory for the backward pass. Forward it is an additional output. Backward it is an input and is not recomputed.
//!
//! Operations: those of the two GEMMs, `4·m·c·f`.

use std::sync::OnceLock;

use parallax_ir::parallel::*;
use parallax_ir::stress::{smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Gemm, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Rows, Shape,
    StressInput, Tolerance, Variant, Workload, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::gelu;
use super::gelu::gelu_tanh;
use super::linear::stages::{Epilogue, GemmKind, Stages};
use crate::dense;

mod backward;

const X: usize = 0;
const W1: usize = 1;
const B1: usize = 2;
const W2: usize = 3;
const B2: usize = 4;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "feed-forward part of a transformer: linear, GELU, linear",
        axes: const {
            &[
                Axis::extent("m", "rows"),
                Axis::extent("c", "width"),
                Axis::extent("f", "hidden width"),
                Axis::word(
                    "activation",
                    "whether GELU's argument stays in memory for the backward pass",
                    &["", "kept"],
                ),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| {
            [("m", "c"), ("m", "f"), ("c", "f")].into_iter().try_for_each(|(a, b)| indexable(shape[a] * shape[b]))
        },
        forms: vec![forward(), backward::form()],
    }
}

const AWKWARD: &[&str] = &["m1,c1,f1", "m5,c3,f7,kept", "m67,c65,f131", "m66,c72,f136,kept", "m131,c40,f200"];

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
    .headline("m64,c768,f3072")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "four stages, products with one element per thread: product, bias and GELU, product, bias",
            |p, caps| apart(p, caps, GemmKind::Elements),
        ),
        Variant::kernel("separate", "the same four, products by tiles in workgroup memory", |p, caps| {
            apart(p, caps, GemmKind::Tiles)
        }),
        Variant::kernel("fused", "two stages: biases and GELU are done to sums in registers", |p, caps| {
            fused(p, caps, GemmKind::Tiles)
        }),
        Variant::kernel("mma", "the same two on tensor cores by warp-wide instructions", |p, caps| {
            fused(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "wgmma",
            "the same two on tensor cores by four warps together; the copy engine loads and stores tiles",
            |p, caps| fused(p, caps, GemmKind::Wgmma),
        )
        .only_in(&[Dialect::Cuda])
        .available(wgmma_available),
        Variant::kernel("coopmat", "the same two on matrix units through WGSL's cooperative matrices", |p, caps| {
            fused(p, caps, GemmKind::Coopmat)
        })
        .only_in(&[Dialect::Wgsl])
        .available(|p, caps| Gemm::coopmat_available(p.dtype, caps)),
        Variant::kernel(
            "vendor",
            "the vendor's library, cuBLASLt, with its own epilogues; a kept argument makes GELU a stage of ours",
            |p, caps| fused(p, caps, GemmKind::Library),
        )
        .only_in(&[Dialect::Cuda]),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["coopmat", "wgmma", "mma", "fused", "separate", "naive"])
    .stress(stress_inputs())
}

/// Shapes of a preset. 1152 and 4304 are those of SigLIP 2's So400m vision tower, which has 256 patches an image.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["m64,c768,f3072", "m4096,c1152,f4304", "m4096,c1152,f4304,kept"],
        _ => &["m64,c768,f3072", "m4096,c1152,f4304", "m65536,c1152,f4304", "m65536,c1152,f4304,kept"],
    }
}

/// Weight scaled so that sums over normal inputs have about the magnitude of the inputs.
fn into_middle(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / (shape["c"] as f64).sqrt()
}

fn out_of_middle(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / (shape["f"] as f64).sqrt()
}

/// Inputs and weights of both directions.
fn inputs(p: &Problem) -> Vec<BufferSpec> {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[m, c], normal),
        BufferSpec::input("w1", Elem::Real, &[c, f], into_middle),
        BufferSpec::input("b1", Elem::Real, &[f], normal),
        BufferSpec::input("w2", Elem::Real, &[f, c], out_of_middle),
    ]
}

/// Whether GELU's argument stays in memory.
fn kept(p: &Problem) -> bool {
    p.shape.has("kept")
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    let mut buffers = inputs(p);
    buffers.push(BufferSpec::input("b2", Elem::Real, &[c], normal));
    if kept(p) {
        buffers.push(BufferSpec::output("pre", Elem::Real, &[m, f]));
    }
    buffers.extend([
        BufferSpec::output("out", Elem::Real, &[m, c]),
        BufferSpec::scratch("hidden", Elem::Real, &[m, f]),
        // GEMM results for separate epilogue stages.
        BufferSpec::scratch("first", Elem::Real, &[m, f]),
        BufferSpec::scratch("second", Elem::Real, &[m, c]),
    ]);
    buffers
}

/// Bytes of `elements` elements.
fn bytes(p: &Problem, elements: u64) -> u64 {
    elements * Elem::Real.storage(p.dtype).bytes()
}

fn cost(p: &Problem) -> Cost {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    let pre = if kept(p) { m * f } else { 0 };
    Cost::new(4 * m * c * f, bytes(p, m * c + 2 * c * f + c + f), bytes(p, m * c + pre))
}

/// Indices of the checked buffers: GELU's argument, if it is kept, and the result.
const PRE: usize = 0;

fn checked(p: &Problem, output: usize) -> usize {
    if kept(p) { output } else { output + 1 }
}

/// Error of a sum of `terms` products, in a sum of about one.
fn sum_error(terms: f64) -> f64 {
    8.0 * 2f64.powi(-24) * (terms + 12.0 * terms.sqrt())
}

/// Tolerance for inputs `scale` times as large as seeded ones.
fn tolerance(p: &Problem, output: usize, scale: f64) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    let (c, f) = (p["c"] as f64, p["f"] as f64);
    let first = sum_error(c) * scale + u * (12.0 * scale + 4.0);
    // An element in the middle has that error, GELU's own error and its rounding. Errors of random sign add as √f, and weights are
    // about 1/√f.
    let middle = 1.13 * first + u * (12.0 * scale + 4.0) + 2e-6 + 1e-5 * scale;
    let abs = match checked(p, output) {
        PRE => first,
        _ => 8.0 * middle + sum_error(f) * scale + u * (12.0 * scale + 4.0),
    };
    Tolerance {
        abs: abs + smallest_normal(p),
        rel: 2.0 * u,
        reason: "products are summed in f32 as in `linear`; intermediates are rounded to the element type up to three \
                 times, before the bias, before GELU and behind it, and a sum of f such errors of random sign, times weights of \
                 1/√f, is eight of them with all but certainty",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "all zero: half-way down GELU's slope",
            |_| vec![("x", zero), ("b1", zero)],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "far",
            "sums far out on either side, where GELU is its argument or nothing",
            |_| vec![("x", |_, draw| 64.0 * draw.normal())],
            |p, output| tolerance(p, output, 64.0),
        ),
    ]
}

/// Returns a row of `x·w1 + b1`.
fn middle(p: &Problem, inputs: &Inputs, row: u64) -> Vec<f64> {
    let (c, f) = (p["c"], p["f"]);
    let mut out: Vec<f64> = (0..f).map(|j| inputs.at(B1, j)).collect();
    for l in 0..c {
        let x = inputs.at(X, row * c + l);
        for (out, at) in out.iter_mut().zip(l * f..) {
            *out += x * inputs.at(W1, at);
        }
    }
    out
}

fn row_cost(p: &Problem, _output: usize) -> u64 {
    2 * p["c"] * p["f"]
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (m, c) = (p["m"], p["c"]);
    let known: Vec<OnceLock<Vec<f64>>> = (0..m).map(|_| OnceLock::new()).collect();
    Box::new(move |output, row, out| {
        let pre = known[row as usize].get_or_init(|| middle(p, inputs, row));
        if checked(p, output) == PRE {
            return out.copy_from_slice(pre);
        }
        for (out, j) in out.iter_mut().zip(0..) {
            *out = inputs.at(B2, j);
        }
        for (pre, l) in pre.iter().zip(0..) {
            let hidden = gelu_tanh(*pre);
            for (out, at) in out.iter_mut().zip(l * c..) {
                *out += hidden * inputs.at(W2, at);
            }
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [x, w1, b1, w2, b2] = [X, W1, B1, W2, B2].map(|at| inputs[at].f32());
    let [_, out_of] = gemms(p);
    let (out, kept) = outputs.split_last_mut().expect("the result, and the kept argument");
    let pre = argument(p, [x, w1, b1]);
    let hidden = activated(&pre);
    kept.iter_mut().for_each(|kept| kept.copy_from_slice(&pre));
    out.par_chunks_mut(b2.len()).for_each(|out| out.copy_from_slice(b2));
    dense::add_gemm(out_of, &hidden, w2, out);
}

/// GELU's argument, in f32.
fn argument(p: &Problem, [x, w1, b1]: [&[f32]; 3]) -> Vec<f32> {
    let [into, _] = gemms(p);
    let mut sums = b1.repeat(p["m"] as usize);
    dense::add_gemm(into, x, w1, &mut sums);
    sums
}

/// GELU of each element, in f32.
fn activated(pre: &[f32]) -> Vec<f32> {
    dense::mapped(pre, gelu_tanh)
}

fn stages<'a>(p: &Problem, caps: &'a Caps, kind: GemmKind) -> Stages<'a> {
    Stages { dtype: p.dtype, caps, kind }
}

/// GEMMs into the middle, and out of it.
fn gemms(p: &Problem) -> [Gemm; 2] {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    [Gemm::new(m, f, c), Gemm::new(m, c, f)]
}

/// Checks that a device can compute the GEMMs of either direction by `wgmma`. Their rows have both widths.
fn wgmma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    gemms(p).iter().try_for_each(|gemm| gemm.wgmma_available(p.dtype, caps))
}

/// Program with one stage per step.
fn apart(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let stages = stages(p, caps, kind);
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    let [into, out_of] = gemms(p);
    let mut all = vec![stages.gemm(into, ["x", "w1", "first"])];
    match kept(p) {
        true => {
            all.push(stages.finish([m, f], Epilogue::Bias, ["first", "pre"], &["b1"]));
            all.push(gelu::forward_stage(m * f, p.dtype, caps, ["pre", "hidden"]));
        }
        false => all.push(stages.finish([m, f], Epilogue::Gelu, ["first", "hidden"], &["b1"])),
    }
    all.push(stages.gemm(out_of, ["hidden", "w2", "second"]));
    all.push(stages.finish([m, c], Epilogue::Bias, ["second", "out"], &["b2"]));
    Program { stages: all }
}

fn fused(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let made = stages(p, caps, kind);
    let [into, out_of] = gemms(p);
    let mut all = made.with_gelu(into, ["x", "w1", "hidden"], "b1", kept(p).then_some("pre"));
    all.push(made.with_bias(out_of, ["hidden", "w2", "out"], "b2"));
    Program { stages: all }
}
