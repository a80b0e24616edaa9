//! Attention by cuDNN, forward and backward.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{
    Access, Attention, AttentionPass, Choice, Library, NotOn, Problem, Program, Stage, StageOp, Variant, by_cudnn,
};
use parallax_schema::case::Cost;

use super::scores::without_changes;
use super::{cost, masks};

const FORWARD: &[(&str, Access)] = &[("q", Read), ("k", Read), ("v", Read), ("out", Write)];

const BACKWARD: &[(&str, Access)] = &[
    ("q", Read),
    ("k", Read),
    ("v", Read),
    ("out", Read),
    ("dout", Read),
    ("lse", Read),
    ("dq", Write),
    ("dk", Write),
    ("dv", Write),
];

/// Variants of the forward direction.
pub(super) fn forward() -> [Variant; 2] {
    by_cudnn(|p, _| attend(p, Choice::Heuristic), |p, _| attend(p, Choice::Timed)).map(where_possible)
}

/// Variants of the backward direction.
pub(super) fn backward() -> [Variant; 2] {
    by_cudnn(|p, _| gradients(p, Choice::Heuristic), |p, _| gradients(p, Choice::Timed)).map(where_possible)
}

fn where_possible(variant: Variant) -> Variant {
    variant
        .available(|p, _| {
            without_changes(p, "vendor")?;
            masks::without_packed(p, "vendor")?;
            wanted(p, AttentionPass::Forward { lse: false }, Choice::Heuristic).available(p.dtype)
        })
        .not_on(NOT_ON)
}

/// Stress inputs that fail in some engines of cuDNN 9.14 on an H100.
const NOT_ON: &[NotOn] = &[
    NotOn {
        sets: &["unread"],
        reason: "cuDNN multiplies keys and values beyond the lengths by zero, and zero times NaN is NaN",
    },
    NotOn { sets: &["empty"], reason: "cuDNN divides by a sum of no weights where a batch item has no key" },
    NotOn { sets: &["lowest"], reason: "cuDNN takes a row of nothing but the lowest number for one that sees no key" },
];

fn attend(p: &Problem, choice: Choice) -> Program {
    call(p, wanted(p, AttentionPass::Forward { lse: false }, choice), FORWARD, cost(p))
}

fn gradients(p: &Problem, choice: Choice) -> Program {
    call(p, wanted(p, AttentionPass::Backward, choice), BACKWARD, p.cost())
}

fn wanted(p: &Problem, pass: AttentionPass, choice: Choice) -> Attention {
    Attention {
        batch: p["b"],
        heads: p["h"],
        kv_heads: p["kv"],
        queries: p["s"],
        keys: p["t"],
        dim: p["d"],
        causal: p.shape.has("causal"),
        window: p["w"],
        padded: p.shape.has("padded"),
        biased: p.shape.has("biased"),
        pass,
        choice,
    }
}

/// Program with the library call on these buffers, followed by the optional inputs of the shape.
fn call(p: &Problem, wanted: Attention, args: &[(&'static str, Access)], cost: Cost) -> Program {
    let call = Library::Attention(wanted);
    let sometimes = masks::buffers(p).into_iter().map(|buffer| (buffer.name, Read));
    Stage::library(call.name(), call).args(args.iter().copied().chain(sometimes)).cost(cost).into()
}

/// Makes a forward library call write the log-sum-exp of every score row into the buffer `lse`. Returns whether the stage is such a
/// call.
pub(super) fn keeps_lse(stage: &mut Stage) -> bool {
    match &mut stage.work {
        StageOp::Library(Library::Attention(Attention { pass: AttentionPass::Forward { lse }, .. })) => {
            *lse = true;
            stage.args.push(("lse", Write).into());
            true
        }
        _ => false,
    }
}
