//! Both directions, as in a training step: the forward pass, which leaves the inputs of the backward pass, and then the backward
//! pass. Everything is timed, and all memory belongs to one program.

use parallax_ir::stress::{sums_of_zeros, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Rows, Stage, StressInput,
    Tolerance, Variant,
};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::super::attention::keeping_lse;
use super::super::attention_block::{row_beside, side_by_side, width};
use super::super::linear::stages::GemmKind;
use super::backward::{DX, ReferenceState, gradients, host_passes, known, remembered, upstream};
use super::backward_stages::available;
use super::forward::{MLP, fusable, remembering};
use super::{
    BQ, BQKV, WQ, WQKV, backward, backward_stages, cost as cost_of_forward, dropout, forward, inputs, kept,
    side_by_side_buffers,
};

/// Specification of both directions.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::FwdBwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(|p, _| p["s"] * width(p), rows),
        OfNan::MIXED,
    )
    .headline("b1,s64,h8,d64,f1024")
    .shapes(backward::shapes)
    .awkward(super::AWKWARD)
    .setup(side_by_side)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "unfused",
            "the unfused forms of both directions; GELU's argument stays in memory in any case",
            |p, caps| step(forward::unfused(p, caps), backward_stages::unfused_with(p, caps, true)),
        ),
        Variant::kernel("fused", "the fused forms of both directions", |p, caps| fused(p, caps, GemmKind::Tiles))
            .available(|p, caps| possible(p, caps, GemmKind::Tiles)),
        Variant::kernel("mma", "the same on tensor cores by warp-wide instructions", |p, caps| {
            fused(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| possible(p, caps, GemmKind::Mma)),
        Variant::kernel(
            "wgmma",
            "the same on tensor cores by four warps together; the copy engine loads and stores tiles",
            |p, caps| fused(p, caps, GemmKind::Wgmma),
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| possible(p, caps, GemmKind::Wgmma)),
        Variant::kernel(
            "vendor",
            "the same with products and attention by the vendor's libraries, cuBLASLt and cuDNN",
            |p, caps| fused(p, caps, GemmKind::Library),
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| possible(p, caps, GemmKind::Library)),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["wgmma", "mma", "fused", "unfused"])
    .stress(stress_inputs())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let mut buffers = inputs(p);
    buffers.push(upstream(p));
    buffers.extend(dropout::keys(p));
    buffers.extend(side_by_side_buffers(p));
    buffers.push(BufferSpec::output("out", Elem::Real, &[p["b"], p["s"], width(p)]));
    buffers.extend(gradients(p));
    buffers.extend(remembered(p, BufferSpec::scratch));
    buffers.push(BufferSpec::scratch("pre", Elem::Real, &[p["b"], p["s"], p["f"]]));
    let mut known: Vec<&str> = buffers.iter().map(|spec| spec.name).collect();
    for spec in backward::scratch(p).into_iter().chain(forward::scratch(p)) {
        if !known.contains(&spec.name) {
            known.push(spec.name);
            buffers.push(spec);
        }
    }
    buffers
}

fn cost(p: &Problem) -> Cost {
    let (there, back) = (cost_of_forward(p), backward::cost(p));
    Cost::new(there.flops.0 + back.flops.0, there.read.0 + back.read.0, there.written.0 + back.written.0)
}

/// Indices of the checked buffers from the third on: the result, and gradients in the order of the backward direction.
const OUT: usize = 2;

/// Index of an output in the backward direction.
fn in_backward(p: &Problem, output: usize) -> usize {
    let dx = (0..).find(|output| backward::checked(p, *output) == DX).expect("among its outputs");
    output - OUT - 1 + dx
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    match output {
        WQKV | BQKV => super::tolerance(p, output, 1.0),
        OUT => super::tolerance(p, OUT + usize::from(kept(p)), 1.0),
        // Intermediates between the directions are rounded like the backward direction's own inputs.
        gradient => backward::tolerance(p, in_backward(p, gradient), 1.0),
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![StressInput::new(
        "zeros",
        "no gradient: the result is as usual, and every gradient is zero",
        |_| vec![("dout", zero)],
        |p, output| match output {
            0..=OUT => tolerance(p, output),
            _ => sums_of_zeros(p),
        },
    )]
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (s, c) = (p["s"], width(p));
    let known: ReferenceState<'a> = known(p, inputs);
    let within = move |from: &[f64], row: u64| from[(row % s * c) as usize..][..c as usize].to_vec();
    Box::new(move |output, row, out| match output {
        WQKV => row_beside(p, inputs, WQ, row, out),
        BQKV => row_beside(p, inputs, BQ, 0, out),
        OUT => out.copy_from_slice(&within(&known.items.item(row / s).0.out, row)),
        gradient if gradient == OUT + 1 => out.copy_from_slice(&within(&known.items.item(row / s).1, row)),
        learned => out[0] = known.learned[learned - OUT - 2][row as usize],
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (out, gradients) = outputs.split_first_mut().expect("the result, and gradients");
    let elements = (p["s"] * width(p)) as usize;
    host_passes(p, inputs, gradients, |item, passed| {
        out[item * elements..][..elements].copy_from_slice(&passed.out);
    });
}

/// Stages of both directions, with distinct names for stages of the same name. The first leave the inputs of the second.
fn apart(there: Program, back: Program) -> [Vec<Stage>; 2] {
    let back = back.stages.into_iter().map(|stage| stage.renamed(|label| format!("backward_{label}")));
    [keeping_lse(remembering(there.stages)), back.collect()]
}

/// Program of both directions in sequence.
fn step(there: Program, back: Program) -> Program {
    Program { stages: apart(there, back).concat() }
}

/// Stages of the forward pass and of the backward pass, for a caller that has others in between. The problem keeps GELU's argument.
/// Without `kind` each step is a stage; otherwise the fused variants use this kind of GEMM.
pub(crate) fn halves(p: &Problem, caps: &Caps, kind: Option<GemmKind>) -> [Vec<Stage>; 2] {
    match kind {
        None => apart(forward::unfused(p, caps), backward_stages::unfused_with(p, caps, true)),
        Some(kind) => apart(forward::fused(p, caps, kind), backward_stages::fused(p, caps, kind)),
    }
}

/// Names of the buffers that the forward pass leaves for the backward pass.
pub(crate) fn left(p: &Problem) -> Vec<&'static str> {
    remembered(p, BufferSpec::scratch).into_iter().map(|spec| spec.name).chain(["pre"]).collect()
}

/// Program of both directions without the result, from an item's rows alone. An encoder uses it that keeps only each layer's rows.
/// It recomputes the values before the MLP, and those of the MLP that every backward pass recomputes. Each step is a stage without
/// `by`; otherwise the fused variants use this kind of GEMM.
pub(crate) fn checkpointed(p: &Problem, caps: &Caps, kind: Option<GemmKind>) -> Program {
    let (there, back) = match kind {
        None => (forward::unfused(p, caps), backward_stages::unfused_with(p, caps, false)),
        Some(kind) => (forward::fused(p, caps, kind), backward_stages::fused(p, caps, kind)),
    };
    let before_mlp = there.stages.into_iter().take_while(|stage| stage.component != Some(MLP));
    let again = before_mlp.map(|stage| stage.renamed(|label| format!("again_{label}")));
    step(Program { stages: again.collect() }, back)
}

fn possible(p: &Problem, caps: &Caps, kind: GemmKind) -> Result<(), String> {
    fusable(p, caps, kind).and_then(|()| available(p, caps, kind))
}

fn fused(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    step(forward::fused(p, caps, kind), backward_stages::fused(p, caps, kind))
}
