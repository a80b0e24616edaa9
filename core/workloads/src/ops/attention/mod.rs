//! Scaled dot-product attention. Forward: `out = softmax(scale · Q Kᵀ) V` with `scale = 1/√d`, per batch and head.
//!
//! Formula: Vaswani et al., "Attention Is All You Need" (2017), section 3.2.1.
//!
//! Q is `[b, h, s, d]`, K and V are `[b, kv, t, d]`, the output is `[b, h, s, d]`. All are dense and row-major.
//!
//! Options:
//!
//! - `kv < h`: `h/kv` neighbouring query heads share one key-value head. This is grouped-query attention (Ainslie et al., "GQA"
//!   (2023)). Multi-query attention has `kv` = 1.
//! - `causal`: query `i` sees key `j` when `j <= i + (t - s)`. The mask is aligned to the last key, as in FlashAttention 2.1 and
//!   later.
//! - `w` > 0: query `i` sees only the last `w` keys that `causal` leaves it, as in Mistral and gpt-oss (Beltagy et al.,
//!   "Longformer" (2020)).
//! - `padded`: batch item `i` has only its first `lengths[i]` keys, between 0 and `t`. The causal mask stays aligned to key `t`.
//! - `n` > 0: the tokens are `n` sequences one after the other, as FlashAttention's `cu_seqlens` has them. Sequence `i` has the
//!   tokens from `bounds[i]` to before `bounds[i + 1]`, and a query sees keys of its own sequence alone. Causal mask and window hold
//!   within it. Sequences may be empty. A token of no sequence sees no key.
//! - `biased`: a `mask` of `[s, t]` is added to the scaled scores: `softmax(scale · Q Kᵀ + mask) V`, PyTorch's `attn_mask`. All
//!   heads and batch items share it. Its values are finite, or −∞ for a hidden key. Finite values below −2·10³⁸ count as −2·10³⁸. A
//!   row that has only the lowest number, as of `torch.finfo(dtype).min`, gives the mean of the values.
//! - `cap` > 0: scaled scores pass a soft cap, `cap · tanh(score / cap)`, before slopes and masks. Gemma 2 has 50.
//! - `sinks`: weights are `exp(s_j) / (exp(sink) + Σ exp(s_k))` with a number `sink` per head, as in gpt-oss. The origin is Xiao
//!   et al., "Efficient Streaming Language Models with Attention Sinks" (2023). Sinks are finite. NaN in a sink makes the
//!   outputs of its head NaN.
//! - `alibi`: a score falls by `2^(−8 (head + 1) / h) · |i + (t − s) − j|` for query `i` and key `j`. The last query is at the last
//!   key, as in FlashAttention. The origin is Press et al., "Train Short, Test Long" (2022).
//!
//! A query that sees no key has output zero, also beside a sink.
//!
//! Keys and values beyond a length never enter a sum. Their contents are arbitrary, as in a cache that is longer than its data. NaN
//! in a query, or in a key or value that it sees, makes its output NaN.
//!
//! Operations follow the rule of FlashAttention's benchmarks: `4·b·h·s·t·d`, halved when causal. Keys beyond a length are not
//! counted. With a window or packed sequences, only pairs of a query and a key that it sees are counted. Without inputs from the
//! user, lengths are spread evenly over `1..=t`, and lengths of packed sequences over odd multiples of the shortest.

use flash::{DEPTH, flash, flash_mma, mma_available, short_rows};
use masks::{Looks, Masks, looking};
use parallax_ir::Access::{Read, Write};
use parallax_ir::{
    Axis, BufferSpec, Elem, Inputs, OfNan, OpSpec, Problem, Program, Reference, Stage, StageOp, Tolerance, Variant,
    Workload, cube_available, normal, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::real::maximum;
use scores::{Computes, Sinks, changing, without_changes};

mod backward;
mod coopmat;
mod flash;
mod head_layout;
mod host;
mod masks;
mod scores;
mod stress;
mod subgroup;
mod vendor;
mod warpgroups;

pub(crate) use backward::gradients_by_wgmma_on_rows;
pub use masks::ragged;
pub use stress::{huge, saturated};
pub(crate) use warpgroups::flash_wgmma_on_rows;

const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "softmax(QKᵀ·scale)·V, batched over heads",
        axes: const {
            &[
                Axis::extent("b", "batch"),
                Axis::extent("h", "heads"),
                Axis::same_as("kv", "key-value heads, a divisor of h", "h"),
                Axis::extent("s", "queries"),
                Axis::same_as("t", "keys", "s"),
                Axis::extent("d", "head dim"),
                masks::WINDOW,
                masks::SEQUENCES,
                scores::CAP,
                masks::AXES[0],
                masks::AXES[1],
                masks::AXES[2],
                scores::AXES[0],
                scores::AXES[1],
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| match (shape["h"], shape["kv"]) {
            (h, kv) if h.is_multiple_of(kv) => masks::validate(shape),
            (h, kv) => Err(format!("{h} heads cannot share {kv} heads of keys and values evenly")),
        },
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    let mut form = OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(
            row_cost,
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
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
        "b1,h1,s130,d128,causal",
        "b1,h4,kv1,s35,d64",
        "b5,h2,s35,t101,d64,padded",
        "b1,h2,s33,t70,d40,biased",
        "b3,h4,kv2,s67,t35,d24,causal,padded",
        "b3,h4,kv2,s35,t67,d72,causal,padded,biased",
        "b3,h4,kv2,s70,d24,causal,padded",
        "b2,h6,kv2,s19,t37,d24,causal",
        "b1,h2,s37,t101,d64,cap50,causal",
        "b2,h3,s33,t70,d40,cap2.5,biased",
        // With sinks: queries without a key, and items with few.
        "b2,h4,kv2,s101,t37,d72,causal,sinks",
        "b3,h4,kv2,s35,t67,d64,causal,padded,sinks",
        // Slopes on both sides of a query, and queries before all keys.
        "b2,h3,s67,t35,d24,alibi",
        "b1,h6,s130,d128,w40,causal,alibi",
        "b3,h4,kv2,s67,t131,d72,w50,cap5,causal,padded,sinks,alibi",
        "b1,h2,s70,d40,cap2,causal,biased,sinks,alibi",
        // Windows: of one key, within a tile, over several tiles, and longer than all keys.
        "b1,h1,s9,d8,w1,causal",
        "b1,h2,s37,t101,d64,w20,causal",
        "b1,h2,s300,d64,w100,causal",
        "b1,h1,s290,t520,d128,w200,causal",
        "b1,h2,s101,t37,d72,w300,causal",
        "b3,h4,kv2,s67,t131,d72,w50,causal,padded",
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
    .host(host::forward)
    .variants(vec![
        Variant::kernel(
            "manual",
            "three stages with the score matrix in device memory: scores, softmax, weighted sum",
            manual,
        ),
        Variant::kernel(
            "subgroup",
            "one stage with an online softmax, rows shared by threads of a subgroup: no score matrix, and no barriers between tiles",
            subgroup::program,
        )
        .only_in(&[Dialect::Wgsl])
        .available(subgroup::available),
        Variant::kernel(
            "flash",
            "one stage with an online softmax over key tiles: no score matrix, O(N) memory",
            flash,
        )
        .available(|p, _| short_rows(p))
        .tunables(&[DEPTH]),
        Variant::kernel(
            "flash_mma",
            "the same on tensor cores by warp-wide instructions, tiles copied asynchronously",
            flash_mma,
        )
        .only_in(&[Dialect::Cuda])
        .available(mma_available),
        Variant::kernel(
            "flash_wgmma",
            "the same on tensor cores by warpgroups: a producer copies tiles, one consumer multiplies while another exponentiates",
            warpgroups::flash_wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .available(warpgroups::available),
        Variant::kernel(
            "flash_coopmat",
            "the same on matrix units through WGSL's cooperative matrices, an extension of native wgpu and of Chromium; \
             scores pass through workgroup memory",
            coopmat::program,
        )
        .only_in(&[Dialect::Wgsl])
        .available(coopmat::available),
        Variant::cube("one source in CubeCL: one stage with an online softmax over key tiles, as `flash`", flash::cube)
            .available(|p, caps| {
                masks::without_starts(p, "cube")?;
                without_changes(p, "cube").and_then(|()| cube_available(p, caps)).and_then(|()| short_rows(p))
            }),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["flash_wgmma", "flash_mma", "flash_coopmat", "flash", "subgroup", "manual"])
    .preconditions(masks::preconditions())
    .stress(stress::inputs());
    form.variants.extend(vendor::forward());
    form
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "b1,h8,s512,d64",
            "b1,h16,s2048,d64",
            "b1,h16,s2048,d64,causal",
            "b32,h16,s256,d72",
            "b1,h16,s2048,d128",
            "b1,h16,s2048,d128,causal",
            "b1,h16,kv4,s2048,d128,causal",
            "b1,h16,s256,t2048,d128",
        ],
        _ => &[
            "b1,h8,s512,d64",
            "b1,h16,s2048,d64",
            "b1,h16,s4096,d128",
            "b8,h16,s4096,d64",
            "b8,h16,s4096,d64,causal",
            "b256,h16,s256,d72",
            "b8,h16,s4096,d128",
            "b8,h16,s4096,d128,causal",
            "b8,h16,kv4,s4096,d128,causal",
            "b8,h16,s4096,d128,w1024,causal",
            "b1,h64,kv8,s16384,d64,w128,causal",
            "b2,h16,s16384,d128,causal",
            // Gemma 2, gpt-oss and MPT.
            "b2,h32,kv16,s4096,d128,cap50,causal",
            "b1,h64,kv8,s8192,d64,causal,sinks",
            "b1,h64,kv8,s16384,d64,w128,causal,sinks",
            // Documents of a training step, and questions of a server.
            "b1,h32,kv8,s16384,d128,n8,causal",
            "b1,h16,s16384,d64,n64",
            "b2,h32,s4096,d128,causal,alibi",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, kv, s, t, d) = (p["b"], p["h"], p["kv"], p["s"], p["t"], p["d"]);
    let inputs = [
        BufferSpec::input("q", Elem::Real, &[b, h, s, d], normal),
        BufferSpec::input("k", Elem::Real, &[b, kv, t, d], normal),
        BufferSpec::input("v", Elem::Real, &[b, kv, t, d], normal),
    ];
    let others = [
        BufferSpec::output("out", Elem::Real, &[b, h, s, d]),
        // Used by `manual` alone. Scratch of a variant is allocated when one of its stages names it.
        BufferSpec::scratch("scores", Elem::F32, &[b, h, s, t]),
        warpgroups::scratch(),
    ];
    inputs.into_iter().chain(masks::buffers(p)).chain(others).collect()
}

/// Number of inputs that every shape has.
const INPUTS: usize = 3;

/// Cost of a one-stage variant without the optional inputs. [`looking`] adds their bytes.
fn cost_of_one_stage(p: &Problem) -> Cost {
    let (queries, keys, _) = sizes(p);
    Cost::new(2 * gemm_flops(p), queries + 2 * keys, queries)
}

fn cost(p: &Problem) -> Cost {
    let Cost { flops, read, written } = cost_of_one_stage(p);
    Cost::new(flops.0, read.0 + masks::all_bytes(p), written.0)
}

/// Absolute error of a score, which enters the exponent. Scores grow with the length of the dot product. A mask adds rounding of
/// its own.
fn score_error(p: &Problem) -> f64 {
    let mask = if p.shape.has("biased") { 16.0 } else { 0.0 };
    2f64.powi(-24) * ((p["d"] as f64).sqrt() * 16.0 + mask) + scores::error(p)
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    Tolerance {
        abs: 3.47 * (2.0 * u + score_error(p)) + 2f64.powi(-24) * (p["t"] as f64).sqrt(),
        rel: 2.0 * u,
        reason: "the output is a convex mix of values of at most 3.47: weights may be rounded to the element type once \
                 (u each) and the result once more, scores carry f32 rounding into the exponent",
    }
}

/// Number of query heads that share one key-value head.
fn group(p: &Problem) -> u64 {
    p["h"] / p["kv"]
}

/// Multiply-adds of a row: its scores and its weighted sum.
fn row_cost(p: &Problem, _output: usize) -> u64 {
    2 * p["t"] * p["d"]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    let head = row / s / group(p);
    let masks = Masks::behind(p, INPUTS);
    let scale = 1.0 / (d as f64).sqrt();
    let mut scores = Vec::new();
    let seen = masks.seen(inputs, row);
    for j in seen.clone() {
        let mut dot = 0.0;
        for x in 0..d {
            dot += inputs.at(Q, row * d + x) * inputs.at(K, (head * t + j) * d + x);
        }
        scores.push(scores::changed(p, row, j, dot * scale) + masks.added(inputs, row, j));
    }
    out.fill(0.0);
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, maximum);
    if max == f64::NEG_INFINITY {
        return;
    }
    let sink = Sinks::behind(p, INPUTS).of(inputs, row);
    let max = maximum(max, sink);
    let sum = scores.iter().map(|score| (score - max).exp()).sum::<f64>() + (sink - max).exp();
    for (j, score) in seen.zip(&scores) {
        let weight = (score - max).exp() / sum;
        for x in 0..d {
            out[x as usize] += weight * inputs.at(V, (head * t + j) * d + x);
        }
    }
}

/// Name of the constant that selects whether a stage stores the log-sum-exp of its rows for training. See [`keeping_lse`].
const KEEPS_LSE: &str = "KEEPS_LSE";

/// Returns the stages of a forward variant, one of which also writes the log-sum-exp of every score row. The buffer is `lse`, `[b,
/// h, s]`. Supported variants: `manual`, `flash`, `flash_mma`, `flash_wgmma` and `vendor`.
///
/// # Panics
/// No stage that can write it.
pub(crate) fn keeping_lse(mut stages: Vec<Stage>) -> Vec<Stage> {
    if stages.iter_mut().any(vendor::keeps_lse) {
        return stages;
    }
    const WHOLE_ROWS: [&str; 4] =
        ["attention_softmax", "attention_flash", "attention_flash_mma", "attention_flash_wgmma"];
    let asked = |stage: &&mut Stage| WHOLE_ROWS.contains(&stage.entry());
    let stage = stages.iter_mut().find(asked).expect("a variant that goes over whole rows");
    let at = stage.args.len() as u32;
    let StageOp::Kernel(kernel) = &mut stage.work else { unreachable!("asked by its entry point") };
    kernel.consts.retain(|(name, _)| *name != KEEPS_LSE);
    kernel.consts.extend([(KEEPS_LSE, true.into()), ("LSE_AT", at.into())]);
    stage.args.push(("lse", Write).into());
    stages
}

/// Stage with the constants that all stages share.
fn stage(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    Stage::kernel(entry, text, entry)
        .consts(&[("S", "s"), ("T", "t"), ("D", "d")].map(|(name, key)| (name, p[key] as u32)))
        .consts(&[("HEADS", (p["b"] * p["h"]) as u32), ("GROUP", group(p) as u32)])
        .consts(&[("CAUSAL", p.shape.has("causal"))])
        .consts(&[("WINDOW", p["w"] as u32)])
}

/// Edge of the square tiles of both GEMMs.
const TILE: u64 = 16;
/// Number of threads that share one row in the softmax stage.
const ROW_THREADS: u32 = 128;

/// Stage with one workgroup per tile of every matrix: `[ceil(rows/16) · ceil(cols/16)]` per head and batch item. Tiles are numbered
/// row by row. A workgroup keeps `kept` tiles in workgroup memory.
fn by_tiles(p: &Problem, [text, entry]: [&'static str; 2], [heads, rows, cols]: [u64; 3], kept: u32) -> Stage {
    let tile = TILE as u32;
    stage(p, text, entry)
        .consts(&[("TILE", tile), ("ROW_THREADS", ROW_THREADS)])
        .consts(&[(KEEPS_LSE, false)])
        .threads([tile, tile, 1])
        .grid(spread(p["b"] * heads * rows.div_ceil(TILE) * cols.div_ceil(TILE)))
        .shared(kept * tile * tile * 4)
}

/// Stage with one workgroup per query of every head.
fn by_rows(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    stage(p, text, entry)
        .consts(&[("TILE", TILE as u32), ("ROW_THREADS", ROW_THREADS)])
        .consts(&[(KEEPS_LSE, false)])
        .threads([ROW_THREADS, 1, 1])
        .grid(spread(p["b"] * p["h"] * p["s"]))
        .shared(ROW_THREADS * 4)
}

/// Operations for each pair of a query and a key, in all heads. The workload's counting rule halves a causal problem, and counts the
/// pairs of windows and of packed sequences.
fn counted(p: &Problem, each: u64) -> u64 {
    let all = || each * masks::keys(p) * p["h"] * p["s"];
    match masks::counts_pairs(p) {
        true => each * masks::pairs(p) * p["h"],
        false if p.shape.has("causal") => all() / 2,
        false => all(),
    }
}

/// Bytes of Q, of K and of the scores.
fn sizes(p: &Problem) -> (u64, u64, u64) {
    let (heads, element) = (p["b"] * p["h"], Elem::Real.storage(p.dtype).bytes());
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    (heads * s * d * element, masks::keys(p) * p["kv"] * d * element, heads * s * t * 4)
}

/// Operations of one GEMM of depth s, t or d.
fn gemm_flops(p: &Problem) -> u64 {
    counted(p, 2 * p["d"])
}

/// Stage of the weighted sum per query: f32 weights times rows of the element type.
fn weighted_sum(p: &Problem, [weights, values, to]: [&'static str; 3]) -> Stage {
    let (queries, keys, scores) = sizes(p);
    let stage = by_tiles(p, ["attention/weighted_sum", "attention_weighted_sum"], [p["h"], p["s"], p["d"]], 2)
        .args([("scores", weights, Write), ("v", values, Read), ("out", to, Write)])
        .cost(Cost::new(gemm_flops(p), scores + keys, queries));
    looking(p, Looks::Lengths, stage)
}

fn manual(p: &Problem, _caps: &Caps) -> Program {
    let (queries, keys, scores) = sizes(p);
    // Five operations a score: scale, compare, subtract and exponentiate, add, divide. The workload's counting rule omits them.
    let softmax = counted(p, 5);
    let of_scores = by_tiles(p, ["attention/manual", "attention_scores"], [p["h"], p["s"], p["t"]], 2)
        .args([("scores", Write), ("q", Read), ("k", Read)])
        .cost(Cost::new(gemm_flops(p), queries + keys, scores));
    let of_scores = changing(p, Computes::Scores, of_scores);
    let of_rows = by_rows(p, "attention/manual", "attention_softmax")
        .args([("scores", Write)])
        .cost(Cost::new(softmax, scores, scores));
    let of_rows = changing(p, Computes::Sums, of_rows);
    Program {
        stages: vec![
            looking(p, Looks::Mask, of_scores),
            looking(p, Looks::Lengths, of_rows),
            weighted_sum(p, ["scores", "v", "out"]),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::units::Flops;

    #[test]
    fn the_products_of_manual_are_the_whole_of_the_problem() {
        for text in [
            "b1,h2,s31,t67,d72",
            "b1,h1,s13,t7,d3,causal",
            "b1,h4,kv2,s5,d8",
            "b3,h2,s5,t9,d8,padded",
            "b2,h1,s13,d3,w4,causal",
        ] {
            let case = parse_case(&format!("attention/fwd/{text}/f32/manual")).expect("valid");
            let stages = case.program(&parallax_schema::testing::caps()).expect("kernels").stages;
            let products: u64 = stages.iter().filter(|s| s.label != "attention_softmax").map(|s| s.cost.flops.0).sum();
            assert_eq!(Flops(products), cost(&case.problem).flops, "{text}");
        }
    }
}
