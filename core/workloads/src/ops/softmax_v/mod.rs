//! GEMM with a softmax as left operand: `out = softmax(x)·v`, with the softmax along each row of `x`.
//!
//! `out[i, r, c] = Σ_j exp(x[i, r, j] − m) v[i, j, c] / Σ_j exp(x[i, r, j] − m)` with `m` the largest of the row. `x` is `[b, s,
//! t]`, `v` `[b, t, d]` and `out` `[b, s, d]`, all dense and row-major. It is attention with given scores.
//!
//! Operations: `2·b·s·t·d`, those of the GEMM. Weights are in f32, or in the element type if they are stored. Sums are in f32.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, not_finite_rows, one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, Gemm, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, RowShare,
    Rows2d, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, normal, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::linear::stages::{GemmKind, Stages};
use super::softmax::{FORWARD, OF_A_WARP};
use crate::real::maximum;
use crate::vector;

mod backward;

const X: usize = 0;
const V: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "softmax of rows, times a matrix",
        axes: const {
            &[
                Axis::optional("b", "batch", 1, 1),
                Axis::extent("s", "rows"),
                Axis::extent("t", "row length"),
                Axis::extent("d", "columns"),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| {
            let (b, s, t, d) = (shape["b"], shape["s"], shape["t"], shape["d"]);
            [(s, t), (t, d), (s, d)].into_iter().try_for_each(|(rows, columns)| indexable(b * rows * columns))
        },
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, _| p["t"] * (p["d"] + 2),
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("b8,s512,t512,d64")
    .shapes(shapes)
    // Single elements; rows and columns below, at and past a tile; odd lengths, and several tiles in each dimension.
    .awkward(&[
        "s1,t1,d1",
        "s3,t5,d2",
        "b2,s64,t32,d64",
        "b3,s7,t130,d33",
        "s67,t259,d129",
        "b2,s65,t33,d5",
        "s5,t1009,d20",
        "b2,s130,t70,d256",
        "s9,t40,d260",
        "b2,s37,t96,d72",
    ])
    .host(host)
    .variants(vec![
        Variant::kernel(
            "separate",
            "two stages with the weights in device memory: softmax of rows, product by tiles",
            |p, caps| separate(p, caps, GemmKind::Tiles),
        ),
        Variant::kernel("separate_mma", "the same with the product on tensor cores", |p, caps| {
            separate(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "fused",
            "one stage: a workgroup owns 64 rows and walks over them with an online softmax; no weights in device memory",
            fused,
        )
        .available(|p, _| match p["d"] {
            d if d <= MOST_COLUMNS => Ok(()),
            d => Err(format!("fused keeps a row of the output in registers: {d} columns > {MOST_COLUMNS}")),
        }),
    ])
    .fallback(&["fused", "separate_mma", "separate"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b8,s512,t512,d64", "b16,s2048,t2048,d64", "b16,s2048,t2048,d128"],
        _ => &["b8,s512,t512,d64", "b16,s2048,t2048,d64", "b16,s4096,t4096,d128", "b128,s4096,t256,d64"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, s, t, d) = (p["b"], p["s"], p["t"], p["d"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[b, s, t], normal),
        BufferSpec::input("v", Elem::Real, &[b, t, d], normal),
        BufferSpec::output("out", Elem::Real, &[b, s, d]),
        // Of the variants with separate stages.
        BufferSpec::scratch("weights", Elem::Real, &[b, s, t]),
    ]
}

/// Bytes of x, of v and of the output.
fn sizes(p: &Problem) -> [u64; 3] {
    gemm(p).elements().map(|elements| elements * Elem::Real.storage(p.dtype).bytes())
}

fn cost(p: &Problem) -> Cost {
    let [x, v, out] = sizes(p);
    Cost::new(gemm(p).flops(), x + v, out)
}

/// Relative error of a weight: its rounding to the element type, and that of the softmax.
fn weight_error(p: &Problem) -> f64 {
    2.0 * p.dtype.unit_roundoff() + 2f64.powi(-24) * (64.0 + p["t"] as f64 / 64.0)
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let root = (p["t"] as f64).sqrt();
    Tolerance {
        abs: 3.47 * (weight_error(p) + 4.0 * root * smallest_normal(p)) + 2f64.powi(-24) * root,
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "a convex mix of values of at most 3.47: weights are rounded to the element type where they are stored, or to \
                 zero where they are no normal number (values of either sign, so that such losses grow as √t), exponents \
                 carry f32 rounding, and the result is rounded once",
    }
}

/// Selects two thirds of the elements of x, and all of every fifth row.
fn masked(shape: &Shape, draw: Draw) -> bool {
    (draw.index / shape["t"]).is_multiple_of(5) || !draw.bits().is_multiple_of(3)
}

/// Masked x of the stress inputs of both directions.
fn masked_x(p: &Problem) -> Fill {
    match p.dtype {
        DType::F16 => |shape, draw| if masked(shape, draw) { -65_504.0 } else { draw.normal() },
        DType::F32 | DType::BF16 => |shape, draw| if masked(shape, draw) { -1e30 } else { draw.normal() },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "all zero: equal weights, and a result of zero",
            |_| vec![("x", zero), ("v", zero)],
            exact,
        ),
        StressInput::new(
            "equal",
            "all one: equal weights, whose sum is one",
            |_| vec![("x", one), ("v", one)],
            |p, _| Tolerance {
                abs: 0.0,
                rel: 2.0 * p.dtype.unit_roundoff() + (p["t"] as f64 + 8.0) * 2f64.powi(-24),
                reason: "all weights are rounded alike to the element type, each sum of them in f32, and the result once more",
            },
        ),
        StressInput::new(
            "masked",
            "two thirds of x, and all of every fifth row, at the number that masks hold",
            |p| vec![("x", masked_x(p))],
            tolerance,
        ),
        StressInput::new(
            "huge",
            "x up to 6e4 in f16 and 1e30 otherwise, of either sign: the result is the row of v whose x is the largest",
            |p| match p.dtype {
                DType::F16 => vec![("x", |_, draw| 1.2e5 * (draw.uniform() - 0.5))],
                DType::F32 | DType::BF16 => vec![("x", |_, draw| 2e30 * (draw.uniform() - 0.5))],
            },
            tolerance,
        ),
        StressInput::new(
            "not finite",
            "rows of x with NaN, whose results are NaN; and rows whose first half is -inf, which weighs nothing",
            |_| vec![("x", |shape, draw| not_finite_rows(draw, shape["t"]))],
            tolerance,
        ),
    ]
}

/// Weights of one row of x; `row` counts through the batch.
fn weights(p: &Problem, inputs: &Inputs, row: u64) -> Vec<f64> {
    let mut weights = inputs.values(X, row * p["t"]..(row + 1) * p["t"]);
    let top = weights.iter().copied().fold(f64::NEG_INFINITY, maximum);
    weights.iter_mut().for_each(|x| *x = (*x - top).exp());
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|x| *x /= sum);
    weights
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (t, d) = (p["t"], p["d"]);
    out.fill(0.0);
    for (j, weight) in (row / p["s"] * t..).zip(weights(p, inputs, row)) {
        for (out, at) in out.iter_mut().zip(j * d..) {
            *out += weight * inputs.at(V, at);
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (s, t, d) = (p["s"] as usize, p["t"] as usize, p["d"] as usize);
    let (x, v) = (inputs[X].f32(), inputs[V].f32());
    outputs[0].par_chunks_mut(d).enumerate().for_each_init(Vec::new, |weights: &mut Vec<f32>, (row, out)| {
        weights.clear();
        weights.extend_from_slice(&x[row * t..][..t]);
        let top = vector::largest(weights);
        let sum = vector::weigh(weights, top);
        out.fill(0.0);
        for (weight, values) in weights.iter().zip(v[row / s * t * d..].chunks_exact(d)) {
            vector::add(out, *weight, values);
        }
        vector::divide(out, sum);
    });
}

/// GEMM of weights and values.
fn gemm(p: &Problem) -> Gemm {
    Gemm::new(p["s"], p["d"], p["t"]).batch(p["b"])
}

/// Matrix of the rows of x.
fn matrix(p: &Problem) -> Rows2d {
    Rows2d { rows: p["b"] * p["s"], columns: p["t"] }
}

/// Partition of the rows of x among threads, and whether rows are kept. Otherwise they are read twice.
fn rows(p: &Problem, caps: &Caps) -> (RowShare, bool) {
    match RowShare::kept(matrix(p), p.dtype, caps, OF_A_WARP) {
        Ok(share) => (share, true),
        Err(_) => (RowShare::streamed(matrix(p), p.dtype, caps), false),
    }
}

/// Stage of the softmax of the rows of x.
fn softmax(p: &Problem, caps: &Caps) -> Stage {
    let (share, kept) = rows(p, caps);
    let [x, ..] = sizes(p);
    share
        .stage(FORWARD, if kept { "softmax_row" } else { "softmax_online" })
        .args([("x", "x", Read), ("out", "weights", Write)])
        .cost(Cost::new(5 * p["b"] * p["s"] * p["t"], x, x))
}

fn separate(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let stages = Stages { dtype: p.dtype, caps, kind };
    Program { stages: vec![softmax(p, caps), stages.gemm(gemm(p), ["weights", "v", "out"])] }
}

/// Columns of the output that 16 threads keep of a row.
const MOST_COLUMNS: u64 = 256;
/// Rows of a workgroup and elements of each at a time, and rows of v that are staged at a time.
const ROWS: u32 = 64;
const KEYS: u32 = 32;
const VALUES: u32 = 8;

fn fused(p: &Problem, caps: &Caps) -> Program {
    // Columns per thread, in 4-element vectors: sixteen threads share a row.
    let columns = p["d"].div_ceil(64) as u32;
    let staged = VALUES * columns * 16;
    // Of the softmax, with row statistics in four threads.
    let (threads, lanes) = (256, 4);
    let extents = [("BATCH", p["b"]), ("S", p["s"]), ("T", p["t"]), ("D", p["d"])];
    let stage = Stage::kernel("softmax_v_fused", "softmax_v/fused", "softmax_v_fused")
        .consts(&extents.map(|(name, value)| (name, value as u32)))
        .consts(&[("ROWS", ROWS), ("KEYS", KEYS), ("VALUES", VALUES), ("COLUMNS", columns), ("STAGED", staged)])
        .threads([16, 16, 1])
        .grid(spread(p["b"] * p["s"].div_ceil(u64::from(ROWS))))
        .args([("x", Read), ("v", Read), ("out", Write)])
        .cost(cost(p));
    match caps.dialect {
        // Staged columns of a transposed operand, which this kernel does not have.
        Dialect::Cuda => stage.consts(&[("DEPTH", 4)]),
        _ => stage
            .consts(&[("THREADS", threads), ("LANES", lanes)])
            // Weights (rows padded by one against bank conflicts), values, a number per row, and scratch of reductions.
            .shared(4 * (ROWS * (KEYS + 1) + staged * 4 + ROWS + 2 * threads)),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use crate::parse_case;
    use parallax_schema::testing::caps;

    #[test]
    fn long_rows_are_gone_through_twice_and_short_ones_kept() {
        let entry = |shape: &str| {
            let case = parse_case(&format!("softmax_v/fwd/{shape}/f32/separate")).expect("valid");
            let program = case.program(&caps()).expect("kernels");
            (program.stages[0].entry(), program.stages.len())
        };
        assert_eq!(entry("s4,t100,d8"), ("softmax_row", 2));
        assert_eq!(entry("s4,t100000,d8"), ("softmax_online", 2));
    }
}
