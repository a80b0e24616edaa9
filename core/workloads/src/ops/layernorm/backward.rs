//! Backward direction: gradients of `x`, `γ` and `β` for a gradient `dout` of the result.
//!
//! With `n = (x − μ) · ρ` and `g = dout · γ`: `dx = ρ · (g − mean(g) − n · mean(g · n))` over a row, `dγ = Σ dout · n` and `dβ = Σ
//! dout` over the rows. Mean and `ρ` of every row are computed before the timing, as the forward pass leaves them.
//!
//! Operations: fourteen an element. Bytes: two matrices read, one written, and the per-row and per-column numbers.

use std::sync::OnceLock;

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    Access, BufferSpec, Elem, HostBuffer, Inputs, MOST_PARTS, OfNan, OpSpec, Problem, Program, Reference, RowShare,
    Rows, Stage, StressInput, Tolerance, Variant,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::staged::Teams;
use super::{
    AWKWARD, ROW_THREADS, Spread, StressPart, factor, huge, matrix, normal, offset, plain, sizes, statistics,
    statistics_stage, stress_inputs_of_rows, stress_spreads,
};
use crate::vector;

const X: usize = 0;
const GAMMA: usize = 1;
const DOUT: usize = 2;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, Spread::of_normal(p)),
        Reference::new(
            row_cost,
            |p, inputs| gradients(p, inputs, [GAMMA, DOUT], |at| inputs.at(X, at), |_| 0.0),
        ),
        OfNan::MIXED,
    )
    .headline("r4096,c1024")
    .shapes(shapes)
    .awkward(AWKWARD)
    .setup(|p, _| statistics_stage(p, "x").into())
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "a workgroup a row for dx, in two passes by single elements, and then one thread a column for dγ and dβ",
            |p, _| Program { stages: naive(p, "x").into() },
        ),
        Variant::kernel(
            "row",
            "one pass: as many workgroups as the device holds go over the rows, which stay in registers, and so do each \
             workgroup's parts of dγ and dβ; a second stage sums the parts, in an order that is always the same",
            |p, caps| {
                let text = "layernorm/backward";
                Program { stages: row(p, caps, text, "x", &[], cost(p)).into() }
            },
        )
        .available(|p, caps| kept(p, caps).map(|_| ())),
        Variant::kernel(
            "staged",
            "as row with one workgroup per multiprocessor: teams of threads have the next rows under way in shared memory, \
             by asynchronous copies, and reduce several rows together",
            staged,
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| teams(p, caps, 0).map(|_| ())),
    ])
    .fallback(&["staged", "row", "naive"])
    .stress(stress_inputs())
}

pub(crate) fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r4096,c1024", "r65536,c1152", "r16384,c4096"],
        _ => &["r4096,c1024", "r262144,c256", "r65536,c1152", "r16384,c4096", "r16384,c8192"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (rows, columns) = (p["r"], p["c"]);
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &[rows, columns], normal),
        BufferSpec::input("gamma", Elem::Real, &[columns], factor),
        BufferSpec::input("dout", Elem::Real, &[rows, columns], normal),
    ];
    buffers.extend(outputs(p));
    buffers
}

/// Outputs of the set-up and of the execution, and its scratch.
pub(crate) fn outputs(p: &Problem) -> [BufferSpec; 6] {
    let (rows, columns) = (p["r"], p["c"]);
    [
        BufferSpec::setup("mean", Elem::F32, &[rows, 1]),
        BufferSpec::setup("rstd", Elem::F32, &[rows, 1]),
        BufferSpec::output("dx", Elem::Real, &[rows, columns]),
        BufferSpec::output("dgamma", Elem::Real, &[columns]),
        BufferSpec::output("dbeta", Elem::Real, &[columns]),
        BufferSpec::scratch("parts", Elem::F32, &[rows.min(MOST_PARTS), 2, columns]),
    ]
}

/// Indices of the checked buffers, in buffer order.
const MEAN: usize = 0;
const RSTD: usize = 1;
pub(crate) const DX: usize = 2;
const DGAMMA: usize = 3;

pub(crate) fn cost(p: &Problem) -> Cost {
    let (matrix, of_rows, of_columns) = sizes(p);
    Cost::new(14 * p["r"] * p["c"], 2 * matrix + 2 * of_rows + of_columns, matrix + 2 * of_columns)
}

pub(crate) fn tolerance(p: &Problem, output: usize, spread: Spread) -> Tolerance {
    let (u, f32u) = (p.dtype.unit_roundoff(), 2f64.powi(-24));
    let rows = p["r"] as f64;
    let error = spread.error(p);
    match output {
        MEAN => super::tolerance(p, 1, spread, u),
        RSTD => super::tolerance(p, 2, spread, u),
        // A gradient times a factor is at most 6.5, a normalised element about 3.5, and the mean of their product about 3.
        DX => Tolerance {
            abs: spread.rstd * (6.5 * (32.0 + p["c"] as f64 / 128.0) * f32u + 3.0 * error + 3.5 * 6.5 * error)
                + smallest_normal(p),
            rel: 2.0 * u,
            reason: "ρ times the rounding, in f32, of g and its mean, and of the mean of g·n, in which n is off as in the \
                     forward form; the result is rounded once",
        },
        DGAMMA => Tolerance {
            abs: 8.0 * f32u * (rows + 16.0) + 8.0 * rows.sqrt() * 3.47 * error + smallest_normal(p),
            rel: 2.0 * u,
            reason: "r terms of random sign are summed in f32: the sum wanders by √r, and so does its rounding at each step; \
                     terms are off as normalised elements are; the result is rounded once",
        },
        _ => Tolerance {
            abs: 8.0 * f32u * (rows + 16.0) + smallest_normal(p),
            rel: 2.0 * u,
            reason: "r terms of random sign are summed in f32: the sum wanders by √r, and so does its rounding at each step; \
                     the result is rounded once",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    fn of<const SET: usize>() -> fn(&Problem, usize) -> Tolerance {
        |p, output| tolerance(p, output, stress_spreads(p)[SET])
    }
    let parts: [StressPart; 4] = [
        (|_| vec![("x", zero)], of::<0>()),
        (|_| vec![("x", one)], of::<1>()),
        (|_| vec![("x", offset)], of::<2>()),
        (|p| vec![("x", huge(p))], of::<3>()),
    ];
    stress_inputs_of_rows(parts)
}

/// Operations of a row: its statistics, its two means, and its result. The gradients of columns are one row each, from all rows.
pub(crate) fn row_cost(p: &Problem, output: usize) -> u64 {
    match output {
        MEAN | RSTD => 2 * p["c"],
        DX => 6 * p["c"],
        _ => 4 * p["r"] * p["c"],
    }
}

/// Rows of the checked buffers, for elements from `value` and the additions of `also` to their gradients.
pub(crate) fn gradients<'a>(
    p: &'a Problem,
    inputs: &'a Inputs,
    [gamma, dout]: [usize; 2],
    value: impl Fn(u64) -> f64 + Send + Sync + 'a,
    also: impl Fn(u64) -> f64 + Send + Sync + 'a,
) -> Rows<'a> {
    let (rows, columns) = (p["r"], p["c"]);
    let known: Vec<OnceLock<(f64, f64)>> = (0..rows).map(|_| OnceLock::new()).collect();
    Box::new(move |output, row, out| {
        let of_row = |row: u64| *known[row as usize].get_or_init(|| statistics(columns, |j| value(row * columns + j)));
        match output {
            MEAN => out[0] = of_row(row).0,
            RSTD => out[0] = of_row(row).1,
            DX => {
                let (mean, rstd) = of_row(row);
                let first = row * columns;
                let normalised: Vec<f64> = (0..columns).map(|j| (value(first + j) - mean) * rstd).collect();
                for (g, j) in out.iter_mut().zip(0..) {
                    *g = inputs.at(dout, first + j) * inputs.at(gamma, j);
                }
                let level = out.iter().sum::<f64>() / columns as f64;
                let along = out.iter().zip(&normalised).map(|(g, n)| g * n).sum::<f64>() / columns as f64;
                for ((g, n), at) in out.iter_mut().zip(&normalised).zip(first..) {
                    *g = rstd * (*g - level - n * along) + also(at);
                }
            }
            _ => {
                out.fill(0.0);
                for row in 0..rows {
                    let (mean, rstd) = if output == DGAMMA { of_row(row) } else { (0.0, 0.0) };
                    for (sum, at) in out.iter_mut().zip(row * columns..) {
                        let n = if output == DGAMMA { (value(at) - mean) * rstd } else { 1.0 };
                        *sum += inputs.at(dout, at) * n;
                    }
                }
            }
        }
    })
}

fn host(_p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [x, gamma, dout, mean, rstd] = [X, GAMMA, DOUT, DOUT + 1, DOUT + 2].map(|buffer| inputs[buffer].f32());
    HostRows { x, gamma, dout, mean: Some(mean), rstd, dsum: None }.gradients(outputs);
}

/// Rows and their statistics on the host, for the gradients of norms.
pub(crate) struct HostRows<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) gamma: &'a [f32],
    pub(crate) dout: &'a [f32],
    /// Means, for a norm that subtracts them.
    pub(crate) mean: Option<&'a [f32]>,
    pub(crate) rstd: &'a [f32],
    /// Gradient of the rows by later operations, if any.
    pub(crate) dsum: Option<&'a [f32]>,
}

/// Rows of a part, whose sums over columns are added to those of other parts.
const HOST_ROWS: usize = 64;

impl HostRows<'_> {
    /// Computes the gradients of the rows, of `γ`, and of `β` if there is a third output. The order of additions is the same for any
    /// number of threads.
    pub(crate) fn gradients(&self, outputs: &mut [Vec<f32>]) {
        let (dx, of_columns) = outputs.split_first_mut().expect("the gradient of the rows");
        let columns = self.gamma.len();
        let part = |(part, dx): (usize, &mut [f32])| {
            let mut sums = vec![vec![0.0; columns]; of_columns.len()];
            let mut room = vec![0.0; 2 * columns];
            for (i, dx) in dx.chunks_exact_mut(columns).enumerate() {
                self.row(part * HOST_ROWS + i, dx, &mut sums, room.split_at_mut(columns));
            }
            sums
        };
        let parts: Vec<Vec<Vec<f32>>> = dx.par_chunks_mut(HOST_ROWS * columns).enumerate().map(part).collect();
        for (which, sums) in of_columns.iter_mut().enumerate() {
            sums.fill(0.0);
            parts.iter().for_each(|part| vector::add(sums, 1.0, &part[which]));
        }
    }

    /// Computes the gradient of a row, and adds its terms of sums over columns. The two last arrays are room for a row each.
    fn row(&self, row: usize, dx: &mut [f32], sums: &mut [Vec<f32>], (normalised, g): (&mut [f32], &mut [f32])) {
        let columns = dx.len();
        let of_row = row * columns..(row + 1) * columns;
        let (x, dout) = (&self.x[of_row.clone()], &self.dout[of_row.clone()]);
        let (mean, rstd) = (self.mean.map_or(0.0, |mean| mean[row]), self.rstd[row]);
        vector::map(normalised, x, |x| (x - mean) * rstd);
        vector::zip(g, [dout, self.gamma], |dout, gamma| dout * gamma);
        let level = self.mean.map_or(0.0, |_| vector::total(g) as f32 / columns as f32);
        let along = vector::dot(g, normalised) / columns as f32;
        vector::zip(dx, [g, normalised], |g, n| rstd * (g - level - n * along));
        if let Some(dsum) = self.dsum {
            vector::add(dx, 1.0, &dsum[of_row]);
        }
        let (dgamma, dbeta) = sums.split_first_mut().expect("the gradient of γ");
        vector::add_products(dgamma, [dout, normalised]);
        dbeta.iter_mut().for_each(|dbeta| vector::add(dbeta, 1.0, dout));
    }
}

/// Both stages of `naive` on the rows of a buffer.
pub(crate) fn naive(p: &Problem, x: &'static str) -> [Stage; 2] {
    let (matrix, of_rows, of_columns) = sizes(p);
    let read = [("x", x, Read), ("mean", "mean", Read), ("rstd", "rstd", Read)];
    let rows = plain(p, "layernorm_backward_naive", p["r"])
        .args(read.into_iter().chain([("gamma", "gamma", Read), ("dout", "dout", Read), ("dx", "dx", Write)]))
        .shared(ROW_THREADS * 4)
        .cost(Cost::new(10 * p["r"] * p["c"], 2 * matrix + 2 * of_rows + of_columns, matrix));
    let columns = plain(p, "layernorm_columns", p["c"].div_ceil(u64::from(ROW_THREADS)))
        .args(read.into_iter().chain([("dgamma", "dgamma", Write), ("dout", "dout", Read), ("dbeta", "dbeta", Write)]))
        .cost(Cost::new(4 * p["r"] * p["c"], 2 * matrix + 2 * of_rows, 2 * of_columns));
    [rows, columns]
}

/// Largest number of elements per thread of a row that a warp keeps: smaller than forward, because there are five such arrays.
const OF_A_WARP: u64 = 16;

pub(crate) fn kept(p: &Problem, caps: &Caps) -> Result<RowShare, String> {
    RowShare::kept(matrix(p), p.dtype, caps, OF_A_WARP)
}

/// Sums over columns: the gradients of `γ` and `β`.
const SUMS: u64 = 2;

fn staged(p: &Problem, caps: &Caps) -> Program {
    Program { stages: in_teams(p, caps, "layernorm/backward_staged", "x", &[], cost(p)).into() }
}

/// Division of rows into teams, with these further matrices to add to `dx`.
pub(crate) fn teams(p: &Problem, caps: &Caps, further: usize) -> Result<Teams, String> {
    Teams::new(p, caps, SUMS, 2 + further as u64)
}

/// Both stages of `staged` on the rows of a buffer, with the additional arguments of their kernel source.
pub(crate) fn in_teams(
    p: &Problem,
    caps: &Caps,
    text: &'static str,
    x: &'static str,
    further: &[(&'static str, &'static str, Access)],
    cost: Cost,
) -> [Stage; 2] {
    let teams = teams(p, caps, further.len()).expect("the plan asks first");
    let rows = teams.stage(caps, text, "layernorm_backward_staged").cost(cost);
    let parts = teams.sum_of_parts(caps, "layernorm/parts", "layernorm_parts");
    in_parts([rows, parts], x, further)
}

/// Adds the arguments of a stage that leaves parts of `dγ` and `dβ`, and of the one that adds them.
fn in_parts(
    [rows, parts]: [Stage; 2],
    x: &'static str,
    further: &[(&'static str, &'static str, Access)],
) -> [Stage; 2] {
    let own = [
        ("x", x, Read),
        ("mean", "mean", Read),
        ("rstd", "rstd", Read),
        ("gamma", "gamma", Read),
        ("dout", "dout", Read),
        ("dx", "dx", Write),
        ("parts", "parts", Write),
    ];
    let sums = [("parts", Read), ("dgamma", Write), ("dbeta", Write)];
    [rows.args(own.into_iter().chain(further.iter().copied())), parts.args(sums)]
}

/// Both stages of `row` on the rows of a buffer, with the additional arguments of their kernel source.
pub(crate) fn row(
    p: &Problem,
    caps: &Caps,
    text: &'static str,
    x: &'static str,
    more: &[(&'static str, &'static str, Access)],
    cost: Cost,
) -> [Stage; 2] {
    let share = kept(p, caps).expect("the plan asks first");
    let rows = share.in_parts(caps, 2, text, "layernorm_backward_row").cost(cost);
    let parts = share.sum_of_parts(caps, 2, "layernorm/parts", "layernorm_parts");
    in_parts([rows, parts], x, more)
}
