//! RMS normalisation of rows: `out = x · ρ · γ` with `ρ = 1/√(mean(x²) + ε)` of a row and `ε = 10⁻⁶`.
//!
//! Formula: Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019). `ρ` is an additional output, always f32, as in
//! training. Operations: four an element. Bytes: those of the matrix, read and written once, and of the per-row and per-column
//! numbers.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{nan_in_rows, one, smallest_normal, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Stage, StressInput, Tolerance,
    Variant, Workload, normal, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Rate};
use parallax_schema::device::Caps;

use super::layernorm::{AWKWARD, AXES, GAMMA, ROW_THREADS, X, factor, huge, kept, shapes, sizes, validate};
use crate::vector;

mod backward;

/// Constant ε, which keeps rows of zeros finite.
const EPS: f64 = 1e-6;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "RMS normalisation of the rows of a matrix",
        axes: AXES,
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, _| 3 * p["c"],
            |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("r4096,c1024")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "a workgroup a row, two passes by single elements: the mean square, the result",
            naive,
        ),
        Variant::kernel(
            "row",
            "one pass: a row stays in the registers of as many threads as it takes, several short rows to a workgroup",
            row,
        )
        .available(|p, caps| kept(p, caps).map(|_| ())),
    ])
    .fallback(&["row", "naive"])
    .stress(stress_inputs())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (rows, columns) = (p["r"], p["c"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[rows, columns], normal),
        BufferSpec::input("gamma", Elem::Real, &[columns], factor),
        BufferSpec::output("out", Elem::Real, &[rows, columns]),
        BufferSpec::output("rstd", Elem::F32, &[rows, 1]),
    ]
}

fn cost(p: &Problem) -> Cost {
    let (matrix, of_rows, of_columns) = sizes(p);
    Cost::new(4 * p["r"] * p["c"], matrix + of_columns, matrix + of_rows)
}

/// Relative error of a normalised element.
fn error(p: &Problem) -> f64 {
    2f64.powi(-24) * (16.0 + p["c"] as f64 / 256.0)
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    match output {
        0 => Tolerance {
            abs: smallest_normal(p),
            rel: error(p) + 2.0 * p.dtype.unit_roundoff(),
            reason: "squares are positive: their sum in f32, at most c/256 in a chain, is off by some units in its last place, \
                     and so is all that follows; the result is rounded once, or to zero where it is no normal number",
        },
        _ => Tolerance {
            abs: 0.0,
            rel: error(p),
            reason: "squares are positive: their sum in f32, at most c/256 in a chain, is off by some units in its last place",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero: a result of zero", |_| vec![("x", zero)]),
        set("nan", "rows with NaN, which are NaN", |_| vec![("x", |shape, draw| nan_in_rows(draw, shape["c"]))]),
        set("equal", "all one: a result of γ, but for ε", |_| vec![("x", one)]),
        set("huge", "up to 6e4 in f16 and 1e15 otherwise: squares and their sums stay within f32", |p| {
            vec![("x", huge(p))]
        }),
    ]
}

/// `ρ` of a row.
fn rstd(p: &Problem, inputs: &Inputs, row: u64) -> f64 {
    let columns = p["c"];
    let squares: f64 = (row * columns..(row + 1) * columns).map(|at| inputs.at(X, at).powi(2)).sum();
    1.0 / (squares / columns as f64 + EPS).sqrt()
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let scale = rstd(p, inputs, row);
    match output {
        0 => {
            for (out, j) in out.iter_mut().zip(0..) {
                *out = inputs.at(X, row * p["c"] + j) * scale * inputs.at(GAMMA, j);
            }
        }
        _ => out[0] = scale,
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let c = p["c"] as usize;
    let gamma = inputs[GAMMA].f32();
    let [out, rstd] = outputs else { unreachable!("two outputs") };
    let rows = out.par_chunks_mut(c).zip(inputs[X].f32().par_chunks(c)).zip(rstd);
    rows.for_each(|((out, x), rstd)| {
        *rstd = 1.0 / (vector::scatter(x, 0.0) as f32 / c as f32 + EPS as f32).sqrt();
        vector::scale(out, x, *rstd, gamma);
    });
}

/// Stage of the plainest kernel source in `groups` workgroups.
fn plain(p: &Problem, entry: &'static str, groups: u64) -> Stage {
    Stage::kernel(entry, "rmsnorm/naive", entry)
        .consts(&[("ROWS", p["r"] as u32), ("COLUMNS", p["c"] as u32), ("ROW_THREADS", ROW_THREADS)])
        .consts(&[("EPS", EPS as f32)])
        .threads([ROW_THREADS, 1, 1])
        .grid(spread(groups))
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    plain(p, "rmsnorm_naive", p["r"])
        .args([("x", "x", Read), ("gamma", "gamma", Read), ("out", "out", Write), ("row_rstd", "rstd", Write)])
        .shared(ROW_THREADS * 4)
        .cost(cost(p))
        .into()
}

fn row(p: &Problem, caps: &Caps) -> Program {
    kept(p, caps)
        .expect("the plan asks first")
        .stage("rmsnorm/forward", "rmsnorm_row")
        .consts(&[("EPS", EPS as f32)])
        .args([("x", Read), ("gamma", Read), ("out", Write), ("rstd", Write)])
        .cost(cost(p))
        .into()
}
