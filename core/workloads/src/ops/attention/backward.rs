//! Backward direction: `dQ`, `dK` and `dV` for a gradient `dO` of the output.
//!
//! With `P = softmax(scale · Q Kᵀ)` and `δ_i = dO_i · O_i`: `dV = Pᵀ dO`, `dS = scale · P ∘ (dO Vᵀ − δ)`, `dQ = dS K`, `dK = dSᵀ Q`
//! (Dao et al., "FlashAttention" (2022), appendix B.2).
//!
//! The forward pass runs before the timing, as in training. It leaves its output and the log-sum-exp of every score row. An added
//! mask has no gradient. A soft cap multiplies `dS` by its slope, `1 − tanh²`. The gradient of a sink is the sum of
//! `−exp(sink − lse_i) δ_i` over the queries of its head. The sink is part of `lse`.
//!
//! Operations follow FlashAttention's benchmarks: two and a half times the forward pass, because the scores are recomputed.

use parallax_ir::Access::{Read, Write};
use parallax_ir::stress::{nan_of_first, one, zero};
use parallax_ir::{
    BufferSpec, Elem, Fill, OfNan, OpSpec, Problem, Program, Reference, Stage, StressInput, Tolerance, Variant, spread,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::flash::short_rows;
use super::masks::{Looks, looking};
use super::scores::{Computes, changing};
use super::stress::{sinks, unseen_keys};
use super::{
    ROW_THREADS, by_rows, by_tiles, gemm_flops, group, masks, normal, score_error, sizes, stage, vendor, weighted_sum,
};

mod coopmat;
mod flash;
mod reference;
mod warpgroups;

pub(crate) use warpgroups::flash_wgmma_on_rows as gradients_by_wgmma_on_rows;

const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
pub(super) const DOUT: usize = 3;

pub(super) const INPUTS: [&str; 4] = ["q", "k", "v", "dout"];

/// Indices of the checked buffers, in buffer order.
const OUT: usize = 0;
const LSE: usize = 1;
const DQ: usize = 2;
const DK: usize = 3;
const DSINKS: usize = 5;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    let mut form = OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(reference::row_cost, reference::rows),
        OfNan::Kept,
    )
    .headline("b1,h8,s512,d64")
    .shapes(shapes)
    .awkward(&[
        "b1,h1,s1,d1",
        "b1,h1,s1,t5,d3",
        "b2,h3,s7,d5",
        "b1,h2,s31,t67,d72",
        "b1,h2,s67,t31,d64",
        "b1,h1,s65,d129",
        "b2,h1,s13,d17,causal",
        "b1,h2,s37,t101,d64,causal",
        "b1,h2,s101,t37,d72,causal",
        // Several steps of several tiles on tensor cores.
        "b1,h1,s130,t201,d128,causal",
        // Rows that no variant keeps in registers.
        "b1,h2,s5,t9,d260",
        "b1,h4,kv1,s35,d64",
        "b5,h2,s35,t101,d64,padded",
        "b1,h2,s33,t70,d40,biased",
        "b3,h4,kv2,s67,t35,d24,causal,padded",
        // Keys of whole tiles are beyond the length.
        "b3,h2,kv1,s35,t260,d20,padded",
        "b3,h4,kv2,s67,t131,d80,causal,padded",
        "b3,h4,kv2,s35,t67,d72,causal,padded,biased",
        "b3,h4,kv2,s70,d24,causal,padded",
        "b2,h6,kv2,s19,t37,d24,causal",
        "b1,h2,s37,t101,d64,cap50,causal",
        "b2,h3,s33,t70,d40,cap2.5,biased",
        "b2,h4,kv2,s101,t37,d72,causal,sinks",
        "b3,h4,kv2,s35,t67,d64,causal,padded,sinks",
        "b2,h3,s67,t35,d24,alibi",
        "b3,h4,kv2,s67,t131,d80,w50,cap5,causal,padded,sinks,alibi",
        // Windows: of one key, within a tile, over several tiles, keys before all windows, and longer than all keys.
        "b1,h1,s9,d8,w1,causal",
        "b1,h2,s37,t101,d64,w20,causal",
        "b1,h2,s300,d64,w100,causal",
        "b1,h1,s290,t520,d128,w70,causal",
        "b1,h2,s101,t37,d72,w300,causal",
        "b3,h4,kv2,s67,t131,d80,w50,causal,padded",
        "b1,h1,s70,d40,w33,causal,biased",
        // Packed sequences: one, several in a tile, over several tiles, empty ones, and with all else.
        "b1,h2,s70,d40,n1",
        "b1,h4,kv2,s130,d64,n3",
        "b1,h2,s300,d72,n4,causal",
        "b1,h1,s13,d8,n9",
        "b1,h2,s520,d128,n5,causal",
        "b1,h4,kv2,s290,d64,w40,n6,cap5,causal,sinks,alibi",
        "b1,h2,s131,d80,n3,biased",
    ])
    .host(super::host::backward)
    .variants(vec![
        Variant::kernel(
            "manual",
            "five stages with probabilities and their gradients in device memory: delta, dscores, dV, dQ, dK",
            manual,
        ),
        Variant::kernel(
            "flash",
            "probabilities made anew from the log-sum-exp, once for dK and dV over key tiles and once for dQ over query \
             tiles: no score matrix, deterministic",
            flash::flash,
        )
        .deterministic()
        .available(|p, _| short_rows(p)),
        Variant::kernel(
            "flash_atomic",
            "probabilities made anew once, over key tiles; dQ is summed in f32 by atomic additions, which WGSL lacks",
            flash::flash_atomic,
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, _| short_rows(p)),
        Variant::kernel(
            "flash_mma",
            "the same on tensor cores by warp-wide instructions, tiles copied asynchronously",
            flash::flash_mma,
        )
        .only_in(&[Dialect::Cuda])
        .available(flash::mma_available),
        Variant::kernel(
            "flash_wgmma",
            "the same on tensor cores by warpgroups: a producer copies tiles, and dQ of a step is computed during the weights of \
             the next",
            warpgroups::flash_wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .available(warpgroups::available),
        Variant::kernel(
            "flash_coopmat",
            "as `flash`, on matrix units through WGSL's cooperative matrices, an extension of native wgpu and of Chromium; \
             scores pass through workgroup memory",
            coopmat::program,
        )
        .only_in(&[Dialect::Wgsl])
        .available(coopmat::available)
        .tunables(&[coopmat::OWN]),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["flash_wgmma", "flash_mma", "flash_coopmat", "flash_atomic", "flash", "manual"])
    .setup(setup)
    .preconditions(masks::preconditions())
    .stress(stress_inputs());
    form.variants.extend(vendor::backward());
    form
}

/// Stress inputs with constant tensors. They expose a division of zero by zero in the reference or in a kernel.
fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "all zero: every key has the same weight, and every gradient is zero",
            |_| INPUTS.map(|name| (name, zero as Fill)).to_vec(),
            tolerance,
        ),
        StressInput::new(
            "equal",
            "all one: dV adds weights, and the gradient of the scores cancels",
            |_| INPUTS.map(|name| (name, one as Fill)).to_vec(),
            tolerance,
        ),
        StressInput::new(
            "nan",
            "NaN in the very first query: so are its gradient and those of all keys and values of its head",
            |_| vec![("q", nan_of_first)],
            tolerance,
        )
        .applies(|p| !p.shape.has("causal") && !masks::listed(&p.shape) && !p.shape.has("biased")),
    ]
    .into_iter()
    .chain(sinks(tolerance))
    .chain(unseen_keys(|p, output| {
        // All queries may have the same one key.
        let queries = (group(p) * p["s"]) as f64;
        Tolerance { abs: tolerance(p, output).abs * (1.0 + queries / 8.0), ..tolerance(p, output) }
    }))
    .collect()
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "b1,h8,s512,d64",
            "b1,h16,s2048,d64",
            "b1,h16,s2048,d64,causal",
            "b1,h16,s2048,d128",
            "b1,h16,kv4,s2048,d128,causal",
        ],
        _ => &[
            "b1,h8,s512,d64",
            "b1,h16,s2048,d64",
            "b1,h16,s4096,d128",
            "b8,h16,s4096,d64,causal",
            "b8,h16,s4096,d128",
            "b8,h16,s4096,d128,w1024,causal",
            "b1,h64,kv8,s16384,d64,w128,causal",
            "b8,h16,kv4,s4096,d128,causal",
            "b2,h32,kv16,s4096,d128,cap50,causal",
            "b1,h64,kv8,s8192,d64,w128,causal,sinks",
            "b1,h32,kv8,s16384,d128,n8,causal",
            "b2,h32,s4096,d128,causal,alibi",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, kv, s, t, d) = (p["b"], p["h"], p["kv"], p["s"], p["t"], p["d"]);
    let (queries, keys) = ([b, h, s, d], [b, kv, t, d]);
    let inputs = [
        BufferSpec::input("q", Elem::Real, &queries, normal),
        BufferSpec::input("k", Elem::Real, &keys, normal),
        BufferSpec::input("v", Elem::Real, &keys, normal),
        BufferSpec::input("dout", Elem::Real, &queries, normal),
    ];
    let others = [
        BufferSpec::setup("out", Elem::Real, &queries),
        BufferSpec::setup("lse", Elem::F32, &[b, h, s, 1]),
        BufferSpec::output("dq", Elem::Real, &queries),
        BufferSpec::output("dk", Elem::Real, &keys),
        BufferSpec::output("dv", Elem::Real, &keys),
    ];
    let dsinks = p.shape.has("sinks").then(|| BufferSpec::output("dsinks", Elem::Real, &[h, 1]));
    let scratch = [
        BufferSpec::scratch("scores", Elem::F32, &[b, h, s, t]),
        BufferSpec::scratch("dscores", Elem::F32, &[b, h, s, t]),
        BufferSpec::scratch("delta", Elem::F32, &[b, h, s]),
        // Of the variants that sum dQ by atomic additions.
        BufferSpec::scratch("dq_sum", Elem::F32, &queries),
    ];
    let all = inputs.into_iter().chain(masks::buffers(p)).chain(others).chain(dsinks);
    all.chain(scratch).chain(warpgroups::scratch(p)).collect()
}

pub(super) fn cost(p: &Problem) -> Cost {
    let (queries, keys, _) = sizes(p);
    // Reads: Q, dO and O; K and V; one number per row.
    let read = 3 * queries + 2 * keys + p["b"] * p["h"] * p["s"] * 4 + masks::all_bytes(p);
    let dsinks = if p.shape.has("sinks") { p["h"] * Elem::Real.storage(p.dtype).bytes() } else { 0 };
    Cost::new(5 * gemm_flops(p), read, queries + 2 * keys + dsinks)
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    let f32u = 2f64.powi(-24);
    // A key serves the queries of all heads that share it.
    let (s, t, d) = ((group(p) * p["s"]) as f64, p["t"] as f64, p["d"] as f64);
    // As in the forward direction, a score's rounding enters the exponent as an absolute error. A few more operations add to it.
    let weight = score_error(p) + 8.0 * f32u;
    let rel = 2.0 * u;
    match output {
        OUT => Tolerance { abs: 3.47 * (2.0 * u + weight) + f32u * t.sqrt(), rel, reason: "as in the forward form" },
        LSE => Tolerance {
            abs: weight + f32u * t.sqrt(),
            rel: 4.0 * f32u,
            reason: "the rounding of the scores, and of the logarithm of their sum; always f32",
        },
        // A sink's share and delta of each query have the errors of a weight and of delta.
        DSINKS => {
            let one = 3.47 * (8.0 * weight + 16.0 * f32u * d.sqrt() + 12.0 * u);
            let queries = (p["b"] * p["s"]) as f64;
            Tolerance {
                abs: queries * one,
                rel,
                reason: "a share of at most one and delta, with their rounding, summed over all queries of a head",
            }
        }
        // |dP − delta| is at most about 8 √d for these inputs. Its weight has the error `weight`, and dP has that of a dot product.
        // Delta has that and the rounding of the stored output. The result of all may be rounded once to the element type. `scale`
        // = 1/√d cancels the √d.
        _ => {
            let one = 3.47 * (8.0 * weight + 16.0 * f32u * d.sqrt() + 12.0 * u);
            // dQ adds weights of one row, which sum to one. dK and dV add weights of a column. Their mean is s/t for the s queries
            // of a key, and larger for fewer keys.
            let mass = if output == DQ { 1.0 } else { 8.0 + 4.0 * s / masks::fewest_keys(p) as f64 };
            Tolerance {
                abs: mass * one + 3.47 * f32u * s.max(t).sqrt(),
                rel,
                reason: "weights, their gradients and delta carry f32 rounding (delta also that of the stored output, the \
                         others at most one to the element type) and are mixed by weights of total 1 (dQ) or about s/t \
                         (dK, dV); the result is rounded once",
            }
        }
    }
}

/// Forward pass, row by row: for every head_dim, and without a score matrix.
fn setup(p: &Problem, _caps: &Caps) -> Program {
    let (queries, keys, _) = sizes(p);
    let stage = by_rows(p, "attention/forward", "attention_forward")
        .consts(&[("COLUMNS", p["d"].div_ceil(u64::from(ROW_THREADS)) as u32)])
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write), ("lse", Write)])
        // One number per thread for reductions, and one weight.
        .shared(2 * ROW_THREADS * 4)
        .cost(Cost::new(2 * gemm_flops(p), queries + 2 * keys, queries + p["b"] * p["h"] * p["s"] * 4));
    looking(p, Looks::Both, changing(p, Computes::Both, stage)).into()
}

/// Stage that sums over all queries for each key: transposed f32 weights times rows of the element type.
fn gradient(p: &Problem, label: &'static str, [left, right, to]: [&'static str; 3]) -> Stage {
    let (queries, keys, scores) = sizes(p);
    let stage = by_tiles(p, ["attention/gradient", "attention_gradient"], [p["kv"], p["t"], p["d"]], 2)
        .args([("left", left, Write), ("right", right, Read), ("gradient", to, Write)])
        .cost(Cost::new(gemm_flops(p), scores + queries, keys));
    Stage { label: label.into(), ..stage }
}

/// Stage that computes `δ` of each row.
fn delta(p: &Problem) -> Stage {
    const THREADS: u64 = 256;
    const LANES: u64 = 32;
    let (queries, rows) = (sizes(p).0, p["b"] * p["h"] * p["s"]);
    stage(p, "attention/delta", "attention_delta")
        .consts(&[("THREADS", THREADS as u32), ("LANES", LANES as u32)])
        .args([("delta", Write), ("dout", Read), ("out", Read)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(rows.div_ceil(THREADS / LANES)))
        // Shared memory of WGSL's reductions over neighbouring threads.
        .shared(4 * (THREADS + THREADS / LANES * 16) as u32)
        .cost(Cost::new(2 * rows * p["d"], 2 * queries, rows * 4))
}

fn manual(p: &Problem, _caps: &Caps) -> Program {
    let (queries, keys, scores) = sizes(p);
    let dscores = by_tiles(p, ["attention/backward", "attention_dscores"], [p["h"], p["s"], p["t"]], 4)
        .args([
            ("delta", "delta", Read),
            ("dout", "dout", Read),
            ("probabilities", "scores", Write),
            ("dscores", "dscores", Write),
            ("q", "q", Read),
            ("k", "k", Read),
            ("v", "v", Read),
            ("lse", "lse", Read),
        ])
        .cost(Cost::new(2 * gemm_flops(p), 2 * (queries + keys), 2 * scores));
    let stages = vec![
        delta(p),
        looking(p, Looks::Both, changing(p, Computes::Scores, dscores)),
        gradient(p, "attention_dv", ["scores", "dout", "dv"]),
        // `dQ` sums over all keys for each query, as the forward weighted sum does.
        Stage { label: "attention_dq".into(), ..weighted_sum(p, ["dscores", "k", "dq"]) },
        gradient(p, "attention_dk", ["dscores", "q", "dk"]),
    ];
    with_sinks(p, stages)
}

/// Program of these stages and, if the shape has sinks, one with a workgroup per head that sums their gradients.
fn with_sinks(p: &Problem, mut stages: Vec<Stage>) -> Program {
    if p.shape.has("sinks") {
        let (h, rows) = (p["h"], p["b"] * p["h"] * p["s"]);
        let written = h * Elem::Real.storage(p.dtype).bytes();
        let sums = stage(p, "attention/dsinks", "attention_dsinks")
            .consts(&[("ITEM_HEADS", h as u32), ("ROW_THREADS", ROW_THREADS)])
            .args([("lse", Read), ("delta", Read), ("sinks", Read), ("dsinks", Write)])
            .threads([ROW_THREADS, 1, 1])
            .grid(spread(h))
            .shared(ROW_THREADS * 4)
            .cost(Cost::new(0, 8 * rows + written, written));
        stages.push(sums);
    }
    Program { stages }
}
