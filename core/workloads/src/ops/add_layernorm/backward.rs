//! Backward direction: the gradient of the sum, which is that of both its terms, and those of `γ` and `β`.
//!
//! The normalisation and later operations read the sum, so its gradient is that of [`super::layernorm`] plus `dsum`. Operations:
//! fifteen an element. Bytes: three matrices read, one written.

use parallax_ir::Access::{Read, Write};
use parallax_ir::stress::{one, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, OfNan, OpSpec, Problem, Program, Reference, StressInput, Tolerance, Variant, normal,
};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::layernorm;
use super::layernorm::{Spread, StressPart, backward};

const SUM: usize = 0;
const GAMMA: usize = 1;
const DOUT: usize = 2;
const DSUM: usize = 3;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, Spread::of_normal(p)),
        Reference::new(backward::row_cost, |p, inputs| {
            backward::gradients(p, inputs, [GAMMA, DOUT], |at| inputs.at(SUM, at), |at| inputs.at(DSUM, at))
        }),
        OfNan::MIXED,
    )
    .headline("r4096,c1024")
    .shapes(backward::shapes)
    .awkward(layernorm::AWKWARD)
    .setup(|p, _| layernorm::statistics_stage(p, "sum").into())
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "the stages of layernorm's naive, and then the sum", naive),
        Variant::kernel("fused", "one pass and the sum of its parts: dsum is added to dx before it is written", fused)
            .available(|p, caps| backward::kept(p, caps).map(|_| ())),
        Variant::kernel(
            "staged",
            "as fused with one workgroup per multiprocessor: teams of threads have the next rows under way in shared memory, \
             by asynchronous copies, and reduce several rows together",
            staged,
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| backward::teams(p, caps, 1).map(|_| ())),
    ])
    .fallback(&["staged", "fused", "naive"])
    .stress(stress_inputs())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (rows, columns) = (p["r"], p["c"]);
    let mut buffers = vec![
        BufferSpec::input("sum", Elem::Real, &[rows, columns], normal),
        BufferSpec::input("gamma", Elem::Real, &[columns], layernorm::factor),
        BufferSpec::input("dout", Elem::Real, &[rows, columns], normal),
        BufferSpec::input("dsum", Elem::Real, &[rows, columns], normal),
    ];
    buffers.extend(backward::outputs(p));
    buffers
}

fn cost(p: &Problem) -> Cost {
    let (matrix, _, _) = layernorm::sizes(p);
    let of_layernorm = backward::cost(p);
    Cost::new(of_layernorm.flops.0 + p["r"] * p["c"], of_layernorm.read.0 + matrix, of_layernorm.written.0)
}

fn tolerance(p: &Problem, output: usize, spread: Spread) -> Tolerance {
    let of_layernorm = backward::tolerance(p, output, spread);
    match output {
        backward::DX => Tolerance {
            abs: of_layernorm.abs + 2.0 * p.dtype.unit_roundoff() * 6.5 * spread.rstd,
            reason: "as in layernorm's backward form, whose gradient (about 6.5 ρ at most) may be rounded before dsum is added",
            ..of_layernorm
        },
        _ => of_layernorm,
    }
}

fn stress_inputs() -> Vec<StressInput> {
    fn of<const SET: usize>() -> fn(&Problem, usize) -> Tolerance {
        |p, output| tolerance(p, output, layernorm::stress_spreads(p)[SET])
    }
    let parts: [StressPart; 4] = [
        (|_| vec![("sum", zero)], of::<0>()),
        (|_| vec![("sum", one)], of::<1>()),
        (|_| vec![("sum", layernorm::offset)], of::<2>()),
        (|p| vec![("sum", layernorm::huge(p))], of::<3>()),
    ];
    layernorm::stress_inputs_of_rows(parts)
}

fn host(_p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [x, gamma, dout, dsum] = [SUM, GAMMA, DOUT, DSUM].map(|buffer| inputs[buffer].f32());
    let [mean, rstd] = [DSUM + 1, DSUM + 2].map(|buffer| inputs[buffer].f32());
    backward::HostRows { x, gamma, dout, mean: Some(mean), rstd, dsum: Some(dsum) }.gradients(outputs);
}

fn naive(p: &Problem, caps: &Caps) -> Program {
    let (matrix, _, _) = layernorm::sizes(p);
    let [rows, columns] = backward::naive(p, "sum");
    let add = super::added(p["r"] * p["c"], p.dtype, caps, "residual_add_in_place")
        .args([("sum", "dx", Write), ("x", "dsum", Read)])
        .cost(Cost::new(p["r"] * p["c"], 2 * matrix, matrix));
    Program { stages: vec![rows, columns, add] }
}

fn fused(p: &Problem, caps: &Caps) -> Program {
    let text = "add_layernorm/backward";
    Program { stages: backward::row(p, caps, text, "sum", &[("dsum", "dsum", Read)], cost(p)).into() }
}

fn staged(p: &Problem, caps: &Caps) -> Program {
    let text = "add_layernorm/backward_staged";
    Program { stages: backward::in_teams(p, caps, text, "sum", &[("dsum", "dsum", Read)], cost(p)).into() }
}
