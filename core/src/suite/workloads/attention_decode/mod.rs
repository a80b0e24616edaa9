//! Attention of one new token per sequence over a cache of keys and values in pages:
//! `out[i] = softmax(scale · q[i] K[i]ᵀ) V[i]` with `scale = 1/√d` over the tokens `0..length[i]` of sequence `i`, per head.
//!
//! Formula: as of [`super::attention`], of which this is one row. Pages: Kwon et al., "Efficient Memory Management for Large
//! Language Model Serving with PagedAttention" (2023). Q and the output are `[b, h, d]`; both caches are
//! `[pages, p, kv, d]`, with `h/kv` neighbouring heads of queries to one of keys and values. Token `j` of sequence `i` lies in
//! page `table[i, j / p]` at place `j % p`, for `table` of `[b, ⌈t/p⌉]`. A sequence of no tokens has output zero.
//!
//! With `contiguous`, the pages of a sequence lie one behind the other, and kernels know it without looking the table up:
//! what pages cost. With `ragged`, lengths are spread evenly over `1..=t`; without, all are `t`.
//!
//! Operations are counted as attention's, `4·h·d` a token. Bytes are what of the caches belongs to tokens, with the queries,
//! the output and what is looked up.

use super::attention::{huge, ragged, saturated};
use crate::suite::Access::{Read, Write};
use crate::suite::hard::{any, exact, one, smallest_normal, subnormal, zero};
use crate::suite::{
    Axis, BufferSpec, Caps, Cost, DType, Direction, Draw, Elem, Form, Hard, HostBuffer, Inputs, Precondition, Preset,
    Problem, Program, Rate, Reference, Shape, Stage, Tolerance, Variant, Workload, spread,
};
use rayon::prelude::*;

mod split;

const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const TABLE: usize = 3;
const LENGTHS: usize = 4;

/// The form.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "attention of one token per sequence over a paged cache",
        axes: const {
            &[
                Axis::extent("b", "sequences"),
                Axis::extent("h", "heads"),
                Axis::same_as("kv", "heads of keys and values, a divisor of h", "h"),
                Axis::extent("t", "tokens of the longest sequence"),
                Axis::extent("d", "head_dim"),
                Axis::optional("p", "tokens of a page", 1, 16),
                Axis::word("lengths", "how long sequences are", &["", "ragged"]),
                Axis::word("cache", "where the pages of a sequence lie", &["", "contiguous"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| match (shape["h"], shape["kv"]) {
            (h, kv) if h.is_multiple_of(kv) => Ok(()),
            (h, kv) => Err(format!("{h} heads cannot share {kv} heads of keys and values evenly")),
        },
        forms: vec![Form {
            direction: Direction::Fwd,
            rate: Rate::Bytes,
            headline: Some("b8,h8,kv2,t1024,d64"),
            shapes,
            // Single elements; pages that end within a sequence, and sequences within a page; odd rows; groups of a prime
            // number of heads, of more than are held at once, and several splits.
            awkward: &[
                "b1,h1,t1,d1",
                "b3,h2,t5,d3,p2,ragged",
                "b2,h6,kv2,t67,d72,ragged",
                "b2,h3,t33,d129,p1",
                "b3,h5,kv1,t130,d64,p7,ragged",
                "b2,h4,kv2,t300,d128,contiguous",
                "b5,h24,kv2,t517,d16,p32,ragged",
                "b3,h2,t40,d256,ragged,contiguous",
            ],
            huge: &[],
            buffers,
            cost,
            tolerance,
            reference: Reference {
                row_cost: |p, _| 2 * p["t"] * p["d"],
                rows: |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
            },
            setup: None,
            host: Some(host),
            variants: vec![
                Variant::kernel(
                    "naive",
                    "a workgroup per head of queries: scores of all tokens in device memory, softmax, weighted sum",
                    naive,
                ),
                Variant::kernel(
                    "split",
                    "workgroups per head of keys and part of the sequence, which read each key and value once for several \
                     heads of queries, with an online softmax; a second stage puts the parts together",
                    split::split,
                )
                .available(|p, _| split::available(p)),
            ],
            fallback: &["split", "naive"],
            preconditions: vec![
                Precondition::Below { buffer: "table", bound: pages },
                Precondition::Below { buffer: "lengths", bound: |p| p["t"] + 1 },
            ],
            hard: hard_sets(),
            only: None,
        }],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "b8,h8,kv2,t1024,d64",
            "b32,h32,kv8,t4096,d128",
            "b32,h32,kv8,t4096,d128,ragged",
            "b32,h32,kv8,t4096,d128,contiguous",
        ],
        _ => &[
            "b8,h8,kv2,t1024,d64",
            "b1,h32,kv8,t32768,d128",
            "b32,h32,t2048,d128",
            "b32,h32,kv8,t4096,d128",
            "b32,h32,kv8,t4096,d128,p256",
            "b32,h32,kv8,t4096,d128,ragged",
            "b32,h32,kv8,t4096,d128,contiguous",
            "b128,h32,kv8,t4096,d128",
        ],
    }
}

/// Pages of the longest sequence.
fn pages_of_one(shape: &Shape) -> u64 {
    shape["t"].div_ceil(shape["p"])
}

/// Pages of the caches.
fn pages(p: &Problem) -> u64 {
    p["b"] * pages_of_one(&p.shape)
}

/// The page that an entry of the table names. Without `contiguous` pages are dealt out by a multiplication modulo their
/// number: every one once, for that number and the factor, a prime above it, have no common divisor.
fn page(shape: &Shape, draw: Draw) -> f64 {
    const FACTOR: u128 = 11_400_714_819_323_198_549;
    let all = u128::from(shape["b"] * pages_of_one(shape));
    let entry = u128::from(draw.index);
    (if shape.has("contiguous") { entry } else { entry * FACTOR % all }) as f64
}

/// Tokens of sequence `i`: the same for every seed, so that costs are known.
fn length(shape: &Shape, i: u64) -> u64 {
    if !shape.has("ragged") {
        return shape["t"];
    }
    ragged(i, shape["b"], shape["t"])
}

fn normal(_: &Shape, draw: Draw) -> f64 {
    draw.normal()
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, t, d) = (p["b"], p["h"], p["t"], p["d"]);
    let cache = [pages(p), p["p"], p["kv"], d];
    let parts = split::most_parts(p);
    vec![
        BufferSpec::input("q", Elem::Real, &[b, h, d], normal),
        BufferSpec::input("k", Elem::Real, &cache, normal),
        BufferSpec::input("v", Elem::Real, &cache, normal),
        BufferSpec::input("table", Elem::U32, &[b, pages_of_one(&p.shape)], page),
        BufferSpec::input("lengths", Elem::U32, &[b], |shape, draw| length(shape, draw.index) as f64),
        BufferSpec::output("out", Elem::Real, &[b, h, d]),
        // Of `naive`.
        BufferSpec::scratch("scores", Elem::F32, &[b, h, t]),
        // Of `split`: sums of values, and the largest score with the sum of weights.
        BufferSpec::scratch("parts", Elem::F32, &[b, h, parts, d]),
        BufferSpec::scratch("numbers", Elem::F32, &[b, h, parts, 2]),
    ]
}

/// Tokens of all sequences.
fn tokens(p: &Problem) -> u64 {
    (0..p["b"]).map(|i| length(&p.shape, i)).sum()
}

/// Operations of all.
fn operations(p: &Problem) -> u64 {
    4 * p["h"] * p["d"] * tokens(p)
}

/// Bytes of the queries, and of all that is read.
fn bytes(p: &Problem) -> (u64, u64) {
    let element = Elem::Real.storage(p.dtype).bytes();
    let queries = p["b"] * p["h"] * p["d"] * element;
    let entries = |i| if p.shape.has("contiguous") { 0 } else { length(&p.shape, i).div_ceil(p["p"]) };
    let looked_up = 4 * (0..p["b"]).map(|i| 1 + entries(i)).sum::<u64>();
    (queries, queries + 2 * tokens(p) * p["kv"] * p["d"] * element + looked_up)
}

fn cost(p: &Problem) -> Cost {
    let (queries, read) = bytes(p);
    Cost::new(operations(p), read, queries)
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    let scores = 2f64.powi(-24) * (p["d"] as f64).sqrt() * 16.0;
    Tolerance {
        abs: 3.47 * (2.0 * u + scores) + 2f64.powi(-24) * (p["t"] as f64).sqrt(),
        rel: 2.0 * u,
        reason: "as attention's: a convex mix of values of at most 3.47, rounded once; scores carry f32 rounding into the \
                 exponent",
    }
}

fn hard_sets() -> Vec<Hard> {
    vec![
        Hard {
            name: "zeros",
            about: "all zero: equal weights, and a result of zero",
            applies: any,
            fills: |_| vec![("q", zero), ("k", zero), ("v", zero)],
            tolerance: exact,
        },
        Hard {
            name: "equal",
            about: "all one: equal weights, whose sum is one",
            applies: any,
            fills: |_| vec![("q", one), ("k", one), ("v", one)],
            tolerance: |p, _| Tolerance {
                abs: 0.0,
                rel: 2.0 * p.dtype.unit_roundoff() + (p["t"] as f64 + 8.0) * 2f64.powi(-24),
                reason: "each of t weights is rounded in f32, so is each sum of them, and the result once more",
            },
        },
        Hard {
            name: "saturating",
            about: "scores of ±1000: tokens of the lesser sign weigh nothing, those of the greater all the same",
            applies: any,
            fills: |_| vec![("q", |s, d| saturated(s, d, false)), ("k", |s, d| saturated(s, d, true))],
            tolerance,
        },
        Hard {
            name: "huge",
            about: "values of up to 60 000 in f16 and 1e30 otherwise: sums over tokens stay within f32, the result is finite",
            applies: any,
            fills: |p| match p.dtype {
                DType::F16 => vec![("v", |_, draw| 6e4 * (0.5 + 0.5 * draw.uniform()))],
                _ => vec![("v", |_, draw| 1e30 * (0.5 + 0.5 * draw.uniform()))],
            },
            tolerance: |p, _| Tolerance { abs: tolerance(p, 0).abs * huge(p) / 3.47, ..tolerance(p, 0) },
        },
        Hard {
            name: "subnormal",
            about: "values too small to be normal: the result is such a number, or zero where the device flushes them",
            applies: any,
            fills: |p| vec![("v", subnormal(p))],
            tolerance: |p, _| Tolerance {
                abs: 2.0 * smallest_normal(p),
                rel: 0.0,
                reason: "a device may take what is below the smallest normal number for zero, before and after the sum",
            },
        },
        Hard {
            name: "empty",
            about: "sequences of no tokens and of one, by turns: zero, and the value of the one",
            applies: any,
            fills: |_| vec![("lengths", |_, draw| (draw.index % 2) as f64)],
            tolerance,
        },
        Hard {
            name: "shared page",
            about: "every entry of the table names the last page, as where sequences begin alike",
            applies: |p| !p.shape.has("contiguous"),
            fills: |_| vec![("table", |shape, _| (shape["b"] * pages_of_one(shape) - 1) as f64)],
            tolerance,
        },
    ]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (d, size) = (p["d"], p["p"]);
    let (sequence, head) = (row / p["h"], row % p["h"]);
    let key_head = head / (p["h"] / p["kv"]);
    let scale = 1.0 / (d as f64).sqrt();
    // Where the key and the value of a token begin.
    let at = |j: u64| {
        let entry = sequence * pages_of_one(&p.shape) + j / size;
        let page = if p.shape.has("contiguous") { entry } else { inputs.at(TABLE, entry) as u64 };
        ((page * size + j % size) * p["kv"] + key_head) * d
    };
    let mut scores = Vec::new();
    for j in 0..inputs.at(LENGTHS, sequence) as u64 {
        let dot: f64 = (0..d).map(|x| inputs.at(Q, row * d + x) * inputs.at(K, at(j) + x)).sum();
        scores.push(dot * scale);
    }
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
    out.fill(0.0);
    for (j, score) in scores.iter().enumerate() {
        let weight = (score - max).exp() / sum;
        for x in 0..d {
            out[x as usize] += weight * inputs.at(V, at(j as u64) + x);
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (d, h, kv, size) = (p["d"] as usize, p["h"] as usize, p["kv"] as usize, p["p"] as usize);
    let (q, k, v) = (inputs[Q].f32(), inputs[K].f32(), inputs[V].f32());
    let (table, lengths) = (inputs[TABLE].u32(), inputs[LENGTHS].u32());
    let entries = pages_of_one(&p.shape) as usize;
    let scale = 1.0 / (d as f32).sqrt();
    outputs[0].par_chunks_mut(d).enumerate().for_each_init(Vec::new, |scores: &mut Vec<f32>, (row, out)| {
        let (sequence, key_head) = (row / h, row % h / (h / kv));
        let length = lengths[sequence] as usize;
        let of_token = |j: usize| {
            let entry = sequence * entries + j / size;
            let page = if p.shape.has("contiguous") { entry } else { table[entry] as usize };
            ((page * size + j % size) * kv + key_head) * d
        };
        let query = &q[row * d..][..d];
        scores.clear();
        scores.extend((0..length).map(|j| {
            let key = &k[of_token(j)..][..d];
            query.iter().zip(key).map(|(a, b)| a * b).sum::<f32>() * scale
        }));
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        out.fill(0.0);
        for (j, score) in scores.iter().enumerate() {
            let weight = (score - max).exp();
            sum += weight;
            for (o, x) in out.iter_mut().zip(&v[of_token(j)..][..d]) {
                *o += weight * x;
            }
        }
        if sum > 0.0 {
            out.iter_mut().for_each(|o| *o /= sum);
        }
    });
}

/// A stage with the constants that say how the caches lie.
fn stage(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    Stage::kernel(entry, text, entry)
        .consts(
            &[("SEQUENCES", "b"), ("HEADS", "h"), ("KEY_HEADS", "kv"), ("D", "d"), ("PAGE", "p")]
                .map(|(name, key)| (name, p[key] as u32)),
        )
        .consts(&[("PAGES", pages_of_one(&p.shape) as u32)])
        .consts(&[("CONTIGUOUS", p.shape.has("contiguous"))])
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    const THREADS: u32 = 128;
    stage(p, "attention_decode/naive", "attention_decode_naive")
        .consts(&[("T", p["t"] as u32), ("ROW_THREADS", THREADS)])
        .args([
            ("q", Read),
            ("k", Read),
            ("v", Read),
            ("table", Read),
            ("lengths", Read),
            ("scores", Write),
            ("out", Write),
        ])
        .threads([THREADS, 1, 1])
        .grid(spread(p["b"] * p["h"]))
        .shared(THREADS * 4)
        .costing(cost(p))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Case;

    fn problem(shape: &str) -> Problem {
        let case: Case = format!("attention_decode/fwd/{shape}/f32/naive").parse().expect("valid");
        case.problem
    }

    #[test]
    fn each_page_is_dealt_out_once_and_neighbours_lie_apart() {
        for shape in ["b1,h1,t1,d1", "b3,h1,t100,d1,p7", "b32,h1,t4096,d1"] {
            let p = problem(shape);
            let inputs = p.inputs(1);
            let dealt: Vec<u64> = (0..pages(&p)).map(|i| inputs.at(TABLE, i) as u64).collect();
            let mut sorted = dealt.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().zip(0..).all(|(page, i)| *page == i), "{shape}");
            assert!(dealt.windows(2).all(|two| two[1] != two[0] + 1) || dealt.len() < 8, "{shape}");
        }
    }

    #[test]
    fn ragged_lengths_are_spread_over_all_there_can_be() {
        for shape in ["b1,h1,t1,d1,ragged", "b5,h1,t517,d1,ragged", "b32,h1,t4096,d1,ragged", "b64,h1,t3,d1,ragged"] {
            let p = problem(shape);
            let lengths: Vec<u64> = (0..p["b"]).map(|i| length(&p.shape, i)).collect();
            assert!(lengths.iter().all(|length| (1..=p["t"]).contains(length)), "{shape}: {lengths:?}");
            assert_eq!(lengths.iter().max(), Some(&p["t"]), "{shape}");
            let mean = tokens(&p) as f64 / (p["b"] * (p["t"] + p["t"].div_ceil(p["b"]))) as f64;
            assert!((0.4..0.7).contains(&mean), "{shape}: {mean}");
            assert_eq!(p.accepts(&p.inputs(1)), Ok(()));
        }
    }
}
