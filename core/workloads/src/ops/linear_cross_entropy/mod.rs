//! Cross-entropy of logits that are a GEMM: `logits = X·Wᵀ`, and `loss[r] = lse[r] − logits[r, targets[r]]` with `lse[r] = ln Σ_j
//! exp(logits[r, j])`.
//!
//! X is `[n, d]`, W is `[v, d]`. A target of `v` or more is ignored: its loss is zero, and its row has no gradient. Losses and
//! log-sum-exps are f32, and so is the logit in every variant: none is rounded to the element type. Operations: those of the GEMM.
//! Bytes: X, W and the targets read once, and two numbers a row.
//!
//! Fused variants store no logit. Tiles of logits leave a part of each row: its maximum, and the sum of exponentials of its logits
//! minus the maximum. A second stage joins the parts of a row. Memory: 8 bytes a row for each 64 columns.

use parallax_ir::parallel::*;
use parallax_ir::{
    Axis, BufferSpec, Elem, Gemm, HostBuffer, Inputs, Layout, OfNan, OpSpec, Problem, Reference, Variant, Workload,
    indexable,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

use crate::real::maximum;
use crate::{dense, vector};

mod accuracy;
mod backward;
mod chunks;
mod inputs;
mod stages;

use inputs::given;

const X: usize = 0;
const W: usize = 1;
const TARGETS: usize = 2;

/// Index of the loss, the first checked buffer; the second is the log-sum-exp.
const LOSS: usize = 0;

/// Shapes around the edges of tiles of 64, 128 and 256, with one class, and with rows that no vector divides. The last has several
/// tiles by warpgroups.
const AWKWARD: &[&str] = &[
    "n1,d1,v1",
    "n13,d7,v1",
    "n67,d130,v257",
    "n64,d64,v64",
    "n130,d16,v3",
    "n9,d257,v300",
    "n5,d40,v1009",
    "n67,d136,v520",
    "n200,d72,v1304",
];

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "cross-entropy of logits that are a GEMM",
        axes: const { &[Axis::extent("n", "rows"), Axis::extent("d", "row width"), Axis::extent("v", "classes")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"].max(shape["v"]) * shape["d"].max(shape["n"].min(shape["v"]))),
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        |p| {
            let mut buffers = given(p).to_vec();
            buffers.extend(results(p, BufferSpec::output));
            buffers.extend(stages::parts(p));
            buffers.extend(stages::stored_logits(p));
            buffers
        },
        cost,
        accuracy::of_usual,
        Reference::new(
            |p, _| p["v"] * p["d"],
            |p, inputs| Box::new(move |output, row, out| out[0] = reference(p, inputs, output, row)),
        ),
        OfNan::Kept,
    )
    .headline("n256,d512,v4096")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "a workgroup a row, a thread a logit: each keeps a maximum and a sum", stages::naive)
            .available(stages::naive_available),
        Variant::kernel(
            "separate",
            "a GEMM by tiles of 64 by 64 stores the logits, in f32; then the stages of `cross_entropy`",
            stages::separate,
        ),
        Variant::kernel(
            "separate_mma",
            "the same with the GEMM on tensor cores by warp-wide instructions",
            stages::separate_mma,
        )
        .only_in(&[Dialect::Cuda])
        .available(stages::mma_available),
        Variant::kernel(
            "separate_wgmma",
            "the same with the GEMM on tensor cores by four warps together",
            stages::separate_wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .available(stages::separate_wgmma_available),
        Variant::kernel(
            "fused",
            "the tiles of `separate`, of which a part of each row is stored in place of logits; then the parts are joined",
            stages::fused,
        ),
        Variant::kernel(
            "fused_mma",
            "the same with tiles of 128 by 128 on tensor cores by warp-wide instructions",
            stages::fused_mma,
        )
        .only_in(&[Dialect::Cuda])
        .available(stages::mma_available),
        Variant::kernel(
            "fused_wgmma",
            "the same with tiles of up to 128 by 256 on tensor cores by four warps together, loaded by the copy engine",
            stages::fused_wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .available(stages::fused_wgmma_available),
    ])
    .fallback(&["fused_wgmma", "fused_mma", "fused", "separate", "naive"])
    .stress(inputs::stress(accuracy::FORWARD))
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n256,d512,v4096", "n2048,d2048,v32000"],
        _ => &["n256,d512,v4096", "n2048,d2048,v32000", "n4096,d4096,v128256"],
    }
}

fn results(p: &Problem, spec: fn(&'static str, Elem, &[u64]) -> BufferSpec) -> [BufferSpec; 2] {
    ["loss", "lse"].map(|name| spec(name, Elem::F32, &[p["n"], 1]))
}

/// GEMM of the logits.
fn gemm(p: &Problem) -> Gemm {
    Gemm::new(p["n"], p["v"], p["d"]).layout(Layout::Nt)
}

/// Bytes of X, of W, and of a number per row.
fn sizes(p: &Problem) -> [u64; 3] {
    let element = Elem::Real.storage(p.dtype).bytes();
    [p["n"] * p["d"] * element, p["v"] * p["d"] * element, p["n"] * 4]
}

fn cost(p: &Problem) -> Cost {
    let [x, w, of_rows] = sizes(p);
    Cost::new(gemm(p).flops(), x + w + of_rows, 2 * of_rows)
}

/// Logits of a row.
fn logits(p: &Problem, inputs: &Inputs, row: u64) -> Vec<f64> {
    let d = p["d"];
    let x = inputs.values(X, row * d..(row + 1) * d);
    let of_class = |class: u64| x.iter().zip(class * d..).map(|(x, at)| x * inputs.at(W, at)).sum();
    (0..p["v"]).map(of_class).collect()
}

/// Logarithm of the sum of exponentials.
fn log_sum(logits: &[f64]) -> f64 {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, maximum);
    top + logits.iter().map(|logit| (logit - top).exp()).sum::<f64>().ln()
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64) -> f64 {
    let logits = logits(p, inputs, row);
    let lse = log_sum(&logits);
    match (output, logits.get(inputs.at(TARGETS, row) as usize)) {
        (LOSS, Some(of_target)) => lse - of_target,
        (LOSS, None) => 0.0,
        _ => lse,
    }
}

/// Rows whose logits the host has in memory at a time.
const AT_ONCE: usize = 64;

/// Host implementation: GEMMs of a few rows, whose logits are then reduced.
fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [loss, lse] = outputs else { unreachable!("two outputs") };
    let (d, v) = (p["d"] as usize, p["v"] as usize);
    let rows = inputs[X].f32().chunks(AT_ONCE * d).zip(inputs[TARGETS].u32().chunks(AT_ONCE));
    let results = loss.chunks_mut(AT_ONCE).zip(lse.chunks_mut(AT_ONCE));
    for ((loss, lse), (x, targets)) in results.zip(rows) {
        let mut logits = dense::gemm_nt(x, inputs[W].f32(), [targets.len(), v, d]);
        let each = loss.par_iter_mut().zip(lse).zip(logits.par_chunks_mut(v).zip(targets));
        each.for_each(|((loss, lse), (logits, target))| {
            let of_target = logits.get(*target as usize).copied();
            let top = vector::largest(logits);
            *lse = top + vector::weigh(logits, top).ln();
            *loss = of_target.map_or(0.0, |logit| *lse - logit);
        });
    }
}
