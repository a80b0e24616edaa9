//! Reduction of all elements to one number, `out = Σ x[i]` or `out = max x[i]`.
//!
//! The result is f32 for every element type: rounding would hide the error of the additions. Its speed is that of reading. Bytes:
//! each element read once. Operations: one an element.

use std::sync::OnceLock;

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, MOST_PARTS, OfNan, OpSpec, Problem, Program, Reference, Rows, Stage,
    StressInput, Tolerance, Variant, Workload, indexable, normal, parts_of, pieces_in_parts, spread, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use crate::real::maximum;
use crate::vector;

const X: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "one number of all: a sum, or the largest",
        axes: const { &[Axis::extent("n", "elements"), Axis::word("op", "operation", &["sum", "max"])] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"]),
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            |p| {
                vec![
                    BufferSpec::input("x", Elem::Real, &[p["n"]], normal),
                    BufferSpec::output("out", Elem::F32, &[1]),
                    BufferSpec::scratch("parts", Elem::F32, &[p["n"].min(MOST_PARTS)]),
                ]
            },
            cost,
            tolerance,
            Reference::new(|p, _| p["n"], reference),
            OfNan::Kept,
        )
        .headline("n16777216,sum")
        .shapes(shapes)
        .awkward(&[
            "n1,sum",
            "n1,max",
            "n3,sum",
            "n1009,max",
            "n4095,sum",
            "n4100,max",
            "n8200,sum",
            "n50001,sum",
            "n1048584,max",
            "n1048577,sum",
        ])
        .huge(&["n2148532224,sum"])
        .host(host)
        .variants(vec![
            Variant::kernel(
                "atomic",
                "a workgroup reduces its threads' partial results to one number by halves, and adds it to the result by an \
                     atomic operation (WGSL: a compare-and-exchange loop on the bits). The order of additions \
                     varies, so sums of several runs may differ in their last bits",
                atomic,
            ),
            Variant::kernel(
                "tree",
                "as many workgroups as the device holds leave a part each, and one more makes the result of these: the \
                 same in every run",
                |p, caps| in_parts(p, caps, 1),
            ),
            Variant::kernel(
                "vector",
                "the same with accesses of 16 bytes (WGSL: four elements), four of which are under way in every thread",
                |p, caps| in_parts(p, caps, width(p["n"], p.dtype, caps)),
            ),
            Variant::cube("one source in CubeCL: the two stages of `tree`, by pieces as those of `vector`", cube),
        ])
        .fallback(&["vector", "tree", "atomic"])
        .stress(stress_inputs())],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n16777216,sum", "n16777216,max", "n67108864,sum"],
        _ => &["n16777216,sum", "n67108864,sum", "n268435456,sum", "n268435456,max"],
    }
}

fn largest(p: &Problem) -> bool {
    p.shape.has("max")
}

fn cost(p: &Problem) -> Cost {
    Cost::new(p["n"], p["n"] * Elem::Real.storage(p.dtype).bytes(), 4)
}

/// Number of additions that a number passes through: within its thread and workgroup, and in the longest chain of parts, that of
/// `atomic`.
fn depth(p: &Problem) -> f64 {
    64.0 + p["n"] as f64 / OF_A_GROUP as f64
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    if largest(p) {
        return exact(p, output);
    }
    Tolerance {
        abs: 8.0 * 2f64.powi(-24) * (p["n"] as f64 * depth(p)).sqrt(),
        rel: 2f64.powi(-24),
        reason: "sums of m numbers of variance one are about √m, and each addition is off by u times its sum: over all of \
                 them that is u·√(n·depth), and eight times as much has a probability of e^-32 (Higham and Mary 2019)",
    }
}

/// Tolerance for numbers of one sign.
fn of_one_sign(p: &Problem, output: usize) -> Tolerance {
    if largest(p) {
        return exact(p, output);
    }
    Tolerance {
        abs: 0.0,
        rel: 2f64.powi(-24) * (1.0 + 8.0 * depth(p).sqrt()),
        reason: "no sum is larger than the result, and the roundings of `depth` additions grow with its root",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero", |_| vec![("x", zero)], exact),
        set("equal", "all one: their number, exactly as far as f32 counts, or one", |_| vec![("x", one)], of_one_sign),
        set(
            "negative",
            "all below zero: the initial value of a maximum must not win",
            |_| vec![("x", |_, draw| -1.0 - draw.uniform())],
            of_one_sign,
        ),
        set(
            "huge",
            "up to 6e4 in f16 and 1e29 otherwise: sums stay within f32",
            |p| {
                vec![if wide(p) {
                    ("x", |_, draw| 1e29 * draw.uniform())
                } else {
                    ("x", |_, draw| 6e4 * draw.uniform())
                }]
            },
            of_one_sign,
        ),
        set(
            "subnormal",
            "numbers too small to be normal: a small result, or zero where the device flushes them",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: (p["n"] + 1) as f64 * smallest_normal(p),
                rel: 0.0,
                reason: "each number may be taken for zero, and so may the result",
            },
        ),
        set(
            "not finite",
            "an infinity among numbers: so is the result",
            |_| vec![("x", |_, draw| if draw.index.is_multiple_of(1000) { f64::INFINITY } else { draw.normal() })],
            tolerance,
        ),
        set(
            "nan",
            "NaN in the middle, among numbers and -inf: so is the result",
            |_| {
                vec![("x", |shape, draw| match draw.index {
                    middle if middle == shape["n"] / 2 => f64::NAN,
                    at if at % 1000 == 1 => f64::NEG_INFINITY,
                    _ => draw.normal(),
                })]
            },
            tolerance,
        ),
    ]
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let of_all = OnceLock::new();
    let reduced = move || {
        let x = (0..p["n"]).into_par_iter().map(|i| inputs.at(X, i));
        if largest(p) { reduce(x, || f64::NEG_INFINITY, maximum) } else { x.sum::<f64>() }
    };
    Box::new(move |_, _, out| out[0] = *of_all.get_or_init(reduced))
}

/// Elements that a thread of the host reduces at a time.
const PIECE: usize = 1 << 16;

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let pieces = inputs[X].f32().par_chunks(PIECE);
    outputs[0][0] = match largest(p) {
        true => vector::largest(&pieces.map(vector::largest).collect::<Vec<f32>>()),
        false => vector::total(&pieces.map(vector::total).collect::<Vec<f64>>()) as f32,
    };
}

/// Threads of a workgroup.
const THREADS: u64 = 256;
/// Elements per workgroup of `atomic`.
const OF_A_GROUP: u64 = 16 * THREADS;

fn atomic(p: &Problem, _caps: &Caps) -> Program {
    // Bits of zero, and of minus infinity.
    let begin = if largest(p) { 0xFF80_0000 } else { 0 };
    let consts = [("N", p["n"]), ("OF_A_GROUP", OF_A_GROUP), ("THREADS", THREADS), ("ROW_THREADS", THREADS)];
    let add = Stage::kernel("reduce_atomic", "reduce/atomic", "reduce_atomic")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("LARGEST", largest(p))])
        .args([("x", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["n"].div_ceil(OF_A_GROUP)))
        .shared(4 * THREADS as u32)
        .cost(cost(p));
    Program { stages: vec![Stage::fill("begin", "out", begin), add] }
}

fn in_parts(p: &Problem, caps: &Caps, width: u64) -> Program {
    let text = "reduce/parts";
    let (stage, parts) = pieces_in_parts(p["n"] / width, width, caps, text, "reduce_parts");
    let stage = stage.consts(&[("LARGEST", largest(p))]).args([("x", Read), ("parts", Write)]);
    let read = cost(p).read.0;
    let last = Stage::kernel("reduce_last", "reduce/last", "reduce_last")
        .consts(&[("PARTS", parts as u32), ("THREADS", THREADS as u32), ("ROW_THREADS", THREADS as u32)])
        .consts(&[("LARGEST", largest(p))])
        .args([("parts", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .shared(4 * THREADS as u32)
        .cost(Cost::new(parts, 4 * parts, 4));
    Program { stages: vec![stage.cost(Cost::new(p["n"], read, 4 * parts)), last] }
}

fn cube(p: &Problem, caps: &Caps) -> Program {
    let width = width(p["n"], p.dtype, caps);
    let pieces = p["n"] / width;
    let parts = parts_of(pieces.div_ceil(THREADS), caps);
    let stage = |name, parts: u64| {
        Stage::cube(name)
            .consts(&[("PARTS", parts as u32)])
            .consts(&[("LARGEST", largest(p))])
            .threads([THREADS as u32, 1, 1])
            .cube_shared(4 * THREADS as u32, caps)
    };
    let first = stage("cube_reduce_parts", parts)
        .consts(&[("PIECES", pieces as u32), ("WIDTH", width as u32)])
        .args([("x", Read), ("parts", Write)])
        .grid(spread(parts))
        .cost(Cost::new(p["n"], cost(p).read.0, 4 * parts));
    let last =
        stage("cube_reduce_last", parts).args([("parts", Read), ("out", Write)]).cost(Cost::new(parts, 4 * parts, 4));
    Program { stages: vec![first, last] }
}
