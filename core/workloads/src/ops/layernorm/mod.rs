//! Layer normalisation of rows: `out = (x − μ) · ρ · γ + β` with `μ` a row's mean and `ρ = 1/√(σ² + ε)`, `ε = 10⁻⁵`.
//!
//! Formula: Ba, Kiros and Hinton, "Layer Normalization" (2016); `σ²` is the mean of squared deviations. Mean and `ρ` are additional
//! outputs, always f32, as in training. Operations: eight an element. Bytes: those of the matrix, read and written once, and of the
//! per-row and per-column numbers.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{any, nan_in_rows, one, smallest_normal, zero};
use parallax_ir::{
    Access, Axis, BufferSpec, Draw, Elem, Fill, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference,
    RowShare, Rows2d, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, normal, spread, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use crate::vector;

pub(super) mod backward;
pub(crate) mod staged;

pub(super) const X: usize = 0;
pub(super) const GAMMA: usize = 1;
const BETA: usize = 2;

/// Constant ε, which keeps rows of equal elements finite.
pub(super) const EPS: f64 = 1e-5;

/// Shapes that cross every edge: single elements, rows that share a warp, odd and even lengths, more rows than a workgroup takes.
/// The last has rows that no workgroup keeps.
pub(super) const AWKWARD: &[&str] =
    &["r1,c1", "r13,c3", "r67,c130", "r259,c8", "r5,c64", "r7,c1009", "r3,c4100", "r2,c34004"];

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "layer normalisation of the rows of a matrix",
        axes: AXES,
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![forward(), backward::form()],
    }
}

pub(super) const AXES: &[Axis] = &[Axis::extent("r", "rows"), Axis::extent("c", "columns")];

pub(super) fn validate(shape: &Shape) -> Result<(), String> {
    indexable(shape["r"] * shape["c"])
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, Spread::of_normal(p), p.dtype.unit_roundoff()),
        Reference::new(
            |p, _| 4 * p["c"],
            |p, inputs| {
                let value = |at| inputs.at(X, at);
                Box::new(move |output, row, out| reference(p, inputs, [GAMMA, BETA], value, (output, row), out))
            },
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
            "a workgroup a row in two stages and three passes, by single elements: mean and deviation, result",
            |p, _| Program { stages: naive(p, "x").into() },
        ),
        Variant::kernel(
            "row",
            "one pass: a row stays in the registers of as many threads as it takes, several short rows to a workgroup",
            |p, caps| row(p, caps, "x").into(),
        )
        .available(|p, caps| kept(p, caps).map(|_| ())),
        Variant::cube("one source in CubeCL: a workgroup a row, three passes over it", |p, caps| {
            let own = [("x", Read), ("gamma", Read), ("beta", Read), ("out", Write), ("mean", Write), ("rstd", Write)];
            cube(p, caps, "cube_layernorm").args(own).cost(cost(p)).into()
        }),
    ])
    .fallback(&["row", "naive"])
    .stress(stress_inputs())
}

pub(super) fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r4096,c1024", "r65536,c1152", "r16384,c4096"],
        _ => &["r4096,c1024", "r262144,c256", "r65536,c1152", "r65536,c4096", "r16384,c8192"],
    }
}

/// Factor around one, of at most 1.87.
pub(super) fn factor(_: &Shape, draw: Draw) -> f64 {
    1.0 + 0.25 * draw.normal()
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (rows, columns) = (p["r"], p["c"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[rows, columns], normal),
        BufferSpec::input("gamma", Elem::Real, &[columns], factor),
        BufferSpec::input("beta", Elem::Real, &[columns], normal),
        BufferSpec::output("out", Elem::Real, &[rows, columns]),
        BufferSpec::output("mean", Elem::F32, &[rows, 1]),
        BufferSpec::output("rstd", Elem::F32, &[rows, 1]),
    ]
}

/// Bytes of the matrix, of a number per row, and of an element per column.
pub(super) fn sizes(p: &Problem) -> (u64, u64, u64) {
    let element = Elem::Real.storage(p.dtype).bytes();
    (p["r"] * p["c"] * element, p["r"] * 4, p["c"] * element)
}

pub(super) fn cost(p: &Problem) -> Cost {
    let (matrix, of_rows, of_columns) = sizes(p);
    Cost::new(8 * p["r"] * p["c"], matrix + 2 * of_columns, matrix + 2 * of_rows)
}

/// Magnitude of the elements of rows, and `ρ`: the rounding of the former is multiplied by the latter.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    pub(super) largest: f64,
    pub(super) rstd: f64,
}

impl Spread {
    /// Rows without deviation: `ρ = 1/√ε`.
    pub(super) fn none(largest: f64) -> Spread {
        Spread { largest, rstd: 316.3 }
    }

    /// Normal inputs. In short rows all elements may be equal. With 32 or more the deviation is at least a quarter.
    pub(super) fn of_normal(p: &Problem) -> Spread {
        if p["c"] < 32 { Spread::none(3.47) } else { Spread { largest: 3.47, rstd: 4.0 } }
    }

    /// Error of a normalised element: the mean is off by some units in the last place of the largest element.
    pub(super) fn error(self, p: &Problem) -> f64 {
        2f64.powi(-24) * (16.0 + p["c"] as f64 / 256.0) * self.largest * self.rstd
    }
}

/// Tolerance for elements rounded to `u` before the normalisation, if they are computed here.
pub(super) fn tolerance(p: &Problem, output: usize, spread: Spread, u: f64) -> Tolerance {
    let f32u = 2f64.powi(-24);
    let error = spread.error(p);
    match output {
        0 => Tolerance {
            abs: 1.87 * error + 16.0 * f32u * 8.0 + smallest_normal(p),
            rel: 2.0 * u,
            reason: "sums of c elements in f32, at most c/256 in a chain, leave the mean off by some units in the last place \
                     of the largest element; ρ and factors of at most 1.87 multiply that; the result is rounded once",
        },
        1 => Tolerance {
            abs: error / spread.rstd,
            rel: 0.0,
            reason: "a sum of c elements in f32, at most c/256 in a chain, over c",
        },
        _ => Tolerance {
            abs: 0.0,
            rel: error + 16.0 * f32u,
            reason: "deviations are off by the mean's error, relative to the deviation, and WGSL's inverse square root by two \
                     units in the last place",
        },
    }
}

/// Whether rows are so long that deviations are close to their mean.
fn long(p: &Problem) -> bool {
    p["c"] >= 32
}

/// Number near 100, for stress inputs.
pub(super) fn offset(_: &Shape, draw: Draw) -> f64 {
    100.0 + draw.normal()
}

pub(super) fn huge(p: &Problem) -> Fill {
    match p.dtype {
        DType::F16 => |_, draw| 6e4 * (2.0 * draw.uniform() - 1.0),
        DType::F32 | DType::BF16 => |_, draw| 1e15 * (2.0 * draw.uniform() - 1.0),
    }
}

/// Spreads of the stress inputs, in their order.
pub(super) fn stress_spreads(p: &Problem) -> [Spread; 4] {
    let largest = if p.dtype == DType::F16 { 6e4 } else { 1e15 };
    let offset = Spread { largest: 104.0, rstd: 4.0 };
    [Spread::none(1e-30), Spread::none(1.0), offset, Spread { largest, rstd: 4.0 / largest }]
}

/// Fills of a stress input, and its tolerance.
pub(super) type StressPart = (fn(&Problem) -> Vec<(&'static str, Fill)>, fn(&Problem, usize) -> Tolerance);

/// Stress inputs of every workload that normalises rows.
pub(super) fn stress_inputs_of_rows(parts: [StressPart; 4]) -> Vec<StressInput> {
    let [zeros, equal, offset, huge] = parts;
    let set = |name, about, applies, (fills, tolerance): StressPart| {
        StressInput::new(name, about, fills, tolerance).applies(applies)
    };
    vec![
        set("zeros", "all zero: no deviation", any, zeros),
        set("equal", "all one: no deviation, but for the rounding of the mean", any, equal),
        set("offset", "normal elements around 100: a difference of mean squares would cancel", long, offset),
        set("huge", "up to 6e4 in f16 and 1e15 otherwise: squares and their sums stay within f32", long, huge),
    ]
}

fn stress_inputs() -> Vec<StressInput> {
    fn of<const SET: usize>() -> fn(&Problem, usize) -> Tolerance {
        |p, output| tolerance(p, output, stress_spreads(p)[SET], p.dtype.unit_roundoff())
    }
    let mut sets = stress_inputs_of_rows([
        (|_| vec![("x", zero)], of::<0>()),
        (|_| vec![("x", one)], of::<1>()),
        (|_| vec![("x", offset)], of::<2>()),
        (|p| vec![("x", huge(p))], of::<3>()),
    ]);
    sets.push(StressInput::new(
        "nan",
        "rows with NaN, which are NaN",
        |_| vec![("x", |shape, draw| nan_in_rows(draw, shape["c"]))],
        |p, output| tolerance(p, output, Spread::of_normal(p), p.dtype.unit_roundoff()),
    ));
    sets
}

/// Mean and `ρ` of the elements of a row.
pub(super) fn statistics(columns: u64, value: impl Fn(u64) -> f64) -> (f64, f64) {
    let mean = (0..columns).map(&value).sum::<f64>() / columns as f64;
    let squares: f64 = (0..columns).map(|j| (value(j) - mean).powi(2)).sum();
    (mean, 1.0 / (squares / columns as f64 + EPS).sqrt())
}

/// Computes a row of the result (output 0), or one of its statistics, for elements from `value`.
pub(super) fn reference(
    p: &Problem,
    inputs: &Inputs,
    [gamma, beta]: [usize; 2],
    value: impl Fn(u64) -> f64,
    (output, row): (usize, u64),
    out: &mut [f64],
) {
    let columns = p["c"];
    let (mean, rstd) = statistics(columns, |j| value(row * columns + j));
    match output {
        0 => {
            for (out, j) in out.iter_mut().zip(0..) {
                *out = (value(row * columns + j) - mean) * rstd * inputs.at(gamma, j) + inputs.at(beta, j);
            }
        }
        1 => out[0] = mean,
        _ => out[0] = rstd,
    }
}

/// Computes one row in f32: the result, mean and `ρ`.
pub(super) fn host_row(x: &[f32], gamma: &[f32], beta: &[f32], out: &mut [f32]) -> (f32, f32) {
    let mean = vector::total(x) as f32 / x.len() as f32;
    let squares = vector::scatter(x, mean) as f32;
    let rstd = 1.0 / (squares / x.len() as f32 + EPS as f32).sqrt();
    vector::normalise(out, x, [mean, rstd], [gamma, beta]);
    (mean, rstd)
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let c = p["c"] as usize;
    let (gamma, beta) = (inputs[GAMMA].f32(), inputs[BETA].f32());
    let [out, mean, rstd] = outputs else { unreachable!("three outputs") };
    let statistics = mean.par_iter_mut().zip(rstd.par_iter_mut());
    let rows = out.par_chunks_mut(c).zip(inputs[X].f32().par_chunks(c)).zip(statistics);
    rows.for_each(|((out, x), (mean, rstd))| (*mean, *rstd) = host_row(x, gamma, beta, out));
}

/// Threads that share a row in the plainest variants.
pub(super) const ROW_THREADS: u32 = 128;

/// Stage of the plainest kernel source in `groups` workgroups.
pub(super) fn plain(p: &Problem, entry: &'static str, groups: u64) -> Stage {
    Stage::kernel(entry, "layernorm/naive", entry)
        .consts(&[("ROWS", p["r"] as u32), ("COLUMNS", p["c"] as u32), ("ROW_THREADS", ROW_THREADS)])
        .consts(&[("EPS", EPS as f32)])
        .threads([ROW_THREADS, 1, 1])
        .grid(spread(groups))
}

/// Stage of the mean and `ρ` of the rows of a buffer.
pub(super) fn statistics_stage(p: &Problem, x: &'static str) -> Stage {
    let (matrix, of_rows, _) = sizes(p);
    plain(p, "layernorm_statistics", p["r"])
        .args([("x", x, Read), ("row_mean", "mean", Write), ("row_rstd", "rstd", Write)])
        .shared(ROW_THREADS * 4)
        .cost(Cost::new(5 * p["r"] * p["c"], matrix, 2 * of_rows))
}

/// Both stages of `naive` on the rows of a buffer.
pub(super) fn naive(p: &Problem, x: &'static str) -> [Stage; 2] {
    let (matrix, of_rows, of_columns) = sizes(p);
    let apply = plain(p, "layernorm_apply", p["r"])
        .args([
            ("x", x, Read),
            ("mean", "mean", Read),
            ("rstd", "rstd", Read),
            ("gamma", "gamma", Read),
            ("beta", "beta", Read),
            ("out", "out", Write),
        ])
        .cost(Cost::new(4 * p["r"] * p["c"], matrix + 2 * of_rows + 2 * of_columns, matrix));
    [statistics_stage(p, x), apply]
}

/// Matrix of the rows.
pub(super) fn matrix(p: &Problem) -> Rows2d {
    Rows2d { rows: p["r"], columns: p["c"] }
}

/// Stage in CubeCL.
pub(super) fn cube(p: &Problem, caps: &Caps, name: &'static str) -> Stage {
    Stage::cube_rows(name, matrix(p), width(p["c"], p.dtype, caps), caps).consts(&[("EPS", EPS as f32)])
}

/// Largest number of elements per thread of a row that a warp keeps.
const OF_A_WARP: u64 = 40;

pub(super) fn kept(p: &Problem, caps: &Caps) -> Result<RowShare, String> {
    RowShare::kept(matrix(p), p.dtype, caps, OF_A_WARP)
}

/// Stage with the common arguments of kernels that normalise rows in registers, after those of the row's source.
pub(super) fn row_stage(
    p: &Problem,
    caps: &Caps,
    text: &'static str,
    rows: &[(&'static str, &'static str, Access)],
) -> Stage {
    let own = [
        ("gamma", "gamma", Read),
        ("beta", "beta", Read),
        ("out", "out", Write),
        ("mean", "mean", Write),
        ("rstd", "rstd", Write),
    ];
    kept(p, caps)
        .expect("the plan asks first")
        .stage(text, "layernorm_row")
        .consts(&[("EPS", EPS as f32)])
        .args(own.into_iter().chain(rows.iter().copied()))
}

/// One stage for the rows of a buffer.
pub(super) fn row(p: &Problem, caps: &Caps, x: &'static str) -> Stage {
    let text = "layernorm/forward";
    row_stage(p, caps, text, &[("x", x, Read)]).cost(cost(p))
}
