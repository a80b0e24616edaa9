//! Backward direction: gradients of `x`, `w` and `bias` for a gradient `dout` of the result.
//!
//! With `g = dout`, or `dout ∘ gelu′(x·w + bias)` after GELU: `dx = g·wᵀ`, `dw = xᵀ·g`, `dbias = Σ g` over rows and batch. `dx` and
//! `dw` have the layouts of `x` and `w`. GELU's argument is computed before the timing and kept in the element type, as the forward
//! pass leaves it. The residual's gradient is `dout` and is not computed.
//!
//! Operations: those of the two GEMMs, `4·b·m·n·k`.

use std::sync::OnceLock;

use parallax_ir::stress::{no_gradient, one, smallest_normal};
use parallax_ir::{
    BufferSpec, Elem, Gemm, HostBuffer, Inputs, Layout, OfNan, OpSpec, Problem, Program, Reference, Role, Rows,
    StressInput, Tolerance, Variant,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::super::gelu;
use super::super::gelu::slope_tanh;
use super::stages::{Epilogue, GemmKind, most_parts, split_parts};
use super::{AWKWARD, W, X, biased, gemm, normal, sizes, stages, w_at, w_dims, weight, x_at, x_dims};
use crate::dense;

const DOUT: usize = 2;
const BIAS: usize = 3;
/// Index of GELU's argument, if it is kept.
const KEPT: usize = 4;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        cost,
        |p, output| tolerance(p, checked(p, output)),
        Reference::new(|p, output| row_cost(p, checked(p, output)), rows),
        OfNan::MIXED,
    )
    .headline("m512,n1024,k1024,nt,gelu")
    .shapes(shapes)
    .awkward(AWKWARD)
    .setup(|p, caps| {
        let biased = || stages(p, caps, GemmKind::Tiles).fused(gemm(p), Epilogue::Bias, ["x", "w", "pre"], &["bias"]);
        Program { stages: kept(p).then(biased).into_iter().collect() }
    })
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "products with one element per thread; columns are summed in parts", |p, caps| {
            program(p, caps, GemmKind::Elements)
        }),
        Variant::kernel("tiled", "products by tiles in workgroup memory", |p, caps| program(p, caps, GemmKind::Tiles)),
        Variant::kernel("mma", "products on tensor cores by warp-wide instructions", |p, caps| {
            program(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "wgmma",
            "products on tensor cores by four warps together; the copy engine loads and stores tiles",
            |p, caps| program(p, caps, GemmKind::Wgmma),
        )
        .only_in(&[Dialect::Cuda])
        .available(wgmma_available),
        Variant::kernel("coopmat", "products on matrix units through WGSL's cooperative matrices", |p, caps| {
            program(p, caps, GemmKind::Coopmat)
        })
        .only_in(&[Dialect::Wgsl])
        .available(|p, caps| Gemm::coopmat_available(p.dtype, caps)),
        Variant::kernel("vendor", "products by the vendor's library, cuBLASLt; the rest is ours", |p, caps| {
            program(p, caps, GemmKind::Library)
        })
        .only_in(&[Dialect::Cuda]),
    ])
    .fallback(&["coopmat", "wgmma", "mma", "tiled", "naive"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["m512,n1024,k1024,nt,gelu", "m4096,n4304,k1152,gelu", "m4096,n4096,k4096,nt"],
        _ => &["m512,n1024,k1024,nt,gelu", "m65536,n4304,k1152,gelu", "m8192,n8192,k8192", "b16,m2048,n2048,k2048,tn"],
    }
}

/// Whether the shape has GELU, which needs its argument from the forward pass.
fn kept(p: &Problem) -> bool {
    p.shape.has("gelu") || p.shape.has("residual")
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let out = [p["b"], p["m"], p["n"]];
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &x_dims(p), normal),
        BufferSpec::input("w", Elem::Real, &w_dims(p), weight),
        BufferSpec::input("dout", Elem::Real, &out, normal),
    ];
    if kept(p) {
        buffers.push(BufferSpec::input("bias", Elem::Real, &[p["n"]], normal));
        buffers.push(BufferSpec::setup("pre", Elem::Real, &out));
    }
    buffers.extend([
        BufferSpec::output("dx", Elem::Real, &x_dims(p)),
        by_element("dw", &w_dims(p)),
        by_element("dbias", &[p["n"]]),
        BufferSpec::scratch("dpre", Elem::Real, &out),
        BufferSpec::scratch("parts", Elem::F32, &[most_parts(p["b"] * p["m"]), p["n"]]),
        split_parts("dw_parts", &[gradients(gemm(p), [(); 3])[1].0]),
    ]);
    buffers
}

/// Output that is checked by element. A whole row depends on all gradients before GELU, too many for f64 at large shapes. One
/// element depends on a column of them.
pub(crate) fn by_element(name: &'static str, dims: &[u64]) -> BufferSpec {
    BufferSpec { role: Role::Output { row_len: 1 }, ..BufferSpec::output(name, Elem::Real, dims) }
}

/// Indices of the checked buffers, in buffer order.
const PRE: usize = 0;
const DX: usize = 1;
const DW: usize = 2;

/// Maps an output to these indices: without a kept argument, the first is absent.
fn checked(p: &Problem, output: usize) -> usize {
    if kept(p) { output } else { output + 1 }
}

fn cost(p: &Problem) -> Cost {
    let [x, w, out, bias] = sizes(p);
    let pre = if kept(p) { out } else { 0 };
    Cost::new(2 * gemm(p).flops(), x + w + out + pre, x + w + bias)
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    scaled(p, output, [1.0; 3])
}

/// Tolerance for inputs, weights and gradients that are multiples of seeded ones.
fn scaled(p: &Problem, output: usize, [x, w, dout]: [f64; 3]) -> Tolerance {
    let (u, f32u) = (p.dtype.unit_roundoff(), 2f64.powi(-24));
    let (rows, n, k) = ((p["b"] * p["m"]) as f64, p["n"] as f64, p["k"] as f64);
    // A gradient of at most 3.47. Its error is its own rounding and that of GELU's argument, times x of at most 0.6 there.
    let gradient = if kept(p) { dout * (8.0 * u + 1.5e-5 * x * w) } else { 0.0 };
    let sums = |terms: f64| f32u * (terms + 12.0 * terms.sqrt()) + gradient / dout.max(1e-300);
    let abs = match output {
        PRE => 8.0 * f32u * (k + 12.0 * k.sqrt()) * x * w,
        DX => 8.0 * n.sqrt() * sums(n) * dout * w / k.sqrt(),
        DW => 8.0 * (p["m"] as f64).sqrt() * sums(p["m"] as f64) * dout * x,
        _ => 8.0 * rows.sqrt() * sums(rows) * dout,
    };
    Tolerance {
        abs: abs + smallest_normal(p),
        rel: 2.0 * u,
        reason: "as in the forward form, for sums of n terms (dx), of m (dw) and of b·m (dbias); gradients may be rounded to \
                 the element type behind GELU, whose argument was, and such errors of random sign add up as √ of their number",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        no_gradient(|p, output| match checked(p, output) {
            PRE => tolerance(p, PRE),
            gradient => scaled(p, gradient, [1.0, 1.0, 0.0]),
        }),
        StressInput::new(
            "equal",
            "all one: sums that are counts, but for GELU's slope",
            |_| vec![("x", one), ("w", one), ("dout", one)],
            |p, output| {
                let output = checked(p, output);
                let alike = tolerance(p, output);
                // Errors are equal too, and add in proportion to their number.
                let terms = match output {
                    PRE => p["k"],
                    DX => p["n"],
                    DW => p["m"],
                    _ => p["b"] * p["m"],
                } as f64;
                Tolerance { abs: alike.abs * (terms * p["k"] as f64).sqrt(), ..alike }
            },
        ),
    ]
}

fn row_cost(p: &Problem, output: usize) -> u64 {
    let (n, gradient) = (p["n"], if kept(p) { p["k"] } else { 1 });
    match (output, p.shape.has("tn")) {
        (PRE, _) => n * p["k"],
        (DX, false) => n * (gradient + p["k"]),
        (DX, true) => p["m"] * n * (gradient + 1),
        (DW, _) => p["m"] * (gradient + 1),
        _ => p["b"] * p["m"] * gradient,
    }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (batches, m, n, k) = (p["b"], p["m"], p["n"], p["k"]);
    let (x_at, w_at, kept) = (x_at(p), w_at(p), kept(p));
    // Gradient before GELU at row i and column j of a batch.
    let gradient = move |batch: u64, i: u64, j: u64| {
        let slope = || {
            let term = |l| inputs.at(X, x_at(batch, i, l)) * inputs.at(W, w_at(batch, l, j));
            slope_tanh(inputs.at(BIAS, j) + (0..k).map(term).sum::<f64>())
        };
        inputs.at(DOUT, (batch * m + i) * n + j) * if kept { slope() } else { 1.0 }
    };
    let rows: Vec<OnceLock<Vec<f64>>> = (0..batches * m).map(|_| OnceLock::new()).collect();
    let columns: Vec<OnceLock<Vec<f64>>> = (0..batches * n).map(|_| OnceLock::new()).collect();
    Box::new(move |output, row, out| {
        let row_of = |batch: u64, i: u64| {
            rows[(batch * m + i) as usize].get_or_init(|| (0..n).map(|j| gradient(batch, i, j)).collect())
        };
        let column_of = |batch: u64, j: u64| {
            columns[(batch * n + j) as usize].get_or_init(|| (0..m).map(|i| gradient(batch, i, j)).collect())
        };
        let dx = |batch: u64, i: u64, l: u64| -> f64 {
            row_of(batch, i).iter().zip(0..).map(|(g, j)| g * inputs.at(W, w_at(batch, l, j))).sum()
        };
        match (checked(p, output), p.shape.has("tn"), p.shape.has("nt")) {
            (PRE, ..) => biased(p, inputs, BIAS, row, out),
            (DX, true, _) => out.iter_mut().zip(0..).for_each(|(out, i)| *out = dx(row / k, i, row % k)),
            (DX, ..) => out.iter_mut().zip(0..).for_each(|(out, l)| *out = dx(row / m, row % m, l)),
            (DW, _, transposed) => {
                let (batch, within) = (row / (k * n), row % (k * n));
                let (l, j) = if transposed { (within % k, within / k) } else { (within / n, within % n) };
                let column = column_of(batch, j).iter().zip(0..);
                out[0] = column.map(|(g, i)| g * inputs.at(X, x_at(batch, i, l))).sum();
            }
            _ => out[0] = (0..batches).flat_map(|batch| column_of(batch, row)).sum(),
        }
    })
}

/// GEMMs for the gradients of `x` and of `w`, each with its operands. The operands are from `x`, `w` and the gradient before GELU.
/// Their order and transposition depend on the stored layouts.
fn gradients<T: Copy>(forward: Gemm, [x, w, g]: [T; 3]) -> [(Gemm, [T; 2]); 2] {
    let Gemm { m, n, k, layout, .. } = forward;
    let gemm = |m, n, k, layout| Gemm { m, n, k, layout, ..forward };
    match layout {
        Layout::Nn => [(gemm(m, k, n, Layout::Nt), [g, w]), (gemm(k, n, m, Layout::Tn), [x, g])],
        Layout::Nt => [(gemm(m, k, n, Layout::Nn), [g, w]), (gemm(n, k, m, Layout::Tn), [g, x])],
        Layout::Tn => [(gemm(k, m, n, Layout::Nt), [w, g]), (gemm(k, n, m, Layout::Nn), [x, g])],
    }
}

fn wgmma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    let [dx, dw] = gradients(gemm(p), [(); 3]).map(|(gemm, _)| gemm);
    [dx, dw].iter().try_for_each(|gemm| gemm.wgmma_available(p.dtype, caps))
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [dx, dw, dbias] = outputs else { unreachable!("three gradients") };
    let dpre;
    let g = match inputs.get(KEPT) {
        Some(pre) => {
            dpre = dense::zipped([inputs[DOUT].f32(), pre.f32()], |dout, pre| dout * slope_tanh(pre));
            &dpre[..]
        }
        None => inputs[DOUT].f32(),
    };
    for ((gemm, [a, b]), out) in gradients(gemm(p), [inputs[X].f32(), inputs[W].f32(), g]).into_iter().zip([dx, dw]) {
        out.fill(0.0);
        dense::add_gemm(gemm, a, b, out);
    }
    dense::sum_of_rows(g, dbias);
}

fn program(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let Gemm { batch, m, n, .. } = gemm(p);
    let made = stages(p, caps, kind);
    let mut stages = Vec::new();
    let g = match kept(p) {
        true => {
            stages.push(gelu::backward_stage(batch * m * n, p.dtype, caps, ["pre", "dout", "dpre"]));
            "dpre"
        }
        false => "dout",
    };
    let [(dx, [a, b]), (dw, [c, d])] = gradients(gemm(p), ["x", "w", g]);
    stages.push(made.gemm(dx, [a, b, "dx"]).label("dx"));
    stages.extend(made.of_weight(dw, [c, d, "dw"], "dw_parts"));
    stages.extend(made.columns([batch * m, n], [g, "parts", "dbias"]));
    Program { stages }
}
