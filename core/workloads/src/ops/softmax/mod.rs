//! Softmax of each row of a matrix: `out[r, j] = exp(x[r, j] − m_r) / Σ_k exp(x[r, k] − m_r)` with `m_r` the row's maximum.
//!
//! Operations: five an element: compare, subtract, exponentiate, add, multiply. Bytes: those of a copy, each element read once and
//! written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{not_finite_rows, one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, RowShare,
    Rows2d, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, normal, spread, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::real::maximum;
use crate::vector;

pub(super) mod backward;

const X: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "softmax of the rows of a matrix",
        axes: const { &[Axis::extent("r", "rows"), Axis::extent("c", "columns")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["r"] * shape["c"]),
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
        Reference::new(|p, _| 2 * p["c"], |p, inputs| Box::new(move |_, row, out| probabilities(p, inputs, row, out))),
        OfNan::Kept,
    )
    .headline("r4096,c1024")
    .shapes(shapes)
    // Single elements, rows that share a warp, odd and even lengths, more rows than a workgroup takes, and rows that no
    // workgroup can keep.
    .awkward(&["r1,c1", "r13,c3", "r67,c130", "r259,c8", "r5,c64", "r7,c1009", "r3,c4100", "r2,c40004"])
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "a workgroup a row, three passes over it by single elements: maximum, sum, result",
            naive,
        ),
        Variant::kernel(
            "online",
            "two passes: maximum and sum together, each thread rescaling its sum when its maximum rises; vectors",
            online,
        ),
        Variant::kernel(
            "row",
            "one pass: a row stays in the registers of as many threads as it takes, several short rows to a workgroup",
            row,
        )
        .available(|p, caps| kept(p, caps).map(|_| ())),
        Variant::cube("one source in CubeCL: a workgroup a row, two passes as those of `online`", cube),
    ])
    .fallback(&["row", "online", "naive"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r4096,c1024", "r65536,c256", "r8192,c8192"],
        _ => &["r4096,c1024", "r262144,c256", "r16384,c4096", "r8192,c8192", "r8192,c32768", "r1024,c131072"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let dims = [p["r"], p["c"]];
    vec![BufferSpec::input("x", Elem::Real, &dims, normal), BufferSpec::output("out", Elem::Real, &dims)]
}

/// Bytes of the matrix.
fn matrix(p: &Problem) -> u64 {
    p["r"] * p["c"] * Elem::Real.storage(p.dtype).bytes()
}

fn cost(p: &Problem) -> Cost {
    Cost::new(5 * p["r"] * p["c"], matrix(p), matrix(p))
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff() + 2f64.powi(-24) * (64.0 + p["c"] as f64 / 64.0),
        reason: "exponents of normal inputs are at most 7 from the maximum's: WGSL's exp is then off by at most 17 units in \
                 the last place; positive terms are added in f32, at most c/64 in a chain; the result is rounded once, or to \
                 zero where it is no normal number",
    }
}

/// Selects two thirds of the elements, and all of every fifth row.
fn masked(shape: &Shape, draw: Draw) -> bool {
    (draw.index / shape["c"]).is_multiple_of(5) || !draw.bits().is_multiple_of(3)
}

/// Masked x of the stress inputs of both directions: see [`stress_inputs`].
fn masked_x(p: &Problem) -> Fill {
    match p.dtype {
        DType::F16 => |shape, draw| if masked(shape, draw) { -65_504.0 } else { draw.normal() },
        DType::F32 | DType::BF16 => |shape, draw| if masked(shape, draw) { -1e30 } else { draw.normal() },
    }
}

fn huge_x(p: &Problem) -> Fill {
    match p.dtype {
        DType::F16 => |_, draw| 1.2e5 * (draw.uniform() - 0.5),
        DType::F32 | DType::BF16 => |_, draw| 2e30 * (draw.uniform() - 0.5),
    }
}

/// Description of the sets `not finite` of both directions.
const NOT_FINITE: &str = "rows with NaN, which are NaN; and rows whose first half is -inf, which weighs nothing";

fn not_finite_x(shape: &Shape, draw: Draw) -> f64 {
    not_finite_rows(draw, shape["c"])
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero: every weight is 1/c", |_| vec![("x", zero)]),
        set("equal", "all one: every weight is 1/c", |_| vec![("x", one)]),
        set("masked", "two thirds of the elements, and all of every fifth row, at the number that masks hold", |p| {
            vec![("x", masked_x(p))]
        }),
        set("huge", "up to 6e4 in f16 and 1e30 otherwise, of either sign: only the largest weighs anything", |p| {
            vec![("x", huge_x(p))]
        }),
        set("not finite", NOT_FINITE, |_| vec![("x", not_finite_x)]),
    ]
}

/// Weights of one row.
fn probabilities(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let first = row * p["c"];
    for (x, at) in out.iter_mut().zip(first..) {
        *x = inputs.at(X, at);
    }
    let top = out.iter().copied().fold(f64::NEG_INFINITY, maximum);
    out.iter_mut().for_each(|x| *x = (*x - top).exp());
    let sum: f64 = out.iter().sum();
    out.iter_mut().for_each(|x| *x /= sum);
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let c = p["c"] as usize;
    outputs[0].par_chunks_mut(c).zip(inputs[X].f32().par_chunks(c)).for_each(|(out, x)| {
        out.copy_from_slice(x);
        let sum = vector::weigh(out, vector::largest(x));
        vector::divide(out, sum);
    });
}

/// Threads that share a row in the plainest variants.
const ROW_THREADS: u32 = 128;

/// Stage with one workgroup per row.
pub(crate) fn by_rows(of: Rows2d, entry: &'static str) -> Stage {
    Stage::kernel(entry, "softmax/naive", entry)
        .consts(&[("ROWS", of.rows as u32), ("COLUMNS", of.columns as u32), ("ROW_THREADS", ROW_THREADS)])
        .threads([ROW_THREADS, 1, 1])
        .grid(spread(of.rows))
        .shared(ROW_THREADS * 4)
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    by_rows(matrix_of(p), "softmax_naive").args([("x", Read), ("out", Write)]).cost(cost(p)).into()
}

fn cube(p: &Problem, caps: &Caps) -> Program {
    Stage::cube_rows("cube_softmax", matrix_of(p), width(p["c"], p.dtype, caps), caps)
        .args([("x", Read), ("out", Write)])
        .cost(cost(p))
        .into()
}

/// Kernel sources: CUDA's, and WGSL's for pieces of one element and of four.
pub(crate) const FORWARD: &str = "softmax/forward";

fn matrix_of(p: &Problem) -> Rows2d {
    Rows2d { rows: p["r"], columns: p["c"] }
}

fn online(p: &Problem, caps: &Caps) -> Program {
    let share = RowShare::streamed(matrix_of(p), p.dtype, caps);
    share.stage(FORWARD, "softmax_online").args([("x", Read), ("out", Write)]).cost(cost(p)).into()
}

/// Largest number of elements per thread of a row that a warp keeps.
pub(crate) const OF_A_WARP: u64 = 40;

fn kept(p: &Problem, caps: &Caps) -> Result<RowShare, String> {
    let share = RowShare::kept(matrix_of(p), p.dtype, caps, OF_A_WARP)?;
    // In CUDA, smaller blocks overlap more of their loads: of 16-bit rows of 8192, 4.03 instead of 3.77 TB/s on an H200.
    Ok(match (caps.dialect, p.dtype) {
        (Dialect::Wgsl, _) => share,
        (_, DType::F32) => share.in_fewer_threads(1024),
        _ => share.in_fewer_threads(512),
    })
}

fn row(p: &Problem, caps: &Caps) -> Program {
    let share = kept(p, caps).expect("the plan asks first");
    share.stage(FORWARD, "softmax_row").args([("x", Read), ("out", Write)]).cost(cost(p)).into()
}
