//! Gated feed-forward part of a transformer: `out = (act(x·wg) ∘ (x·wu))·w2`, as models of Llama, Qwen and Gemma have it.
//!
//! `x` and `out` are `[m, c]`, the weights of the gate `wg` and of the values `wu` `[c, f]`, and `w2` is `[f, c]`. All are dense and
//! row-major, without biases. `act` is SiLU (SwiGLU), or with `gelu` GELU by the tanh formula (GeGLU). The origin is Shazeer, "GLU
//! Variants Improve Transformer" (2020).
//!
//! Operations: those of the three GEMMs, `6·m·c·f`.

use std::sync::OnceLock;

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Gemm, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Rows, Shape,
    Stage, StressInput, Tolerance, Variant, Workload, by_pieces, indexable, normal, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::gelu::gelu_tanh;
use super::linear::stages::{Epilogue, GemmKind, Stages};
use crate::dense;
use crate::real::silu;

const X: usize = 0;
const WG: usize = 1;
const WU: usize = 2;
const W2: usize = 3;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "gated feed-forward part of a transformer: SwiGLU or GeGLU",
        axes: const {
            &[
                Axis::extent("m", "rows"),
                Axis::extent("c", "width"),
                Axis::extent("f", "hidden width"),
                Axis::word("activation", "function of the gate, SiLU by default", &["", "gelu"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| {
            [("m", "c"), ("m", "f"), ("c", "f")].into_iter().try_for_each(|(a, b)| indexable(shape[a] * shape[b]))
        },
        forms: vec![form()],
    }
}

fn form() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        |p, _| tolerance(p, 1.0),
        Reference::new(|p, _| 3 * p["c"] * p["f"], rows),
        OfNan::MIXED,
    )
    .headline("m64,c768,f2048")
    .shapes(shapes)
    .awkward(&["m1,c1,f1", "m5,c3,f7,gelu", "m67,c65,f131", "m66,c72,f136,gelu", "m131,c40,f200", "m200,c264,f520"])
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "four stages, products with one element per thread: gate, values, their product, and the last GEMM",
            |p, caps| apart(p, caps, GemmKind::Elements),
        ),
        Variant::kernel("separate", "the same four, products by tiles in workgroup memory", |p, caps| {
            apart(p, caps, GemmKind::Tiles)
        }),
        Variant::kernel("fused", "three stages: the gate multiplies sums of the values in registers", |p, caps| {
            fused(p, caps, GemmKind::Tiles)
        }),
        Variant::kernel("mma", "the same three on tensor cores by warp-wide instructions", |p, caps| {
            fused(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "wgmma",
            "the same three on tensor cores by four warps together; the copy engine loads and stores tiles",
            |p, caps| fused(p, caps, GemmKind::Wgmma),
        )
        .only_in(&[Dialect::Cuda])
        .available(wgmma_available),
        Variant::kernel(
            "wgmma_pair",
            "two stages: as wgmma, and one stage computes gate and values of the same columns, which stay in registers",
            pair,
        )
        .only_in(&[Dialect::Cuda])
        .available(wgmma_available),
        Variant::kernel("coopmat", "the same three on matrix units through WGSL's cooperative matrices", |p, caps| {
            fused(p, caps, GemmKind::Coopmat)
        })
        .only_in(&[Dialect::Wgsl])
        .available(|p, caps| Gemm::coopmat_available(p.dtype, caps)),
        Variant::kernel(
            "vendor",
            "GEMMs of the vendor's library, cuBLASLt, and a stage of ours that multiplies values by the gate",
            |p, caps| apart(p, caps, GemmKind::Library),
        )
        .only_in(&[Dialect::Cuda]),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["coopmat", "wgmma_pair", "wgmma", "mma", "fused", "separate", "naive"])
    .stress(vec![
        StressInput::new("zeros", "all zero: so is the result", |_| vec![("x", zero)], exact),
        StressInput::new(
            "far",
            "sums far out on either side, where the function is its argument or nothing",
            |_| vec![("x", |_, draw| 8.0 * draw.normal())],
            |p, _| tolerance(p, 8.0),
        ),
    ])
}

/// Shapes of a preset: TinyLlama for standard, and Llama 3 of eight billion parameters besides.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["m64,c768,f2048", "m2048,c2048,f5632", "m2048,c2048,f5632,gelu"],
        _ => &["m64,c768,f2048", "m16,c4096,f14336", "m4096,c4096,f14336", "m4096,c4096,f14336,gelu"],
    }
}

/// Weight scaled so that sums over normal inputs have about the magnitude of the inputs.
fn into_middle(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / (shape["c"] as f64).sqrt()
}

fn out_of_middle(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / (shape["f"] as f64).sqrt()
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[m, c], normal),
        BufferSpec::input("wg", Elem::Real, &[c, f], into_middle),
        BufferSpec::input("wu", Elem::Real, &[c, f], into_middle),
        BufferSpec::input("w2", Elem::Real, &[f, c], out_of_middle),
        BufferSpec::output("out", Elem::Real, &[m, c]),
        // Argument of the function, sums of the values, and their product.
        BufferSpec::scratch("gate", Elem::Real, &[m, f]),
        BufferSpec::scratch("values", Elem::Real, &[m, f]),
        BufferSpec::scratch("hidden", Elem::Real, &[m, f]),
    ]
}

/// Bytes of `elements` elements.
fn bytes(p: &Problem, elements: u64) -> u64 {
    elements * Elem::Real.storage(p.dtype).bytes()
}

fn cost(p: &Problem) -> Cost {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    Cost::new(6 * m * c * f, bytes(p, m * c + 3 * c * f), bytes(p, m * c))
}

/// Tolerance for inputs `scale` times as large as seeded ones. Products of gate and values grow with the square.
fn tolerance(p: &Problem, scale: f64) -> Tolerance {
    let (u, f) = (p.dtype.unit_roundoff(), p["f"] as f64);
    let sum_error = |terms: f64| 8.0 * 2f64.powi(-24) * (terms + 12.0 * terms.sqrt());
    let sums = 24.0 * sum_error(p["c"] as f64) + sum_error(f) + 1e-5;
    let rounded = u * (24.0 + 600.0 / f.sqrt());
    Tolerance {
        abs: scale * scale * (sums + rounded) + smallest_normal(p),
        rel: 4.0 * u,
        reason: "products are summed in f32 as in `linear`; gate, values and their product are rounded to the element type at most \
                 once each, and are about one; a sum of f such errors of random sign, times weights of 1/√f, is eight of them with \
                 all but certainty; a few terms may have factors of up to 12 and weights of up to 3.5",
    }
}

/// Function of the gate.
fn activated(p: &Problem) -> fn(f64) -> f64 {
    if p.shape.has("gelu") { gelu_tanh } else { silu }
}

/// Returns a row of a product with weights of `[c, f]`.
fn row_of(p: &Problem, inputs: &Inputs, weights: usize, row: u64) -> Vec<f64> {
    let (c, f) = (p["c"], p["f"]);
    let mut out = vec![0.0; f as usize];
    for l in 0..c {
        let x = inputs.at(X, row * c + l);
        for (out, at) in out.iter_mut().zip(l * f..) {
            *out += x * inputs.at(weights, at);
        }
    }
    out
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (m, c) = (p["m"], p["c"]);
    let act = activated(p);
    let known: Vec<OnceLock<Vec<f64>>> = (0..m).map(|_| OnceLock::new()).collect();
    Box::new(move |_, row, out| {
        let hidden = known[row as usize].get_or_init(|| {
            let [gate, values] = [WG, WU].map(|weights| row_of(p, inputs, weights, row));
            gate.into_iter().zip(values).map(|(gate, value)| act(gate) * value).collect()
        });
        out.fill(0.0);
        for (hidden, l) in hidden.iter().zip(0..) {
            for (out, at) in out.iter_mut().zip(l * c..) {
                *out += hidden * inputs.at(W2, at);
            }
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [x, wg, wu, w2] = [X, WG, WU, W2].map(|at| inputs[at].f32());
    let [into, out_of] = gemms(p);
    let [gate, values] = [wg, wu].map(|weights| {
        let mut sums = vec![0.0; (p["m"] * p["f"]) as usize];
        dense::add_gemm(into, x, weights, &mut sums);
        sums
    });
    let hidden = match p.shape.has("gelu") {
        true => dense::zipped([&gate, &values], |gate, value| gelu_tanh(gate) * value),
        false => dense::zipped([&gate, &values], |gate: f32, value| silu(gate) * value),
    };
    outputs[0].par_chunks_mut(1 << 14).for_each(|out| out.fill(0.0));
    dense::add_gemm(out_of, &hidden, w2, &mut outputs[0]);
}

fn stages<'a>(p: &Problem, caps: &'a Caps, kind: GemmKind) -> Stages<'a> {
    Stages { dtype: p.dtype, caps, kind }
}

/// GEMMs into the middle, of gate and values alike, and out of it.
fn gemms(p: &Problem) -> [Gemm; 2] {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    [Gemm::new(m, f, c), Gemm::new(m, c, f)]
}

fn wgmma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    gemms(p).iter().try_for_each(|gemm| gemm.wgmma_available(p.dtype, caps))
}

/// Stage of the product of gate and values.
fn product(p: &Problem, caps: &Caps) -> Stage {
    let elements = p["m"] * p["f"];
    let width = width(elements, p.dtype, caps);
    by_pieces(elements / width, width, "mlp_glu/product", "mlp_glu_product")
        .consts(&[("GELU", p.shape.has("gelu"))])
        .args([("gate", Read), ("values", Read), ("hidden", Write)])
        .cost(Cost::new(11 * elements, bytes(p, 2 * elements), bytes(p, elements)))
}

/// Program with one stage per step.
fn apart(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let stages = stages(p, caps, kind);
    let [into, out_of] = gemms(p);
    Program {
        stages: vec![
            stages.gemm(into, ["x", "wg", "gate"]).label("gate"),
            stages.gemm(into, ["x", "wu", "values"]).label("values"),
            product(p, caps),
            stages.gemm(out_of, ["hidden", "w2", "out"]).label("out"),
        ],
    }
}

/// Program whose second GEMM multiplies its sums by the gate.
fn fused(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let stages = stages(p, caps, kind);
    let [into, out_of] = gemms(p);
    let gated = if p.shape.has("gelu") { Epilogue::GeluGated } else { Epilogue::SiluGated };
    Program {
        stages: vec![
            stages.gemm(into, ["x", "wg", "gate"]).label("gate"),
            stages.fused(into, gated, ["x", "wu", "hidden"], &["gate"]).label("hidden"),
            stages.gemm(out_of, ["hidden", "w2", "out"]).label("out"),
        ],
    }
}

/// Program whose first stage computes gate and values together.
fn pair(p: &Problem, caps: &Caps) -> Program {
    let (m, c, f) = (p["m"], p["c"], p["f"]);
    let [into, out_of] = gemms(p);
    let hidden = into
        .pair(caps, "mlp_glu/pair", "mlp_glu_pair", ["x", "wg", "wu", "hidden"])
        .consts(&[("GELU", p.shape.has("gelu"))])
        .cost(Cost::new(4 * m * c * f, bytes(p, m * c + 2 * c * f), bytes(p, m * f)));
    let out = stages(p, caps, GemmKind::Wgmma).gemm(out_of, ["hidden", "w2", "out"]).label("out");
    Program { stages: vec![hidden.label("hidden"), out] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    #[test]
    fn all_variants_have_the_operations_of_three_products() {
        for (variant, caps, count) in
            [("separate", caps(), 4), ("fused", caps(), 3), ("wgmma", hopper(), 3), ("wgmma_pair", hopper(), 2)]
        {
            let case = parse_case(&format!("mlp_glu/fwd/m66,c72,f136/f16/{variant}")).expect("valid");
            let stages = case.program(&caps).expect("kernels").stages;
            assert_eq!(stages.len(), count, "{variant}");
            let flops: u64 =
                stages.iter().filter(|stage| stage.label != "mlp_glu_product").map(|s| s.cost.flops.0).sum();
            assert_eq!(flops, cost(&case.problem).flops.0, "{variant}");
        }
    }

    #[test]
    fn functions_of_the_gate_are_their_argument_or_nothing_far_out() {
        let functions: [fn(f64) -> f64; 2] = [silu, gelu_tanh];
        for act in functions {
            assert!((act(40.0) - 40.0).abs() < 1e-9 && act(-40.0).abs() < 1e-9 && act(0.0) == 0.0);
        }
        assert!((silu(1.0_f64) - 0.731_058_578_630_004_9).abs() < 1e-15);
    }
}
