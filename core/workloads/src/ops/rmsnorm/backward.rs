//! Backward direction: gradients of `x` and `γ` for a gradient `dout` of the result.
//!
//! With `n = x · ρ` and `g = dout · γ`: `dx = ρ · (g − n · mean(g · n))` over a row, and `dγ = Σ dout · n` over the rows. `ρ` of
//! every row is computed before the timing, as the forward pass leaves it.
//!
//! Operations: ten an element. Bytes: two matrices read, one written, and the per-row and per-column numbers.

use std::sync::OnceLock;

use parallax_ir::Access::{Read, Write};
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, MOST_PARTS, OfNan, OpSpec, Problem, Program, Reference, Rows, StressInput,
    Tolerance, Variant, normal,
};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::super::layernorm::backward::{HostRows, kept, shapes};
use super::super::layernorm::staged::Teams;
use super::super::layernorm::{AWKWARD, GAMMA, ROW_THREADS, X, factor, huge, sizes};
use super::{error, plain, rstd};

const DOUT: usize = 2;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, usual(p)),
        Reference::new(row_cost, rows),
        OfNan::MIXED,
    )
    .headline("r4096,c1024")
    .shapes(shapes)
    .awkward(AWKWARD)
    .setup(|p, _| {
        plain(p, "rmsnorm_statistics", p["r"])
            .args([("x", "x", Read), ("only_rstd", "rstd", Write)])
            .shared(ROW_THREADS * 4)
            .into()
    })
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "a workgroup a row for dx, in two passes by single elements, and then one thread a column for dγ",
            naive,
        ),
        Variant::kernel(
            "row",
            "one pass: as many workgroups as the device holds go over the rows, which stay in registers, and so does each \
             workgroup's part of dγ; a second stage sums the parts, in an order that is always the same",
            row,
        )
        .available(|p, caps| kept(p, caps).map(|_| ())),
        Variant::kernel(
            "staged",
            "as row with one workgroup per multiprocessor: teams of threads have the next rows under way in shared memory, \
             by asynchronous copies, and reduce several rows together",
            staged,
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Teams::new(p, caps, 1, 2).map(|_| ())),
    ])
    .fallback(&["staged", "row", "naive"])
    .stress(stress_inputs())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (rows, columns) = (p["r"], p["c"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[rows, columns], normal),
        BufferSpec::input("gamma", Elem::Real, &[columns], factor),
        BufferSpec::input("dout", Elem::Real, &[rows, columns], normal),
        BufferSpec::setup("rstd", Elem::F32, &[rows, 1]),
        BufferSpec::output("dx", Elem::Real, &[rows, columns]),
        BufferSpec::output("dgamma", Elem::Real, &[columns]),
        BufferSpec::scratch("parts", Elem::F32, &[rows.min(MOST_PARTS), columns]),
    ]
}

/// Indices of the checked buffers, in buffer order; the last is the gradient of `γ`.
const RSTD: usize = 0;
const DX: usize = 1;

fn cost(p: &Problem) -> Cost {
    let (matrix, of_rows, of_columns) = sizes(p);
    Cost::new(10 * p["r"] * p["c"], 2 * matrix + of_rows + of_columns, matrix + of_columns)
}

/// Largest `ρ` of normal inputs: a short row may be almost zero, a longer one has a root mean square of at least a half.
fn usual(p: &Problem) -> f64 {
    if p["c"] < 32 { 1000.0 } else { 2.0 }
}

fn tolerance(p: &Problem, output: usize, rstd: f64) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    let rows = p["r"] as f64;
    // A normalised element is at most √c, and at most 7 in long rows of normal inputs.
    let largest = (p["c"] as f64).sqrt().min(7.0);
    match output {
        RSTD => super::tolerance(p, 1),
        DX => Tolerance {
            abs: rstd * 6.5 * (1.0 + largest) * 2.0 * error(p) + smallest_normal(p),
            rel: 2.0 * u,
            reason: "ρ times the rounding, in f32, of g (at most 6.5) and of n times a mean of g·n, which may cancel; the result \
                     is rounded once",
        },
        _ => Tolerance {
            abs: 8.0 * 2f64.powi(-24) * (rows + 16.0) * largest
                + 8.0 * rows.sqrt() * 3.47 * largest * error(p)
                + smallest_normal(p),
            rel: 2.0 * u,
            reason: "r terms of random sign are summed in f32: the sum wanders by √r, and so does its rounding at each step; \
                     terms are off as normalised elements are; the result is rounded once",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "all zero: dx is dout·γ/√ε, and dγ zero",
            |_| vec![("x", zero)],
            |p, output| tolerance(p, output, 1000.0),
        ),
        StressInput::new(
            "equal",
            "all one: the gradient of x is the deviation of the gradient",
            |_| vec![("x", one)],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "huge",
            "up to 6e4 in f16 and 1e15 otherwise: gradients are that much smaller",
            |p| vec![("x", huge(p))],
            |p, output| tolerance(p, output, usual(p)),
        ),
    ]
}

/// Operations of a row: its `ρ`, its mean and its result. The gradient of columns is one row, from all rows.
fn row_cost(p: &Problem, output: usize) -> u64 {
    match output {
        RSTD => p["c"],
        DX => 4 * p["c"],
        _ => 3 * p["r"] * p["c"],
    }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (rows, columns) = (p["r"], p["c"]);
    let known: Vec<OnceLock<f64>> = (0..rows).map(|_| OnceLock::new()).collect();
    Box::new(move |output, row, out| {
        let of_row = |row: u64| *known[row as usize].get_or_init(|| rstd(p, inputs, row));
        match output {
            RSTD => out[0] = of_row(row),
            DX => {
                let (scale, first) = (of_row(row), row * columns);
                let gradient = |j: u64| inputs.at(DOUT, first + j) * inputs.at(GAMMA, j);
                let normalised = |j: u64| inputs.at(X, first + j) * scale;
                let along = (0..columns).map(|j| gradient(j) * normalised(j)).sum::<f64>() / columns as f64;
                for (dx, j) in out.iter_mut().zip(0..) {
                    *dx = scale * (gradient(j) - normalised(j) * along);
                }
            }
            _ => {
                out.fill(0.0);
                for row in 0..rows {
                    for (sum, at) in out.iter_mut().zip(row * columns..) {
                        *sum += inputs.at(DOUT, at) * inputs.at(X, at) * of_row(row);
                    }
                }
            }
        }
    })
}

fn host(_p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [x, gamma, dout, rstd] = [X, GAMMA, DOUT, DOUT + 1].map(|buffer| inputs[buffer].f32());
    HostRows { x, gamma, dout, mean: None, rstd, dsum: None }.gradients(outputs);
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    let (matrix, of_rows, of_columns) = sizes(p);
    let rows = plain(p, "rmsnorm_backward_naive", p["r"])
        .args([("x", Read), ("gamma", Read), ("rstd", Read), ("dout", Read), ("dx", Write)])
        .shared(ROW_THREADS * 4)
        .cost(Cost::new(7 * p["r"] * p["c"], 2 * matrix + of_rows + of_columns, matrix));
    let columns = plain(p, "rmsnorm_columns", p["c"].div_ceil(u64::from(ROW_THREADS)))
        .args([("x", Read), ("dgamma", Write), ("rstd", Read), ("dout", Read)])
        .cost(Cost::new(3 * p["r"] * p["c"], 2 * matrix + of_rows, of_columns));
    Program { stages: vec![rows, columns] }
}

fn row(p: &Problem, caps: &Caps) -> Program {
    let share = kept(p, caps).expect("the plan asks first");
    let text = "rmsnorm/backward";
    let own = [("x", Read), ("rstd", Read), ("gamma", Read), ("dout", Read), ("dx", Write), ("parts", Write)];
    let parts =
        share.sum_of_parts(caps, 1, "rmsnorm/parts", "rmsnorm_parts").args([("parts", Read), ("dgamma", Write)]);
    Program { stages: vec![share.in_parts(caps, 1, text, "rmsnorm_backward_row").args(own).cost(cost(p)), parts] }
}

fn staged(p: &Problem, caps: &Caps) -> Program {
    let teams = Teams::new(p, caps, 1, 2).expect("the plan asks first");
    let own = [("x", Read), ("rstd", Read), ("gamma", Read), ("dout", Read), ("dx", Write), ("parts", Write)];
    let rows = teams.stage(caps, "rmsnorm/backward_staged", "rmsnorm_backward_staged").args(own).cost(cost(p));
    let parts = teams.sum_of_parts(caps, "rmsnorm/parts", "rmsnorm_parts").args([("parts", Read), ("dgamma", Write)]);
    Program { stages: vec![rows, parts] }
}
