//! Stages of the forward pass.

use parallax_ir::{Access, BufferSpec, Elem, Gemm, Problem, Program, Stage};
use parallax_schema::case::Direction;
use parallax_schema::device::Caps;

use super::super::attention_block::{
    attended, attention, by_warpgroups, output, output_apart, projected, projected_apart, row_count, stages,
    unfused as attention_apart, width,
};
use super::super::linear::stages::{Epilogue, GemmKind};
use super::super::{add_layernorm, gelu};
use super::dropout::{DROPPED, dropping};
use super::{dropout, kept};
use crate::SubOp;

/// Components of the profile.
pub(super) const NORM1: &str = "first norm";
pub(super) const NORM2: &str = "sum and second norm";
pub(super) const MLP: &str = "MLP";
pub(super) const ADD: &str = "sum";

/// Buffers between the stages of either variant, except kept ones.
pub(super) fn scratch(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, s, d, c, f) = (p["b"], p["h"], p["s"], p["d"], width(p), p["f"]);
    let of_rows = |name: &'static str, columns: u64| BufferSpec::scratch(name, Elem::Real, &[b, s, columns]);
    let of_heads = |name: &'static str| BufferSpec::scratch(name, Elem::Real, &[b, h, s, d]);
    let mut buffers = vec![
        of_rows("normed", c),
        BufferSpec::scratch("mean", Elem::F32, &[b, s, 1]),
        BufferSpec::scratch("rstd", Elem::F32, &[b, s, 1]),
        of_rows("product", c),
        of_rows("rows", c),
        of_rows("qkv", 3 * c),
        of_heads("q"),
        of_heads("k"),
        of_heads("v"),
        attention(p, Direction::Fwd).scratch("scores", "scores"),
        of_heads("mixed"),
        of_rows("merged", c),
        of_rows("projected", c),
        of_rows("sum", c),
        of_rows("normed2", c),
        of_rows("first", f),
        of_rows("hidden", f),
        of_rows("second", c),
    ];
    buffers.extend(dropout::scratch(p, &DROPPED));
    buffers
}

/// Norm of all rows as a sub-operation.
pub(super) fn norm(p: &Problem) -> SubOp {
    SubOp::new("layernorm", Direction::Fwd, &format!("r{},c{}", row_count(p), width(p)), p.dtype)
}

/// Stages of a norm from one buffer to another, by the parameters of number `which`.
pub(super) fn normed(p: &Problem, caps: &Caps, [x, out]: [&'static str; 2], which: usize) -> Vec<Stage> {
    let parameters = [[("gamma", "gamma1"), ("beta", "beta1")], [("gamma", "gamma2"), ("beta", "beta2")]][which];
    let inner = norm(p);
    let names = [("x", x), ("out", out), parameters[0], parameters[1]];
    let number = which + 1;
    let called = |stage: Stage| stage.renamed(|label| format!("{label}_{number}"));
    inner.stages(inner.best(&["row", "naive"], caps), caps, &names).into_iter().map(called).collect()
}

/// GEMMs of the MLP: into the middle, and out of it.
pub(super) fn gemms(p: &Problem) -> [Gemm; 2] {
    let (rows, c, f) = (row_count(p), width(p), p["f"]);
    [Gemm::new(rows, f, c), Gemm::new(rows, c, f)]
}

/// Stage of a sum of rows.
fn added(p: &Problem, caps: &Caps, names: [&'static str; 3], label: &'static str) -> Stage {
    add_layernorm::sum_stage(row_count(p) * width(p), p.dtype, caps, names).label(label)
}

/// Adds dropout of both parts to the stages.
fn dropping_both(p: &Problem, caps: &Caps, stages: Vec<Stage>) -> Vec<Stage> {
    let [first, second] = DROPPED;
    dropping(p, caps, dropping(p, caps, stages, 0, ["projected", first]), 1, ["second", second])
}

pub(super) fn unfused(p: &Problem, caps: &Caps) -> Program {
    let made = stages(p, caps, GemmKind::Tiles);
    let (rows, c, f) = (row_count(p), width(p), p["f"]);
    let of = |component: &'static str| move |stage: Stage| stage.component(component);
    let mut all: Vec<Stage> = normed(p, caps, ["x", "normed"], 0).into_iter().map(of(NORM1)).collect();
    all.extend(projected_apart(p, caps, "normed"));
    all.extend(attention_apart(p, caps));
    all.extend(output_apart(p, caps, "projected"));
    all.push(added(p, caps, ["x", "projected", "sum"], "add_1").component(NORM2));
    all.extend(normed(p, caps, ["sum", "normed2"], 1).into_iter().map(of(NORM2)));
    let [into, out_of] = gemms(p);
    let mlp = [
        made.gemm(into, ["normed2", "w1", "first"]).label("mlp_product_1"),
        made.finish([rows, f], Epilogue::Bias, ["first", "pre"], &["b1"]).label("mlp_bias_1"),
        gelu::forward_stage(rows * f, p.dtype, caps, ["pre", "hidden"]).label("mlp_gelu"),
        made.gemm(out_of, ["hidden", "w2", "product"]).label("mlp_product_2"),
        made.finish([rows, c], Epilogue::Bias, ["product", "second"], &["b2"]).label("mlp_bias_2"),
    ];
    all.extend(mlp.map(of(MLP)));
    all.push(added(p, caps, ["sum", "second", "out"], "add_2").component(ADD));
    Program { stages: dropping_both(p, caps, all) }
}

/// Attention variant for a kind of GEMM.
pub(super) fn flash_of(p: &Problem, caps: &Caps, kind: GemmKind, direction: Direction) -> &'static str {
    match kind {
        GemmKind::Wgmma => by_warpgroups(p, caps, direction),
        GemmKind::Tiles => "flash",
        GemmKind::Library => "vendor",
        _ => "flash_mma",
    }
}

/// Checks that a device can run the fused variant with this kind of GEMM.
pub(super) fn fusable(p: &Problem, caps: &Caps, kind: GemmKind) -> Result<(), String> {
    attention(p, Direction::Fwd).available(flash_of(p, caps, kind, Direction::Fwd), caps)?;
    sum_and_norm(p).available("fused", caps)?;
    match kind {
        GemmKind::Mma => Gemm::mma_available(p.dtype, caps),
        // Rows of all matrices have one of these widths, or three times the first.
        GemmKind::Wgmma => gemms(p).iter().try_for_each(|gemm| gemm.wgmma_available(p.dtype, caps)),
        _ => Ok(()),
    }
}

fn sum_and_norm(p: &Problem) -> SubOp {
    SubOp::new("add_layernorm", Direction::Fwd, &format!("r{},c{}", row_count(p), width(p)), p.dtype)
}

/// Stages after the projections to `q`, `k` and `v`, up to the result, with the given attention stages.
fn after_heads(p: &Problem, caps: &Caps, kind: GemmKind, attention: Vec<Stage>) -> Vec<Stage> {
    let made = stages(p, caps, kind);
    let mut all = attention;
    all.extend(output(p, caps, kind, "projected"));
    let names = [("x", "projected"), ("residual", "x"), ("gamma", "gamma2"), ("beta", "beta2"), ("out", "normed2")];
    all.extend(sum_and_norm(p).stages("fused", caps, &names).into_iter().map(|stage| stage.component(NORM2)));
    let [into, out_of] = gemms(p);
    let mut middle = made.with_gelu(into, ["normed2", "w1", "hidden"], "b1", kept(p).then_some("pre")).into_iter();
    all.extend(middle.next().map(|stage| stage.label("mlp_product_1").component(MLP)));
    all.extend(middle.map(|stage| stage.label("mlp_gelu").component(MLP)));
    all.push(made.with_bias(out_of, ["hidden", "w2", "second"], "b2").label("mlp_product_2").component(MLP));
    all.push(added(p, caps, ["sum", "second", "out"], "add_2").component(ADD));
    all
}

pub(super) fn fused(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let mut all: Vec<Stage> =
        normed(p, caps, ["x", "normed"], 0).into_iter().map(|stage| stage.component(NORM1)).collect();
    all.extend(projected(p, caps, kind, "normed"));
    let attention = attended(p, caps, kind, flash_of(p, caps, kind, Direction::Fwd));
    all.extend(after_heads(p, caps, kind, attention));
    Program { stages: dropping_both(p, caps, all) }
}

/// Changes a forward pass so that each norm leaves its statistics for the backward pass in its own buffers.
pub(super) fn remembering(stages: Vec<Stage>) -> Vec<Stage> {
    let mut norms = 0;
    let keeping = |stage: Stage| {
        // The first norm's statistics come first, then the second's, regardless of the stages that write them.
        let writes = stage.args.iter().any(|arg| arg.buffer == "mean" && arg.access == Access::Write);
        norms += usize::from(writes);
        let [mean, rstd] = [["mean1", "rstd1"], ["mean2", "rstd2"]][norms.saturating_sub(1).min(1)];
        stage.on_buffers(&[("mean", mean), ("rstd", rstd)])
    };
    stages.into_iter().map(keeping).collect()
}
