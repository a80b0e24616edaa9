//! Residual connection with layer normalisation: `sum = x + residual`, and `out` normalises the rows of `sum`.
//!
//! The second part is [`super::layernorm`] of the stored sum, with mean and `ρ` as additional outputs. With `in_place` the sum
//! overwrites the residual, as in engines that are short of memory. The backward pass does not depend on that.
//!
//! Operations: nine an element. Bytes: those of the four matrices, each read or written once, and of the per-row and per-column
//! numbers.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    Access, Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Rows, Stage,
    StressInput, Tolerance, Variant, Workload, by_pieces, normal, round_to, width,
};
use parallax_schema::case::{Cost, DType, Direction, Rate};
use parallax_schema::device::Caps;

use super::layernorm;
use super::layernorm::{Spread, StressPart};

mod backward;

const X: usize = 0;
const RESIDUAL: usize = 1;
const GAMMA: usize = 2;
const BETA: usize = 3;

/// Index of the sum, the first checked buffer. Those of the normalisation follow.
const SUM: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "a residual sum and the layer normalisation of its rows",
        axes: const {
            &[
                Axis::extent("r", "rows"),
                Axis::extent("c", "columns"),
                Axis::word("sum", "whether the sum is written over the residual", &["", "in_place"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: layernorm::validate,
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, spread(p)),
        Reference::new(|p, _| 6 * p["c"], rows),
        OfNan::MIXED,
    )
    .headline("r4096,c1024")
    .shapes(layernorm::shapes)
    .awkward(&[
        "r1,c1",
        "r13,c3,in_place",
        "r67,c130",
        "r259,c8,in_place",
        "r5,c64",
        "r7,c1009,in_place",
        "r3,c4100,in_place",
        "r2,c34004",
    ])
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "the sum, and then the two stages of layernorm's naive", |p, caps| {
            let [statistics, apply] = layernorm::naive(p, sum_buffer(p));
            Program { stages: vec![sum(p, caps), statistics, apply] }
        }),
        Variant::kernel(
            "separate",
            "two stages: the sum, and layer normalisation that reads it again and keeps rows in registers",
            |p, caps| Program { stages: vec![sum(p, caps), layernorm::row(p, caps, sum_buffer(p))] },
        )
        .available(|p, caps| layernorm::kept(p, caps).map(|_| ())),
        Variant::kernel("fused", "one stage: the sum is made, written and normalised in registers", fused)
            .available(|p, caps| layernorm::kept(p, caps).map(|_| ())),
        Variant::cube("one source in CubeCL: a workgroup a row, the sum and three passes over it", cube),
    ])
    .fallback(&["fused", "separate", "naive"])
    .stress(stress_inputs())
}

/// Name of the buffer of the sum.
fn sum_buffer(p: &Problem) -> &'static str {
    if p.shape.has("in_place") { "residual" } else { "sum" }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (rows, columns) = (p["r"], p["c"]);
    let (residual, sum) = match p.shape.has("in_place") {
        true => (BufferSpec::in_out("residual", Elem::Real, &[rows, columns], normal), None),
        false => (
            BufferSpec::input("residual", Elem::Real, &[rows, columns], normal),
            Some(BufferSpec::output("sum", Elem::Real, &[rows, columns])),
        ),
    };
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &[rows, columns], normal),
        residual,
        BufferSpec::input("gamma", Elem::Real, &[columns], layernorm::factor),
        BufferSpec::input("beta", Elem::Real, &[columns], normal),
    ];
    buffers.extend(sum);
    buffers.extend([
        BufferSpec::output("out", Elem::Real, &[rows, columns]),
        BufferSpec::output("mean", Elem::F32, &[rows, 1]),
        BufferSpec::output("rstd", Elem::F32, &[rows, 1]),
    ]);
    buffers
}

fn cost(p: &Problem) -> Cost {
    let (matrix, of_rows, of_columns) = layernorm::sizes(p);
    Cost::new(9 * p["r"] * p["c"], 2 * matrix + 2 * of_columns, 2 * matrix + 2 * of_rows)
}

/// Spread of sums of normal inputs.
fn spread(p: &Problem) -> Spread {
    let of_one = Spread::of_normal(p);
    Spread { largest: 2.0 * of_one.largest, ..of_one }
}

fn tolerance(p: &Problem, output: usize, spread: Spread) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    match output {
        SUM => Tolerance { abs: smallest_normal(p), rel: 2.0 * u, reason: "one addition, rounded once" },
        _ => layernorm::tolerance(p, output - 1, spread, u),
    }
}

fn stress_inputs() -> Vec<StressInput> {
    fn of<const SET: usize>() -> fn(&Problem, usize) -> Tolerance {
        |p, output| {
            let of_x = layernorm::stress_spreads(p)[SET];
            tolerance(p, output, Spread { largest: 2.0 * of_x.largest, ..of_x })
        }
    }
    let parts: [StressPart; 4] = [
        (|_| vec![("x", zero), ("residual", zero)], of::<0>()),
        (|_| vec![("x", one), ("residual", one)], of::<1>()),
        (|_| vec![("x", layernorm::offset)], of::<2>()),
        (|p| vec![("x", layernorm::huge(p))], of::<3>()),
    ];
    layernorm::stress_inputs_of_rows(parts)
}

/// Reference of the rows. The sum is rounded as stored, because the normalisation reads it. It is a sum in f32, which is exact for
/// 16-bit numbers except for its last bits.
fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let storage = Elem::Real.storage(p.dtype);
    let value = move |at| round_to(storage, f64::from((inputs.at(X, at) + inputs.at(RESIDUAL, at)) as f32));
    Box::new(move |output, row, out| match output {
        SUM => out.iter_mut().zip(row * p["c"]..).for_each(|(out, at)| *out = value(at)),
        _ => layernorm::reference(p, inputs, [GAMMA, BETA], value, (output - 1, row), out),
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let c = p["c"] as usize;
    let (x, residual) = (inputs[X].f32(), inputs[RESIDUAL].f32());
    let [sum, out, mean, rstd] = outputs else { unreachable!("four outputs") };
    let storage = Elem::Real.storage(p.dtype);
    sum.par_iter_mut()
        .zip(x.par_iter().zip(residual))
        .for_each(|(sum, (x, residual))| *sum = round_to(storage, f64::from(x + residual)) as f32);
    let statistics = mean.par_iter_mut().zip(rstd.par_iter_mut());
    let rows = out.par_chunks_mut(c).zip(sum.par_chunks(c)).zip(statistics);
    rows.for_each(|((out, sum), (mean, rstd))| {
        (*mean, *rstd) = layernorm::host_row(sum, inputs[GAMMA].f32(), inputs[BETA].f32(), out);
    });
}

/// Stage of the sum, with an entry point for each destination.
fn stage_of_sum(p: &Problem, stage: impl FnOnce(&'static str) -> Stage) -> Stage {
    let (matrix, _, _) = layernorm::sizes(p);
    let stage = match p.shape.has("in_place") {
        true => stage("residual_add_in_place").args([("sum", "residual", Write), ("x", "x", Read)]),
        false => stage("residual_add").args([("sum", Write), ("x", Read), ("residual", Read)]),
    };
    stage.cost(Cost::new(p["r"] * p["c"], 2 * matrix, matrix))
}

/// Stage of that kernel source on `n` elements.
fn added(n: u64, dtype: DType, caps: &Caps, entry: &'static str) -> Stage {
    let width = width(n, dtype, caps);
    by_pieces(n / width, width, "add_layernorm/add", entry)
}

/// Stage that writes the sum of two buffers of `n` elements to a third.
pub(super) fn sum_stage(n: u64, dtype: DType, caps: &Caps, [x, residual, sum]: [&'static str; 3]) -> Stage {
    let bytes = n * Elem::Real.storage(dtype).bytes();
    added(n, dtype, caps, "residual_add")
        .args([("sum", sum, Write), ("x", x, Read), ("residual", residual, Read)])
        .cost(Cost::new(n, 2 * bytes, bytes))
}

fn sum(p: &Problem, caps: &Caps) -> Stage {
    stage_of_sum(p, |entry| added(p["r"] * p["c"], p.dtype, caps, entry))
}

fn fused(p: &Problem, caps: &Caps) -> Program {
    let stage = match p.shape.has("in_place") {
        true => {
            let text = "add_layernorm/in_place";
            layernorm::row_stage(p, caps, text, &[("x", "x", Read), ("sum", "residual", Write)])
        }
        false => {
            let text = "add_layernorm/forward";
            let rows = [("x", "x", Read), ("residual", "residual", Read), ("sum", "sum", Write)];
            layernorm::row_stage(p, caps, text, &rows)
        }
    };
    stage.cost(cost(p)).into()
}

fn cube(p: &Problem, caps: &Caps) -> Program {
    let of_rows = [("out", Write), ("mean", Write), ("rstd", Write)];
    let columns = [("gamma", Read), ("beta", Read)];
    let args = |rows: &[(&'static str, Access)], sum: &[(&'static str, Access)]| {
        [rows, &columns[..], sum, &of_rows[..]].concat()
    };
    let (name, args) = match p.shape.has("in_place") {
        true => ("cube_add_layernorm_in_place", args(&[("x", Read), ("residual", Write)], &[])),
        false => ("cube_add_layernorm", args(&[("x", Read), ("residual", Read)], &[("sum", Write)])),
    };
    layernorm::cube(p, caps, name).args(args).cost(cost(p)).into()
}
