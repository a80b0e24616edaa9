//! Stages of the step: those of its parts on its own buffers, and two of its own. The latter look up a table, and sum its gradient
//! over samples sorted by category.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Gemm, Layout, Problem, Program, Stage, by_pieces, spread, width};
use parallax_schema::case::{Cost, Direction};
use parallax_schema::device::Caps;

use super::super::gelu;
use super::super::linear::stages::{Epilogue, GemmKind, Stages, parts_of_rows};
use super::ranks::of_rank;
use super::{HEADS, NAMES, exchange, features, lengths};
use crate::{Sort, Sorted, SubOp};

/// Components of the profile.
const FORWARD: &str = "forward";
const BACKWARD: &str = "backward";
const OPTIMISER: &str = "optimiser";

/// Variants of the parts of a variant.
struct Parts {
    hash: &'static str,
    loss: &'static str,
    slope: &'static str,
    optimiser: &'static str,
}

/// Loss of both heads as a sub-operation.
pub(super) fn loss(p: &Problem, direction: Direction) -> SubOp {
    SubOp::new("loss_smape", direction, &format!("n{}", HEADS * p["n"]), p.dtype)
}

/// Optimiser step of each parameter as a sub-operation.
pub(super) fn optimisers(p: &Problem) -> [SubOp; 5] {
    lengths(p).map(|length| SubOp::new("adamw", Direction::Fwd, &format!("n{length},t{}", p["t"]), p.dtype))
}

/// Stages that sum the hashed features.
fn hashed(p: &Problem, caps: &Caps, variant: &str) -> Vec<Stage> {
    let shape = format!("r{},g{},d{},sorted", features(p), p["n"], p["d"]);
    SubOp::new("hash_embedding", Direction::Fwd, &shape, p.dtype).stages(variant, caps, &[("out", "hashed")])
}

/// Stage that adds the row of each sample's category.
fn lookup(p: &Problem, caps: &Caps) -> Stage {
    let (n, d) = (p["n"], p["d"]);
    let width = width(d, p.dtype, caps);
    let text = "train_step/lookup";
    by_pieces(n * d / width, width, text, "train_step_lookup")
        .consts(&[("PIECES", (d / width) as u32)])
        .args([("hashed", Read), ("category", Read), ("table", Read), ("x", Write)])
        .cost(Cost::new(n * d, 4 * (n * d + n.min(p["v"]) * d + n), 4 * n * d))
        .label("lookup")
}

/// Sort of the samples by category.
pub(super) fn by_category(p: &Problem) -> Sort {
    Sort { items: p["n"], below: p["v"] }
}

/// Buffers of that sort.
pub(super) const BY_CATEGORY: Sorted = Sorted {
    keys: "category",
    sorted: "sorted",
    order: "order",
    between: ["half_sorted", "half_order"],
    counts: "digits",
};

/// Stage that sums rows of gradients by the sorted categories of their samples.
fn scatter(p: &Problem) -> Stage {
    let (n, v, d) = (p["n"], p["v"], p["d"]);
    // As many threads as a row has columns, in whole warps, and more if categories have many samples.
    let lanes = d.next_power_of_two().clamp(32, 256);
    let down = n.div_ceil(v).next_power_of_two().min(256 / lanes);
    let stretches = d.div_ceil(lanes);
    let consts =
        [("ROWS", n), ("CATEGORIES", v), ("COLUMNS", d), ("STRETCHES", stretches), ("LANES", lanes), ("DOWN", down)];
    Stage::kernel("dtable", "train_step/scatter", "train_step_scatter")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .args([(BY_CATEGORY.sorted, Read), (BY_CATEGORY.order, Read), ("dx", Read), ("dtable", Write)])
        .threads([lanes as u32, down as u32, 1])
        .grid(spread(v * stretches))
        .shared((lanes * down * 4) as u32)
        .cost(Cost::new(n * d, 4 * (2 * n + n * d), 4 * v * d))
}

fn gemm_stage(p: &Problem, caps: &Caps) -> impl Fn(Gemm, [&'static str; 3]) -> Stage {
    let made = Stages { dtype: p.dtype, caps, kind: GemmKind::Tiles };
    move |gemm, names| made.gemm(gemm, names).label(names[2])
}

/// Stages from `x` to the predictions.
fn predicted(p: &Problem, caps: &Caps, fused: bool) -> Vec<Stage> {
    let made = Stages { dtype: p.dtype, caps, kind: GemmKind::Tiles };
    let (n, d, f) = (p["n"], p["d"], p["f"]);
    let (into, heads) = (Gemm::new(n, f, d), Gemm::new(n, HEADS, f));
    match fused {
        true => vec![
            made.fused(into, Epilogue::GeluSaveInput, ["x", "w1", "hidden"], &["b1", "pre"]).label("hidden"),
            made.fused(heads, Epilogue::Bias, ["hidden", "w2", "pred"], &["b2"]).label("pred"),
        ],
        false => vec![
            made.gemm(into, ["x", "w1", "first"]).label("product_1"),
            made.finish([n, f], Epilogue::Bias, ["first", "pre"], &["b1"]).label("bias_1"),
            gelu::forward_stage(n * f, p.dtype, caps, ["pre", "hidden"]).label("gelu"),
            made.gemm(heads, ["hidden", "w2", "second"]).label("product_2"),
            made.finish([n, HEADS], Epilogue::Bias, ["second", "pred"], &["b2"]).label("bias_2"),
        ],
    }
}

/// GEMMs over all samples for the gradients of both weights.
fn of_weights(p: &Problem) -> [Gemm; 2] {
    let (n, d, f) = (p["n"], p["d"], p["f"]);
    [Gemm::new(d, f, n), Gemm::new(f, HEADS, n)].map(|gemm| gemm.layout(Layout::Tn))
}

/// Number of elements of their parts, which are adjacent.
pub(super) fn weight_parts(p: &Problem) -> u64 {
    of_weights(p).map(|gemm| parts_of_rows(gemm) * gemm.m * gemm.n).into_iter().max().unwrap_or(0)
}

/// Stages from the gradient of the predictions to those of all parameters.
fn gradients(p: &Problem, caps: &Caps, fused: bool) -> Vec<Stage> {
    let made = Stages { dtype: p.dtype, caps, kind: GemmKind::Tiles };
    let gemm = gemm_stage(p, caps);
    let (n, d, f) = (p["n"], p["d"], p["f"]);
    let sums = |columns: u64, from: &'static str, to: &'static str| {
        let [first, second] = made.columns([n, columns], [from, "parts", to]);
        [first.label(format!("{to}_parts")), second.label(to)]
    };
    let through = Gemm::new(n, f, HEADS).layout(Layout::Nt);
    let [of_w1, of_w2] = of_weights(p);
    let weight = |gradient: Gemm, names: [&'static str; 3]| match fused {
        true => made.over_rows(gradient, names, "weight_parts"),
        false => vec![gemm(gradient, names)],
    };
    let mut all = weight(of_w2, ["hidden", "dpred", "dw2"]);
    all.extend(sums(HEADS, "dpred", "db2"));
    match fused {
        true => all.push(
            made.fused(through, Epilogue::GeluBackward, ["dpred", "w2", "dpre"], &["pre", "hidden"]).label("dpre"),
        ),
        false => {
            all.push(gemm(through, ["dpred", "w2", "dhidden"]));
            all.push(gelu::backward_stage(n * f, p.dtype, caps, ["pre", "dhidden", "dpre"]).label("dpre"));
        }
    }
    all.extend(weight(of_w1, ["x", "dpre", "dw1"]));
    all.extend(sums(f, "dpre", "db1"));
    all.push(gemm(Gemm::new(n, d, f).layout(Layout::Nt), ["dpre", "w1", "dx"]));
    all.push(scatter(p));
    all
}

/// Optimiser stages of each parameter.
fn optimised(p: &Problem, caps: &Caps, variant: &str) -> Vec<Vec<Stage>> {
    let of = |(names, inner): (super::Names, SubOp)| {
        let buffers = [("param", names.param), ("grad", names.gradient), ("m", names.m), ("v", names.v)];
        let called = move |stage: Stage| stage.renamed(|label| format!("{label}_{}", names.param));
        let stages = inner.stages(variant, caps, &buffers).into_iter().map(called);
        stages.map(|stage| stage.component(OPTIMISER)).collect()
    };
    NAMES.into_iter().zip(optimisers(p)).map(of).collect()
}

/// Stages up to the gradients of all parameters, and those of the optimiser for each. On several GPUs these are the stages of one.
fn step(p: &Problem, caps: &Caps, fused: bool, parts: &Parts) -> (Vec<Stage>, Vec<Vec<Stage>>) {
    let p = &of_rank(p);
    let of = |component: &'static str| move |stage: Stage| stage.component(component);
    let mut forward = hashed(p, caps, parts.hash);
    forward.push(lookup(p, caps));
    forward.extend(predicted(p, caps, fused));
    forward.extend(loss(p, Direction::Fwd).stages(parts.loss, caps, &[("parts", "loss_parts")]));
    let mut backward = by_category(p).stages(BY_CATEGORY);
    backward.extend(loss(p, Direction::Bwd).stages(parts.slope, caps, &[]));
    backward.extend(gradients(p, caps, fused));
    let mut all: Vec<Stage> = forward.into_iter().map(of(FORWARD)).collect();
    all.extend(backward.into_iter().map(of(BACKWARD)));
    (all, optimised(p, caps, parts.optimiser))
}

pub(super) fn separate(p: &Problem, caps: &Caps) -> Program {
    let parts = Parts { hash: "basic", loss: "separate", slope: "scalar", optimiser: "separate" };
    exchange::after_backward(p, step(p, caps, false, &parts))
}

const FUSED: Parts = Parts { hash: "owner", loss: "fused", slope: "vector", optimiser: "vector" };

pub(super) fn fused(p: &Problem, caps: &Caps) -> Program {
    exchange::after_backward(p, step(p, caps, true, &FUSED))
}

pub(super) fn overlapped(p: &Problem, caps: &Caps) -> Program {
    exchange::overlapped(p, step(p, caps, true, &FUSED))
}

#[cfg(test)]
mod tests {
    use crate::parse_case;
    use parallax_schema::testing::caps;

    #[test]
    fn every_stage_belongs_to_a_part_of_the_step_in_its_order() {
        for (variant, counts) in [("separate", [11, 13, 20]), ("fused", [6, 12, 5])] {
            let case = parse_case(&format!("train_step/fwd+bwd/n8,e3,v5,d4,f8/f32/{variant}")).expect("valid");
            let stages = case.program(&caps()).expect("kernels").stages;
            let found: Vec<&str> = stages.iter().map(|stage| stage.component.expect("one")).collect();
            let wanted = ["forward", "backward", "optimiser"].into_iter().zip(counts);
            assert_eq!(found, wanted.flat_map(|(name, count)| vec![name; count]).collect::<Vec<_>>(), "{variant}");
            let mut labels: Vec<&str> = stages.iter().map(|stage| &*stage.label).collect();
            labels.sort_unstable();
            labels.dedup();
            assert_eq!(labels.len(), stages.len(), "each has a name of its own");
        }
    }
}
