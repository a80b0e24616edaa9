//! Backward direction: gradients of `x` and of all weights for a gradient `dout` of the result.
//!
//! With `pre = x·w1 + b1` and `hidden = gelu(pre)`: `dw2 = hiddenᵀ·dout`, `db2 = Σ dout`, `dpre = (dout·w2ᵀ) ∘ gelu′(pre)`, `dx =
//! dpre·w1ᵀ`, `dw1 = xᵀ·dpre`, `db1 = Σ dpre`.
//!
//! With `kept`, `pre` comes from the forward pass, which runs before the timing. Otherwise it is recomputed from `x`, which costs a
//! GEMM and saves its memory. `hidden` is recomputed in both cases.
//!
//! Operations: those of the four gradient GEMMs, `8·m·c·f`. Recomputation is not counted.

use std::sync::OnceLock;

use parallax_ir::stress::{no_gradient, smallest_normal, sums_of_zeros};
use parallax_ir::{
    BufferSpec, Elem, Gemm, HostBuffer, Inputs, Layout, OfNan, OpSpec, Problem, Program, Reference, Rows, Stage,
    StressInput, Tolerance, Variant,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::super::gelu;
use super::super::gelu::{gelu_tanh, slope_tanh};
use super::super::linear::backward::by_element;
use super::super::linear::stages::{Epilogue, GemmKind, most_parts, split_parts};
use super::{
    AWKWARD, B1, W1, W2, X, activated, argument, bytes, gemms, inputs, kept, middle, normal, stages, sum_error,
    wgmma_available,
};
use crate::dense;

const DOUT: usize = 4;
/// Index of GELU's argument, if it is kept.
const KEPT: usize = 5;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
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
    .setup(|p, caps| Program { stages: kept(p).then(|| biased(p, caps, GemmKind::Tiles)).into_iter().collect() })
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "every step a stage, products with one element per thread", |p, caps| {
            separate(p, caps, GemmKind::Elements)
        }),
        Variant::kernel("separate", "every step a stage, products by tiles in workgroup memory", |p, caps| {
            separate(p, caps, GemmKind::Tiles)
        }),
        Variant::kernel("fused", "GELU and its slope are done to the sums of dout·w2ᵀ in registers", |p, caps| {
            fused(p, caps, GemmKind::Tiles)
        }),
        Variant::kernel("mma", "the same on tensor cores by warp-wide instructions", |p, caps| {
            fused(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "wgmma",
            "the same on tensor cores by four warps together; the copy engine loads and stores tiles",
            |p, caps| fused(p, caps, GemmKind::Wgmma),
        )
        .only_in(&[Dialect::Cuda])
        .available(wgmma_available),
        Variant::kernel("coopmat", "the same on matrix units through WGSL's cooperative matrices", |p, caps| {
            fused(p, caps, GemmKind::Coopmat)
        })
        .only_in(&[Dialect::Wgsl])
        .available(|p, caps| Gemm::coopmat_available(p.dtype, caps)),
        Variant::kernel("vendor", "products by the vendor's library, cuBLASLt; the rest is ours", |p, caps| {
            fused(p, caps, GemmKind::Library)
        })
        .only_in(&[Dialect::Cuda]),
    ])
    .fallback(&["coopmat", "wgmma", "mma", "fused", "separate", "naive"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["m64,c768,f3072", "m4096,c1152,f4304", "m4096,c1152,f4304,kept"],
        _ => &["m64,c768,f3072", "m4096,c1152,f4304", "m65536,c1152,f4304", "m65536,c1152,f4304,kept"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    let mut buffers = inputs(p);
    buffers.push(BufferSpec::input("dout", Elem::Real, &[m, c], normal));
    buffers.push(match kept(p) {
        true => BufferSpec::setup("pre", Elem::Real, &[m, f]),
        false => BufferSpec::scratch("pre", Elem::Real, &[m, f]),
    });
    buffers.extend([
        BufferSpec::output("dx", Elem::Real, &[m, c]),
        by_element("dw1", &[c, f]),
        by_element("db1", &[f]),
        by_element("dw2", &[f, c]),
        by_element("db2", &[c]),
        BufferSpec::scratch("first", Elem::Real, &[m, f]),
        BufferSpec::scratch("hidden", Elem::Real, &[m, f]),
        BufferSpec::scratch("dhidden", Elem::Real, &[m, f]),
        BufferSpec::scratch("dpre", Elem::Real, &[m, f]),
        BufferSpec::scratch("parts1", Elem::F32, &[most_parts(m), f]),
        BufferSpec::scratch("parts2", Elem::F32, &[most_parts(m), c]),
        split_parts("dw_parts", &gradients(p, [(); 5]).map(|(gemm, _)| gemm)[..2]),
    ]);
    buffers
}

fn cost(p: &Problem) -> Cost {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    let pre = if kept(p) { m * f } else { 0 };
    Cost::new(8 * m * c * f, bytes(p, 2 * m * c + 2 * c * f + pre + f), bytes(p, m * c + 2 * c * f + c + f))
}

/// Indices of the checked buffers with a kept argument of GELU; otherwise the first is absent.
const PRE: usize = 0;
const DX: usize = 1;
const DW1: usize = 2;
const DB1: usize = 3;
const DW2: usize = 4;

fn checked(p: &Problem, output: usize) -> usize {
    if kept(p) { output } else { output + 1 }
}

/// Tolerance for inputs `scale` times as large as seeded ones.
fn tolerance(p: &Problem, output: usize, scale: f64) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    let (m, c, f) = (p["m"] as f64, p["c"] as f64, p["f"] as f64);
    let pre = sum_error(c) * scale + u * (12.0 * scale + 4.0);
    // A gradient in the middle is a sum over c of gradients of one times weights of 1/√f, rounded up to twice. GELU's slope changes
    // by at most 0.8 with an error of its argument.
    let size = (c / f).sqrt();
    let dpre = (sum_error(c) + 8.0 * u + 8.0 * (1.5e-5 + 0.8 * (pre + u * 4.0).min(2.0))) * size;
    let hidden = 1.13 * pre + u * (12.0 * scale + 4.0) + 2e-6 + 1e-5 * scale;
    let of_sum = |terms: f64, factor: f64, error: f64| 8.0 * terms.sqrt() * factor * error;
    let abs = match checked(p, output) {
        PRE => pre,
        DX => of_sum(f, 1.0 / c.sqrt(), dpre) + sum_error(f) * size * (f / c).sqrt(),
        DW1 => of_sum(m, scale, dpre) + sum_error(m) * m.sqrt() * size * scale,
        DB1 => of_sum(m, 1.0, dpre) + sum_error(m) * m.sqrt() * size,
        DW2 => of_sum(m, 1.0, hidden) + sum_error(m) * m.sqrt() * (scale + 1.0),
        _ => sum_error(m) * m.sqrt(),
    };
    Tolerance {
        abs: abs + smallest_normal(p),
        rel: 2.0 * u,
        reason: "products are summed in f32 as in `linear`; GELU's argument, its result and both gradients in the middle are \
                 rounded to the element type, and sums of errors of random sign grow as √ of their number, eight times which \
                 none exceeds with all but certainty",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        no_gradient(|p, output| match checked(p, output) {
            PRE => tolerance(p, output, 1.0),
            _ => sums_of_zeros(p),
        }),
        StressInput::new(
            "far",
            "sums far out on either side, where GELU's slope is one or nothing",
            |_| vec![("x", |_, draw| 64.0 * draw.normal())],
            |p, output| tolerance(p, output, 64.0),
        ),
    ]
}

fn row_cost(p: &Problem, output: usize) -> u64 {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    match checked(p, output) {
        PRE => c * f,
        DX => 3 * c * f,
        DW1 | DB1 => m * (2 * c + 1),
        DW2 => m * (c + 1),
        _ => m,
    }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    // GELU's argument at row i and column j in the middle, and its gradient.
    let pre = move |i: u64, j: u64| -> f64 {
        inputs.at(B1, j) + (0..c).map(|l| inputs.at(X, i * c + l) * inputs.at(W1, l * f + j)).sum::<f64>()
    };
    let dpre = move |i: u64, j: u64, pre: f64| -> f64 {
        slope_tanh(pre) * (0..c).map(|l| inputs.at(DOUT, i * c + l) * inputs.at(W2, j * c + l)).sum::<f64>()
    };
    let made = |count: u64| -> Vec<OnceLock<Vec<f64>>> { (0..count).map(|_| OnceLock::new()).collect() };
    let (arguments, gradients, gradient_rows) = (made(f), made(f), made(m));
    Box::new(move |output, row, out| {
        let argument = |j: u64| arguments[j as usize].get_or_init(|| (0..m).map(|i| pre(i, j)).collect());
        let gradient = |j: u64| {
            gradients[j as usize].get_or_init(|| argument(j).iter().zip(0..).map(|(pre, i)| dpre(i, j, *pre)).collect())
        };
        let along = |column: &[f64], value: &dyn Fn(u64) -> f64| -> f64 {
            column.iter().zip(0..).map(|(x, i)| x * value(i)).sum()
        };
        match checked(p, output) {
            PRE => out.copy_from_slice(&middle(p, inputs, row)),
            DX => {
                let of_row = || middle(p, inputs, row).iter().zip(0..).map(|(pre, j)| dpre(row, j, *pre)).collect();
                let gradient: &Vec<f64> = gradient_rows[row as usize].get_or_init(of_row);
                for (out, l) in out.iter_mut().zip(0..) {
                    *out = gradient.iter().zip(l * f..).map(|(g, at)| g * inputs.at(W1, at)).sum();
                }
            }
            DW1 => out[0] = along(gradient(row % f), &|i| inputs.at(X, i * c + row / f)),
            DB1 => out[0] = gradient(row).iter().sum(),
            DW2 => {
                let hidden: Vec<f64> = argument(row / c).iter().map(|pre| gelu_tanh(*pre)).collect();
                out[0] = along(&hidden, &|i| inputs.at(DOUT, i * c + row % c));
            }
            _ => out[0] = (0..m).map(|i| inputs.at(DOUT, i * c + row)).sum(),
        }
    })
}

/// GEMM for the gradient of GELU's result.
fn through(p: &Problem) -> Gemm {
    Gemm::new(p["m"], p["f"], p["c"]).layout(Layout::Nt)
}

/// GEMMs for the gradients of both weights and of `x`, each with its operands. The operands are from `x`, `w1`, `dout`, GELU's
/// result and the gradient before GELU.
fn gradients<T: Copy>(p: &Problem, [x, w1, dout, hidden, dpre]: [T; 5]) -> [(Gemm, [T; 2]); 3] {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    [
        (Gemm::new(f, c, m).layout(Layout::Tn), [hidden, dout]),
        (Gemm::new(c, f, m).layout(Layout::Tn), [x, dpre]),
        (Gemm::new(m, c, f).layout(Layout::Nt), [dpre, w1]),
    ]
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [x, w1, b1, w2, dout] = [X, W1, B1, W2, DOUT].map(|at| inputs[at].f32());
    let [dx, dw1, db1, dw2, db2] = outputs else { unreachable!("five gradients") };
    let made;
    let pre = match inputs.get(KEPT) {
        Some(kept) => kept.f32(),
        None => {
            made = argument(p, [x, w1, b1]);
            &made
        }
    };
    let hidden = activated(pre);
    let dpre = dense::zipped([&dense::gemm_of(through(p), dout, w2), pre], |dout, pre| dout * slope_tanh(pre));
    for ((gemm, [a, b]), out) in gradients(p, [x, w1, dout, &hidden, &dpre]).into_iter().zip([dw2, dw1, dx]) {
        out.fill(0.0);
        dense::add_gemm(gemm, a, b, out);
    }
    dense::sum_of_rows(&dpre, db1);
    dense::sum_of_rows(dout, db2);
}

/// GELU's argument in one stage.
fn biased(p: &Problem, caps: &Caps, kind: GemmKind) -> Stage {
    let [into, _] = gemms(p);
    stages(p, caps, kind).with_bias(into, ["x", "w1", "pre"], "b1")
}

/// Program with one stage per step.
fn separate(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let (m, f) = (p["m"], p["f"]);
    let made = stages(p, caps, kind);
    let mut all = Vec::new();
    let [into, _] = gemms(p);
    if !kept(p) {
        all.push(made.gemm(into, ["x", "w1", "first"]));
        all.push(made.finish([m, f], Epilogue::Bias, ["first", "pre"], &["b1"]));
    }
    all.push(gelu::forward_stage(m * f, p.dtype, caps, ["pre", "hidden"]));
    all.push(made.gemm(through(p), ["dout", "w2", "dhidden"]));
    all.push(gelu::backward_stage(m * f, p.dtype, caps, ["pre", "dhidden", "dpre"]));
    all.extend(learned(p, caps, kind, ["hidden", "dpre"]));
    Program { stages: all }
}

/// Program with bias, GELU and its slope fused into GEMMs, as far as the kernel kind supports it.
fn fused(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let back = stages(p, caps, kind).gelu_backward(through(p), ["dout", "w2"], kept(p));
    let mut all: Vec<Stage> = (!kept(p)).then(|| biased(p, caps, kind)).into_iter().collect();
    all.extend(back.stages);
    all.extend(learned(p, caps, kind, [back.hidden, back.dpre]));
    Program { stages: all }
}

/// Stages of the gradients, from GELU's result and its argument's gradient.
fn learned(p: &Problem, caps: &Caps, kind: GemmKind, [hidden, dpre]: [&'static str; 2]) -> Vec<Stage> {
    let made = stages(p, caps, kind);
    let taken = ["x", "w1", "dout", hidden, dpre];
    let [(dw2, [a, b]), (dw1, [c, d]), (dx, [e, f])] = gradients(p, taken);
    let mut all = made.of_weight(dw2, [a, b, "dw2"], "dw_parts");
    all.extend(made.of_weight(dw1, [c, d, "dw1"], "dw_parts"));
    all.push(made.gemm(dx, [e, f, "dx"]).label("dx"));
    all.extend(made.columns([p["m"], p["f"]], [dpre, "parts1", "db1"]));
    all.extend(made.columns([p["m"], p["c"]], ["dout", "parts2", "db2"]));
    all
}
