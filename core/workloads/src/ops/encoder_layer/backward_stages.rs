//! Stages of the backward pass, and the forward pass of its set-up.

use parallax_ir::{BufferSpec, Gemm, Layout, Problem, Program, Rearrange, Stage};
use parallax_schema::case::Direction;
use parallax_schema::device::Caps;

use super::super::attention::gradients_by_wgmma_on_rows;
use super::super::attention_block::{
    PROJECTED, WEIGHTS, attention, on_rows, output, projected, row_count, side_by_side, split, stages, width,
};
use super::super::linear::stages::{GemmKind, split_parts};
use super::super::{add_layernorm, gelu};
use super::dropout::{DROPPED, dropping};
use super::forward::{MLP, flash_of, fusable, gemms, normed, remembering};
use super::{dropout, kept};
use crate::SubOp;

/// Components of the profile.
const ATTENTION: &str = "attention";
const PROJECTION: &str = "output projection";
const QKV: &str = "QKV projection";
const NORM1: &str = "first norm";
const NORM2: &str = "second norm";

const DW_PARTS: &str = "dw_parts";

const GRADIENTS: [&str; 3] = ["dq", "dk", "dv"];
const GRADIENT_ROWS: [&str; 3] = ["dq_rows", "dk_rows", "dv_rows"];
const WEIGHT_GRADIENTS: [&str; 3] = ["dwq", "dwk", "dwv"];
const BIAS_GRADIENTS: [&str; 3] = ["dbq", "dbk", "dbv"];

/// Set-up: the forward pass, which keeps the inputs of the backward pass.
pub(super) fn setup(p: &Problem, caps: &Caps) -> Program {
    let made = stages(p, caps, GemmKind::Tiles);
    let mut all = side_by_side(p, caps).stages;
    all.extend(normed(p, caps, ["x", "normed"], 0));
    all.extend(projected(p, caps, GemmKind::Tiles, "normed"));
    all.extend(attention(p, Direction::Bwd).setup(caps, &[("out", "mixed")]));
    all.extend(output(p, caps, GemmKind::Tiles, "projected"));
    all.push(added(p, caps, ["x", "projected", "sum"]).label("add_1"));
    all.extend(normed(p, caps, ["sum", "normed2"], 1));
    if kept(p) {
        let [into, _] = gemms(p);
        all.push(made.with_bias(into, ["normed2", "w1", "pre"], "b1").label("mlp_product_1"));
    }
    Program { stages: remembering(dropping(p, caps, all, 0, ["projected", DROPPED[0]])) }
}

fn added(p: &Problem, caps: &Caps, names: [&'static str; 3]) -> Stage {
    add_layernorm::sum_stage(row_count(p) * width(p), p.dtype, caps, names)
}

pub(super) fn available(p: &Problem, caps: &Caps, kind: GemmKind) -> Result<(), String> {
    fusable(p, caps, kind)?;
    attention(p, Direction::Bwd).available(flash_of(p, caps, kind, Direction::Bwd), caps)?;
    sum_and_norm(p).available("fused", caps)
}

fn sum_and_norm(p: &Problem) -> SubOp {
    SubOp::new("add_layernorm", Direction::Bwd, &format!("r{},c{}", row_count(p), width(p)), p.dtype)
}

/// Stages of the gradients of the rows before a norm, with later additions to them, and of the norm's factors and offsets.
fn norm_backward(p: &Problem, caps: &Caps, which: usize, [x, dout, also, dx]: [&'static str; 4]) -> Vec<Stage> {
    const NAMES: [[&str; 5]; 2] =
        [["gamma1", "mean1", "rstd1", "dgamma1", "dbeta1"], ["gamma2", "mean2", "rstd2", "dgamma2", "dbeta2"]];
    let [gamma, mean, rstd, dgamma, dbeta] = NAMES[which];
    let names = [
        ("sum", x),
        ("dout", dout),
        ("dsum", also),
        ("dx", dx),
        ("gamma", gamma),
        ("mean", mean),
        ("rstd", rstd),
        ("dgamma", dgamma),
        ("dbeta", dbeta),
        ("parts", "norm_parts"),
    ];
    let inner = sum_and_norm(p);
    let component = [NORM1, NORM2][which];
    let number = which + 1;
    let called = |stage: Stage| stage.renamed(|label| format!("{label}_{number}")).component(component);
    inner.stages(inner.best(&["staged", "fused", "naive"], caps), caps, &names).into_iter().map(called).collect()
}

/// GEMM for the gradient of an `m × n` weight: its input rows times the gradient of the result.
fn weight_gemm(p: &Problem, [m, n]: [u64; 2]) -> Gemm {
    Gemm::new(m, n, row_count(p)).layout(Layout::Tn)
}

/// Stages of such a gradient.
fn of_weight(p: &Problem, caps: &Caps, kind: GemmKind, extents: [u64; 2], names: [&'static str; 3]) -> Vec<Stage> {
    stages(p, caps, kind).of_weight(weight_gemm(p, extents), names, DW_PARTS)
}

/// Buffer for parts of these gradients.
pub(super) fn parts_of_weights(p: &Problem) -> BufferSpec {
    let (c, f) = (width(p), p["f"]);
    split_parts(DW_PARTS, &[[f, c], [c, f], [c, c], [c, 3 * c]].map(|extents| weight_gemm(p, extents)))
}

/// GEMM for the gradients of rows that were multiplied by an `m × n` weight.
fn of_rows(p: &Problem, caps: &Caps, kind: GemmKind, [m, n]: [u64; 2], names: [&'static str; 3]) -> Stage {
    let gemm = Gemm::new(row_count(p), m, n).layout(Layout::Nt);
    stages(p, caps, kind).gemm(gemm, names).label(names[2])
}

/// Stages of the sum of all rows of `columns` columns.
fn of_bias(p: &Problem, caps: &Caps, columns: u64, [from, to]: [&'static str; 2]) -> [Stage; 2] {
    let [first, second] = stages(p, caps, GemmKind::Tiles).columns([row_count(p), columns], [from, "parts", to]);
    [first.renamed(|label| format!("{label}_{to}")), second.label(to)]
}

/// Stages of the MLP and the second norm, up to `dsum`, the gradient of the sum. GELU's argument is kept or recomputed.
fn through_mlp(p: &Problem, caps: &Caps, kind: GemmKind, fused: bool, kept: bool) -> Vec<Stage> {
    let (made, rows, c, f) = (stages(p, caps, kind), row_count(p), width(p), p["f"]);
    let [into, _] = gemms(p);
    let through = Gemm::new(rows, f, c).layout(Layout::Nt);
    let mut all = normed(p, caps, ["sum", "normed2"], 1);
    if !kept {
        all.push(made.with_bias(into, ["normed2", "w1", "pre"], "b1").label("mlp_product_1"));
    }
    let [hidden, dpre] = match fused {
        true => {
            let back = made.gelu_backward(through, ["dout", "w2"], kept);
            all.extend(back.stages);
            [back.hidden, back.dpre]
        }
        false => {
            all.push(gelu::forward_stage(rows * f, p.dtype, caps, ["pre", "hidden"]).label("mlp_gelu"));
            all.push(made.gemm(through, ["dout", "w2", "dhidden"]).label("dhidden"));
            all.push(gelu::backward_stage(rows * f, p.dtype, caps, ["pre", "dhidden", "dpre"]).label("dpre"));
            ["hidden", "dpre"]
        }
    };
    all.extend(of_weight(p, caps, kind, [f, c], [hidden, "dout", "dw2"]));
    all.extend(of_bias(p, caps, c, ["dout", "db2"]));
    all.extend(of_weight(p, caps, kind, [c, f], ["normed2", dpre, "dw1"]));
    all.extend(of_bias(p, caps, f, [dpre, "db1"]));
    all.push(of_rows(p, caps, kind, [c, f], [dpre, "w1", "dnormed"]));
    let all = all.into_iter().map(|stage| stage.component(MLP)).collect();
    let mut all = dropping(p, caps, all, 1, ["dout", dropout::GRADIENTS[1]]);
    all.extend(norm_backward(p, caps, 1, ["sum", "dnormed", "dout", "dsum"]));
    all
}

/// Stages of the output projection and attention, up to the gradients of its heads.
fn through_attention(p: &Problem, caps: &Caps, kind: GemmKind, variant: &str) -> Vec<Stage> {
    let c = width(p);
    let apart = !on_rows(p, caps, kind);
    let mut all = of_weight(p, caps, kind, [c, c], ["merged", "dsum", "dwo"]);
    all.extend(of_bias(p, caps, c, ["dsum", "dbo"]));
    all.push(of_rows(p, caps, kind, [c, c], ["dsum", "wo", "dmerged"]));
    all.extend(apart.then(|| split(p, c, 0).stage(p.dtype, caps, ["dmerged", "dmixed"]).label("split_heads")));
    let all = all.into_iter().map(|stage| stage.component(PROJECTION)).collect();
    let mut all = dropping(p, caps, all, 0, ["dsum", dropout::GRADIENTS[0]]);
    let inner = attention(p, Direction::Bwd);
    let inner = match apart {
        true => inner.stages(variant, caps, &[("out", "mixed"), ("dout", "dmixed")]),
        false => attention_on_rows(inner.problem(), caps),
    };
    all.extend(inner.into_iter().map(|stage| stage.component(ATTENTION)));
    all
}

/// Stages of attention's gradients from rows to rows, of [`on_rows`].
fn attention_on_rows(inner: &Problem, caps: &Caps) -> Vec<Stage> {
    let names = [
        ("q", "qkv"),
        ("k", "qkv"),
        ("v", "qkv"),
        ("out", "merged"),
        ("dout", "dmerged"),
        ("dq", "dqkv"),
        ("dk", "dqkv"),
        ("dv", "dqkv"),
    ];
    gradients_by_wgmma_on_rows(inner, caps).stages.into_iter().map(|stage| stage.on_buffers(&names)).collect()
}

pub(super) fn fused(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let c = width(p);
    let mut all = through_mlp(p, caps, kind, true, kept(p));
    all.extend(through_attention(p, caps, kind, flash_of(p, caps, kind, Direction::Bwd)));
    let mut last = Vec::new();
    let apart: &[&str] = if on_rows(p, caps, kind) { &[] } else { &GRADIENTS };
    for (which, gradient) in apart.iter().copied().enumerate() {
        let together = split(p, 3 * c, which as u64 * c).reversed();
        last.push(together.stage(p.dtype, caps, [gradient, "dqkv"]).label(format!("{gradient}_beside")));
    }
    last.extend(normed(p, caps, ["x", "normed"], 0));
    last.extend(of_weight(p, caps, kind, [c, 3 * c], ["normed", "dqkv", "dwqkv"]));
    last.extend(of_bias(p, caps, 3 * c, ["dqkv", "dbqkv"]));
    last.push(of_rows(p, caps, kind, [c, 3 * c], ["dqkv", "wqkv", "dnormed"]));
    all.extend(last.into_iter().map(|stage| stage.component(QKV)));
    all.extend(norm_backward(p, caps, 0, ["x", "dnormed", "dsum", "dx"]));
    Program { stages: all }
}

pub(super) fn unfused(p: &Problem, caps: &Caps) -> Program {
    unfused_with(p, caps, kept(p))
}

/// Unfused program with a kept or recomputed argument of GELU.
pub(super) fn unfused_with(p: &Problem, caps: &Caps, kept: bool) -> Program {
    let (kind, c) = (GemmKind::Tiles, width(p));
    let mut all = through_mlp(p, caps, kind, false, kept);
    all.extend(through_attention(p, caps, kind, "manual"));
    let mut last = normed(p, caps, ["x", "normed"], 0);
    for which in 0..3 {
        let (gradient, name) = (GRADIENTS[which], PROJECTED[which]);
        let side = Rearrange::beside([c, c], 3 * c, which as u64 * c);
        let of_biases = Rearrange::beside([1, c], 3 * c, which as u64 * c);
        let rows = GRADIENT_ROWS[which];
        last.push(split(p, c, 0).reversed().stage(p.dtype, caps, [gradient, rows]).label(rows));
        last.extend(of_weight(p, caps, kind, [c, c], ["normed", rows, WEIGHT_GRADIENTS[which]]));
        last.push(side.stage(p.dtype, caps, [WEIGHT_GRADIENTS[which], "dwqkv"]).label(format!("dw{name}_beside")));
        last.extend(of_bias(p, caps, c, [rows, BIAS_GRADIENTS[which]]));
        last.push(of_biases.stage(p.dtype, caps, [BIAS_GRADIENTS[which], "dbqkv"]).label(format!("db{name}_beside")));
        // The first writes the buffer to which the others are added.
        let to = ["some", "product", "through"][which];
        last.push(of_rows(p, caps, kind, [c, c], [rows, WEIGHTS[which], to]).label(format!("{name}_dnormed")));
    }
    last.push(added(p, caps, ["some", "product", "projected"]).label("add_dnormed_1"));
    last.push(added(p, caps, ["projected", "through", "dnormed"]).label("add_dnormed_2"));
    all.extend(last.into_iter().map(|stage| stage.component(QKV)));
    all.extend(norm_backward(p, caps, 0, ["x", "dnormed", "dsum", "dx"]));
    Program { stages: all }
}
