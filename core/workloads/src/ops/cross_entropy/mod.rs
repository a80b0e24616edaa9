//! Cross-entropy of rows of logits against one class each: `loss[r] = lse[r] − logits[r, targets[r]]` with `lse[r] = m_r + ln Σ_k
//! exp(logits[r, k] − m_r)` and `m_r` the row's maximum.
//!
//! The loss is minus the logarithm of the softmax at the target. The log-sum-exp is an additional output for the backward pass.
//! Like the loss it is always f32. Operations: four an element: compare, subtract, exponentiate, add. Bytes: the matrix read once,
//! and the per-row numbers.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{not_finite_rows, one, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, HostBuffer, Inputs, OfNan, OpSpec, Precondition, Problem, Program, Reference,
    RowShare, Rows2d, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::real::maximum;
use crate::vector;

mod backward;

const LOGITS: usize = 0;
const TARGETS: usize = 1;

/// Index of the loss, the first checked buffer; the other is the log-sum-exp.
const LOSS: usize = 0;

/// Shapes that cross every edge: single elements, rows that share a warp, odd and even lengths, more rows than a workgroup takes.
/// The last has rows that no workgroup keeps.
const AWKWARD: &[&str] = &["r1,c1", "r13,c3", "r67,c130", "r259,c8", "r5,c64", "r7,c1009", "r3,c4100", "r2,c40004"];

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "cross-entropy of rows of logits",
        axes: const { &[Axis::extent("r", "rows"), Axis::extent("c", "classes")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["r"] * shape["c"]),
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            let [logits, targets] = given(p);
            let [loss, lse] = results(p, BufferSpec::output);
            vec![logits, targets, loss, lse, BufferSpec::scratch("log_softmax", Elem::F32, &[p["r"], p["c"]])]
        },
        cost,
        |p, _| tolerance(p, 3.47),
        Reference::new(
            |p, _| 2 * p["c"],
            |p, inputs| Box::new(move |output, row, out| out[0] = reference(p, inputs, output, row)),
        ),
        OfNan::Kept,
    )
    .headline("r4096,c1024")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "a workgroup a row, two passes over it by single elements: maximum, sum", |p, _| {
            naive(p).into()
        }),
        Variant::kernel(
            "separate",
            "two stages: the logarithm of the softmax is stored, in f32, and then the target's is picked; vectors",
            separate,
        ),
        Variant::kernel(
            "online",
            "one stage and one pass: maximum and sum together, each thread rescaling its sum when its maximum rises",
            |p, caps| online(p, caps).into(),
        ),
        Variant::kernel(
            "row",
            "the same pass, by as many threads as keep a row in registers, several short rows to a workgroup",
            |p, caps| finish(kept(p, caps).expect("the plan asks first").stage(ROWS, "cross_entropy_row"), p).into(),
        )
        .available(|p, caps| kept(p, caps).map(|_| ())),
    ])
    .fallback(&["row", "online", "separate", "naive"])
    .preconditions(vec![TARGETS_ARE_CLASSES])
    .stress(stress_inputs())
}

const TARGETS_ARE_CLASSES: Precondition = Precondition::Below { buffer: "targets", bound: |p| p["c"] };

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r4096,c1024", "r8192,c32000"],
        _ => &["r4096,c1024", "r262144,c256", "r8192,c32000", "r4096,c128256"],
    }
}

fn given(p: &Problem) -> [BufferSpec; 2] {
    let (rows, classes) = (p["r"], p["c"]);
    [
        BufferSpec::input("logits", Elem::Real, &[rows, classes], |_: &Shape, draw: Draw| draw.normal()),
        BufferSpec::input("targets", Elem::U32, &[rows], |shape, draw| draw.below(shape["c"]) as f64),
    ]
}

fn results(p: &Problem, spec: fn(&'static str, Elem, &[u64]) -> BufferSpec) -> [BufferSpec; 2] {
    ["loss", "lse"].map(|name| spec(name, Elem::F32, &[p["r"], 1]))
}

/// Bytes of the matrix, and of a number per row.
fn sizes(p: &Problem) -> (u64, u64) {
    (p["r"] * p["c"] * Elem::Real.storage(p.dtype).bytes(), p["r"] * 4)
}

fn cost(p: &Problem) -> Cost {
    let (matrix, of_rows) = sizes(p);
    Cost::new(4 * p["r"] * p["c"], matrix + of_rows, 2 * of_rows)
}

/// Tolerance for logits of at most `largest`.
fn tolerance(p: &Problem, largest: f64) -> Tolerance {
    let classes = p["c"] as f64;
    Tolerance {
        abs: 2f64.powi(-21) + 2f64.powi(-24) * (64.0 + classes / 64.0 + 8.0 * (largest + classes.ln())),
        rel: 0.0,
        reason: "exponents of normal logits are at most 7 from the maximum's: WGSL's exp is then off by at most 17 units in \
                 the last place, its logarithm by 2^-21 around one; positive terms are added in f32, at most c/64 in a chain, \
                 and so are the maximum and the logarithm",
    }
}

fn huge(p: &Problem) -> (Fill, f64) {
    match p.dtype {
        DType::F16 => (|_, draw| 6e4 * (2.0 * draw.uniform() - 1.0), 6e4),
        DType::F32 | DType::BF16 => (|_, draw| 1e30 * (2.0 * draw.uniform() - 1.0), 1e30),
    }
}

/// Description of the sets `not finite` of both directions.
const NOT_FINITE: &str = "rows with NaN, which are NaN; and rows whose first half is -inf, which weighs nothing: targets are in the other half";

fn not_finite(_: &Problem) -> Vec<(&'static str, Fill)> {
    vec![
        ("logits", |shape, draw| not_finite_rows(draw, shape["c"])),
        ("targets", |shape, draw| (shape["c"] - 1 - draw.below(shape["c"].div_ceil(2))) as f64),
    ]
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, |p, _| tolerance(p, 3.47));
    vec![
        set("zeros", "all zero: the loss is the logarithm of c", |_| vec![("logits", zero)]),
        set("equal", "all one: the loss is the logarithm of c", |_| vec![("logits", one)]),
        set("last", "every target is the last class", |_| vec![("targets", |shape, _| (shape["c"] - 1) as f64)]),
        StressInput {
            tolerance: |p, _| tolerance(p, huge(p).1),
            ..set(
                "huge",
                "up to 6e4 in f16 and 1e30 otherwise, of either sign: a loss is a difference of two logits",
                |p| vec![("logits", huge(p).0)],
            )
        },
        set("not finite", NOT_FINITE, not_finite),
    ]
}

/// Maximum of a row, and the sum of the exponentials of its logits minus it.
fn top_and_sum(p: &Problem, inputs: &Inputs, row: u64) -> (f64, f64) {
    let logits = || (row * p["c"]..(row + 1) * p["c"]).map(|at| inputs.at(LOGITS, at));
    let top = logits().fold(f64::NEG_INFINITY, maximum);
    (top, logits().map(|x| (x - top).exp()).sum())
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64) -> f64 {
    let (top, sum) = top_and_sum(p, inputs, row);
    let lse = top + sum.ln();
    let of_target = inputs.at(LOGITS, row * p["c"] + inputs.at(TARGETS, row) as u64);
    if output == LOSS { lse - of_target } else { lse }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [loss, lse] = outputs else { unreachable!("two outputs") };
    let rows = inputs[LOGITS].f32().par_chunks(p["c"] as usize).zip(inputs[TARGETS].u32());
    let both = loss.par_iter_mut().zip(lse.par_iter_mut()).zip(rows);
    both.for_each_init(Vec::new, |weights: &mut Vec<f32>, ((loss, lse), (logits, target))| {
        weights.clear();
        weights.extend_from_slice(logits);
        let top = vector::largest(logits);
        *lse = top + vector::weigh(weights, top).ln();
        *loss = *lse - logits[*target as usize];
    });
}

/// Threads that share a row in the plainest variants.
const ROW_THREADS: u32 = 128;

/// Stage of one of the plainest kernel sources, with one workgroup per row.
fn by_rows(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    Stage::kernel(entry, text, entry)
        .consts(&[("ROWS", p["r"] as u32), ("COLUMNS", p["c"] as u32), ("ROW_THREADS", ROW_THREADS)])
        .threads([ROW_THREADS, 1, 1])
        .grid(spread(p["r"]))
}

/// Adds the arguments and cost of a stage that computes losses.
fn finish(stage: Stage, p: &Problem) -> Stage {
    stage.args([("logits", Read), ("lse", Write), ("loss", Write), ("targets", Read)]).cost(cost(p))
}

fn naive(p: &Problem) -> Stage {
    finish(by_rows(p, "cross_entropy/naive", "cross_entropy_naive").shared(ROW_THREADS * 4), p)
}

/// Kernel sources: CUDA's, and WGSL's for pieces of one element and of four.
const ROWS: &str = "cross_entropy/rows";

fn matrix(p: &Problem) -> Rows2d {
    Rows2d { rows: p["r"], columns: p["c"] }
}

fn online(p: &Problem, caps: &Caps) -> Stage {
    let share = RowShare::streamed(matrix(p), p.dtype, caps);
    // In CUDA, each thread has four vectors in flight, and a row should have several times as many.
    let share = match caps.dialect == Dialect::Cuda && p["c"] <= 16_384 {
        true => share.by(128),
        false => share,
    };
    finish(share.stage(ROWS, "cross_entropy_online"), p)
}

/// Largest number of elements per thread of a row that a warp keeps.
const OF_A_WARP: u64 = 40;

fn kept(p: &Problem, caps: &Caps) -> Result<RowShare, String> {
    RowShare::kept(matrix(p), p.dtype, caps, OF_A_WARP)
}

fn separate(p: &Problem, caps: &Caps) -> Program {
    let ((matrix_bytes, of_rows), n) = (sizes(p), p["r"] * p["c"]);
    let store = RowShare::streamed(matrix(p), p.dtype, caps)
        .stage(ROWS, "cross_entropy_log_softmax")
        .args([("logits", Read), ("lse", Write), ("log_softmax", Write)])
        .cost(Cost::new(5 * n, matrix_bytes, 4 * n + of_rows));
    let pick = Stage::kernel("cross_entropy_pick", "cross_entropy/pick", "cross_entropy_pick")
        .consts(&[("ROWS", p["r"] as u32), ("COLUMNS", p["c"] as u32), ("ROW_THREADS", ROW_THREADS)])
        .threads([ROW_THREADS, 1, 1])
        .grid(spread(p["r"].div_ceil(u64::from(ROW_THREADS))))
        .args([("log_softmax", Read), ("targets", Read), ("loss", Write)])
        .cost(Cost::new(p["r"], 2 * of_rows, of_rows));
    Program { stages: vec![store, pick] }
}
