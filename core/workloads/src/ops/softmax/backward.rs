//! Backward direction: `dx[r, j] = y[r, j] · (dout[r, j] − Σ_k y[r, k] · dout[r, k])` from the saved result `y`.
//!
//! The forward pass runs before the timing. Operations: four an element. Bytes: two matrices read, one written.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, StressInput, Tolerance, Variant,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use super::{NOT_FINITE, by_rows, huge_x, kept, masked_x, matrix, matrix_of, normal, not_finite_x, probabilities};
use crate::vector;

const DOUT: usize = 1;

/// Index of the result, the first checked buffer; the other is `dx`.
const Y: usize = 0;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, largest(p)),
        Reference::new(|p, _| 4 * p["c"], |p, inputs| Box::new(move |o, r, out| reference(p, inputs, o, r, out))),
        OfNan::Kept,
    )
    .headline("r4096,c1024")
    .shapes(shapes)
    .awkward(&["r1,c1", "r13,c3", "r67,c130", "r259,c8", "r5,c64", "r7,c1009", "r3,c4100", "r2,c40004"])
    .setup(super::online)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "a workgroup a row, two passes over it by single elements: the sum of y·dout, the gradient",
            |p, _| by_rows(matrix_of(p), "softmax_backward_naive").args(ARGS).cost(cost(p)).into(),
        ),
        Variant::kernel(
            "row",
            "one pass: a row of both stays in the registers of as many threads as it takes; vectors",
            row,
        )
        .available(|p, caps| kept(p, caps).map(|_| ())),
    ])
    .fallback(&["row", "naive"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r4096,c1024", "r65536,c256", "r8192,c8192"],
        _ => &["r4096,c1024", "r262144,c256", "r16384,c4096", "r8192,c8192", "r8192,c32768"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let dims = [p["r"], p["c"]];
    vec![
        BufferSpec::input("x", Elem::Real, &dims, normal),
        BufferSpec::input("dout", Elem::Real, &dims, normal),
        BufferSpec::setup("out", Elem::Real, &dims),
        BufferSpec::output("dx", Elem::Real, &dims),
    ]
}

fn cost(p: &Problem) -> Cost {
    Cost::new(4 * p["r"] * p["c"], 2 * matrix(p), matrix(p))
}

/// Approximate largest weight of a row of normal inputs: others are smaller by e^(3.47 - 0.5) on average.
fn largest(p: &Problem) -> f64 {
    1.0 / (1.0 + p["c"] as f64 / 40.0)
}

/// Tolerance for rows with a largest weight of `largest`.
fn tolerance(p: &Problem, output: usize, largest: f64) -> Tolerance {
    if output == Y {
        return super::tolerance(p, output);
    }
    let (u, f32u) = (p.dtype.unit_roundoff(), 2f64.powi(-24));
    let weight = 2.0 * u + f32u * (64.0 + p["c"] as f64 / 64.0);
    Tolerance {
        abs: smallest_normal(p) + 3.47 * 3.0 * weight * largest,
        rel: 2.0 * u,
        reason: "a weight is off by its rounding to the element type and that of the forward pass; times gradients of at \
                 most 3.47 that enters the result directly and by the sum, itself a mean by weights; the result is rounded",
    }
}

/// Stress inputs: rows with equal weights, and rows with all weight in one element.
fn stress_inputs() -> Vec<StressInput> {
    let even = |p: &Problem, output: usize| tolerance(p, output, 1.0 / p["c"] as f64);
    let uneven = |p: &Problem, output: usize| tolerance(p, output, 1.0);
    vec![
        StressInput::new(
            "zeros",
            "all zero: weights are equal, and the gradient is zero",
            |_| vec![("x", zero), ("dout", zero)],
            even,
        ),
        StressInput::new("equal", "all one: the gradient of x cancels", |_| vec![("x", one), ("dout", one)], even),
        StressInput::new(
            "masked",
            "two thirds of the elements, and all of every fifth row, at the number that masks hold",
            |p| vec![("x", masked_x(p))],
            uneven,
        ),
        StressInput::new(
            "huge",
            "x up to 6e4 in f16 and 1e30 otherwise: one weight is one, and the gradient zero",
            |p| vec![("x", huge_x(p))],
            uneven,
        ),
        StressInput::new("not finite", NOT_FINITE, |_| vec![("x", not_finite_x)], uneven),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    probabilities(p, inputs, row, out);
    if output == Y {
        return;
    }
    let first = row * p["c"];
    let dot: f64 = out.iter().zip(first..).map(|(y, at)| y * inputs.at(DOUT, at)).sum();
    for (y, at) in out.iter_mut().zip(first..) {
        *y *= inputs.at(DOUT, at) - dot;
    }
}

/// Kernel sources: CUDA's, and WGSL's for pieces of one element and of four.
pub(crate) const BACKWARD: &str = "softmax/backward";

/// Parameters and their buffers.
/// Host implementation. The weights of the set-up follow both inputs.
fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let c = p["c"] as usize;
    let rows = inputs[DOUT].f32().par_chunks(c).zip(inputs[DOUT + 1].f32().par_chunks(c));
    outputs[0].par_chunks_mut(c).zip(rows).for_each(|(dx, (dout, weights))| host_row(dx, dout, weights));
}

/// Gradient of a row from its weights and the gradient of these.
pub(crate) fn host_row(dx: &mut [f32], dout: &[f32], weights: &[f32]) {
    let mean = vector::dot(weights, dout);
    vector::zip(dx, [weights, dout], |weight, dout| weight * (dout - mean));
}

const ARGS: [(&str, &str, parallax_ir::Access); 3] = [("y", "out", Read), ("dout", "dout", Read), ("dx", "dx", Write)];

fn row(p: &Problem, caps: &Caps) -> Program {
    kept(p, caps).expect("the plan asks first").stage(BACKWARD, "softmax_backward_row").args(ARGS).cost(cost(p)).into()
}
