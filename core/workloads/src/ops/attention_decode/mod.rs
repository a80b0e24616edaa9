//! Attention of one new token per sequence over a paged cache of keys and values. `out[i] = softmax(scale · q[i] K[i]ᵀ) V[i]` with
//! `scale = 1/√d` over the tokens `0..length[i]` of sequence `i`, per head.
//!
//! Formula: one row of [`super::attention`]. Pages: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
//! PagedAttention" (2023).
//!
//! Q and the output are `[b, h, d]`. Both caches are `[pages, p, kv, d]`, with `h/kv` neighbouring query heads per key head. Token
//! `j` of sequence `i` is in page `table[i, j / p]` at position `j % p`, for `table` of `[b, ⌈t/p⌉]`. A sequence of no tokens has
//! output zero.
//!
//! Options:
//!
//! - `contiguous`: the pages of a sequence are adjacent, and kernels do not read the table. The difference is the cost of pages.
//! - `ragged`: lengths are spread evenly over `1..=t`. Without it, all are `t`.
//! - `append`: the caches lack the last token of each sequence, which is also the query's token. Its key and value are the inputs
//!   `new_k` and `new_v`, `[b, kv, d]`. They are written to the caches at token `length[i] − 1`, and attention then reads that
//!   token like the others.
//! - `pre` > 0: all sequences begin with the same `pre` tokens, such as a prompt of a system. Their pages are those of sequence 0: a
//!   token `j < pre` of any sequence is in page `table[0, j / p]`. Later entries of the table are each sequence's own. Bytes of the
//!   prefix count once (Juravsky et al., "Hydragen" (2024)).
//!
//! With `append`, `length[i]` counts the tokens afterwards: the caches hold `length[i] − 1` of them before. A sequence of no tokens
//! gets none. Both whole caches are outputs. Every execution writes the same values to the same positions, so that repeated
//! executions give the same caches. No two entries of the table may then name the same page. Otherwise a sequence would read the
//! token of another.
//!
//! Operations follow attention's rule, `4·h·d` a token. Bytes are those of the cached tokens, the queries, the output and the
//! look-ups. Appended tokens are read from the inputs and written.

use append::Appended;
use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::exact;
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Precondition, Problem, Program, Reference, Rows,
    Shape, Stage, Tolerance, Variant, Workload, normal, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::Bytes;

use super::attention::ragged;
use crate::real::maximum;
use crate::vector;

mod append;
mod mma;
mod prefix;
mod split;
mod stress;

const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const TABLE: usize = 3;
const LENGTHS: usize = 4;
const NEW_K: usize = 5;
const NEW_V: usize = 6;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "attention of one token per sequence over a paged cache",
        axes: const {
            &[
                Axis::extent("b", "sequences"),
                Axis::extent("h", "heads"),
                Axis::same_as("kv", "key-value heads, a divisor of h", "h"),
                Axis::extent("t", "tokens, of the longest sequence"),
                Axis::extent("d", "head dim"),
                Axis::optional("p", "tokens of a page", 1, 16),
                Axis::optional("pre", "first tokens that all sequences share, whole pages", 0, 0),
                Axis::word("lengths", "lengths of sequences", &["", "ragged"]),
                Axis::word("cache", "order of a sequence's pages", &["", "contiguous"]),
                Axis::word("new", "whether the last tokens are inputs, and appended", &["", "append"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| match (shape["h"], shape["kv"]) {
            (h, kv) if h.is_multiple_of(kv) => prefix::validate(shape),
            (h, kv) => Err(format!("{h} heads cannot share {kv} heads of keys and values evenly")),
        },
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            tolerance,
            Reference::new(
                |p, output| if output == result(p) { 2 * p["t"] * p["d"] } else { p["d"] },
                rows,
            ),
            OfNan::Kept,
        )
        .headline("b8,h8,kv2,t1024,d64")
        .shapes(shapes)
        // Single elements; pages that end within a sequence, and sequences within a page; odd rows. Groups of a prime number of
        // heads, of more heads than a workgroup holds, and several splits. With `append`: a full last page, a page of one
        // token. Also groups of as many heads as a matrix instruction has rows, and of more.
        .awkward(&[
            "b1,h1,t1,d1",
            "b3,h2,t5,d3,p2,ragged",
            "b2,h6,kv2,t67,d72,ragged",
            "b2,h3,t33,d129,p1",
            "b3,h5,kv1,t130,d64,p7,ragged",
            "b2,h4,kv2,t300,d128,contiguous",
            "b5,h24,kv2,t517,d16,p32,ragged",
            "b3,h2,t5,d3,p2,ragged,append",
            "b1,h16,kv1,t64,d8,append",
            "b2,h6,kv2,t67,d72,p1,contiguous,append",
            "b4,h20,kv1,t260,d40,p7,ragged,append",
            "b3,h2,t40,d256,ragged,contiguous",
            // Prefixes: one page, several parts, all tokens, and more rows than a workgroup holds.
            "b3,h2,t5,d3,p2,pre2,ragged",
            "b5,h6,kv2,t300,d72,pre160",
            "b9,h4,kv1,t517,d128,p7,pre441,ragged",
            "b2,h3,t64,d40,pre64",
        ])
        .host(host)
        .variants(vec![
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
            Variant::kernel(
                "split_append",
                "the same, and the new tokens are appended by the workgroups of the last part: no stage of its own",
                split::split_append,
            )
            .available(|p, _| split::append_available(p)),
            Variant::kernel(
                "split_mma",
                "as split on tensor cores: tokens pass through shared memory in several stages under way, up to sixteen \
                 heads of queries are the rows of a matrix product; appends as split_append",
                mma::split_mma,
            )
            .only_in(&[Dialect::Cuda])
            .available(mma::available)
            .tunables(mma::TUNABLES),
            Variant::kernel(
                "prefix",
                "as split, with a stage for the shared prefix, which reads its keys and values once for several sequences",
                prefix::prefix,
            )
            .available(|p, _| prefix::available(p)),
            Variant::kernel(
                "prefix_mma",
                "as split_mma, with a stage for the shared prefix, whose rows are queries of all sequences",
                prefix::prefix_mma,
            )
            .only_in(&[Dialect::Cuda])
            .available(prefix::mma_available),
        ])
        .fallback(&["prefix_mma", "prefix", "split_mma", "split_append", "split", "naive"])
        .preconditions(vec![
            Precondition::Below { buffer: "table", bound: pages },
            Precondition::Below { buffer: "lengths", bound: |p| p["t"] + 1 },
            Precondition::Distinct { buffer: "table", when: append::asked },
        ])
        .stress(stress::inputs())],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "b8,h8,kv2,t1024,d64",
            "b32,h32,kv8,t4096,d128",
            "b32,h32,kv8,t4096,d128,ragged",
            "b32,h32,kv8,t4096,d128,contiguous",
            "b32,h32,kv8,t4096,d128,append",
        ],
        _ => &[
            "b8,h8,kv2,t1024,d64",
            "b1,h32,kv8,t32768,d128",
            "b32,h32,t2048,d128",
            "b32,h32,kv8,t4096,d128",
            "b32,h32,kv8,t4096,d128,p256",
            "b32,h32,kv8,t4096,d128,ragged",
            "b32,h32,kv8,t4096,d128,contiguous",
            "b32,h32,kv8,t4096,d128,append",
            "b64,h32,kv8,t8192,d128,pre7168",
            "b128,h32,kv8,t4096,d128",
        ],
    }
}

/// Number of pages of the longest sequence.
fn pages_of_one(shape: &Shape) -> u64 {
    shape["t"].div_ceil(shape["p"])
}

/// Number of pages of the caches.
fn pages(p: &Problem) -> u64 {
    p["b"] * pages_of_one(&p.shape)
}

/// Page number of an entry of the table. Without `contiguous`, pages are permuted. With `append` the order is reversed from
/// the last page, so that the last entry names it. The last row of the caches, which every check compares, is then an appended one
/// if sequences fill their pages.
fn page(shape: &Shape, draw: Draw) -> f64 {
    let of_one = pages_of_one(shape);
    if draw.index % of_one < shape["pre"] / shape["p"] {
        return dealt(draw.index % of_one, shape["b"] * of_one) as f64;
    }
    let all = shape["b"] * pages_of_one(shape);
    (match (shape.has("contiguous"), shape.has("append")) {
        (true, _) => draw.index,
        (false, false) => dealt(draw.index, all),
        (false, true) => all - 1 - dealt(all - 1 - draw.index, all),
    }) as f64
}

/// Page of an entry of a table of `all` pages. A multiplication modulo their number permutes them. Each page occurs once: the
/// factor is a prime above that number, so they have no common divisor.
pub(super) fn dealt(entry: u64, all: u64) -> u64 {
    const FACTOR: u128 = 11_400_714_819_323_198_549;
    (u128::from(entry) * FACTOR % u128::from(all)) as u64
}

/// Number of tokens of sequence `i`. It is independent of the seed, so that costs are known.
fn length(shape: &Shape, i: u64) -> u64 {
    match (shape.has("ragged"), shape["pre"]) {
        (true, pre) if pre < shape["t"] => pre + ragged(i, shape["b"], shape["t"] - pre),
        _ => shape["t"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, t, d) = (p["b"], p["h"], p["t"], p["d"]);
    let cache = [pages(p), p["p"], p["kv"], d];
    let parts = split::most_parts(p);
    let cached = if append::asked(p) { BufferSpec::in_out } else { BufferSpec::input };
    let mut buffers = vec![
        BufferSpec::input("q", Elem::Real, &[b, h, d], normal),
        cached("k", Elem::Real, &cache, normal),
        cached("v", Elem::Real, &cache, normal),
        BufferSpec::input("table", Elem::U32, &[b, pages_of_one(&p.shape)], page),
        BufferSpec::input("lengths", Elem::U32, &[b], |shape, draw| length(shape, draw.index) as f64),
    ];
    if append::asked(p) {
        buffers.extend(append::inputs(p));
    }
    buffers.extend([
        BufferSpec::output("out", Elem::Real, &[b, h, d]),
        // Of `naive`.
        BufferSpec::scratch("scores", Elem::F32, &[b, h, t]),
        // Of `split`: sums of values, and the largest score with the sum of weights.
        BufferSpec::scratch("parts", Elem::F32, &[b, h, parts, d]),
        BufferSpec::scratch("numbers", Elem::F32, &[b, h, parts, 2]),
    ]);
    buffers
}

/// Index of `out` among the checked buffers: after the caches, if these are outputs.
fn result(p: &Problem) -> usize {
    if append::asked(p) { 2 } else { 0 }
}

/// Number of tokens of all sequences.
fn tokens(p: &Problem) -> u64 {
    (0..p["b"]).map(|i| length(&p.shape, i)).sum()
}

/// Number of tokens in memory: those of a prefix once.
fn cached(p: &Problem) -> u64 {
    tokens(p) - (p["b"] - 1) * p["pre"]
}

/// Operations of all sequences.
fn operations(p: &Problem) -> u64 {
    4 * p["h"] * p["d"] * tokens(p)
}

/// Bytes of the queries, and of all reads.
fn bytes(p: &Problem) -> (u64, u64) {
    let queries = p["b"] * p["h"] * p["d"] * element(p);
    let entries = |i| if p.shape.has("contiguous") { 0 } else { length(&p.shape, i).div_ceil(p["p"]) };
    let looked_up = 4 * (0..p["b"]).map(|i| 1 + entries(i)).sum::<u64>();
    (queries, queries + 2 * cached(p) * p["kv"] * p["d"] * element(p) + looked_up)
}

/// Bytes of an element.
fn element(p: &Problem) -> u64 {
    Elem::Real.storage(p.dtype).bytes()
}

/// Cost without the appending.
fn attending(p: &Problem) -> Cost {
    let (queries, read) = bytes(p);
    Cost::new(operations(p), read, queries)
}

fn cost(p: &Problem) -> Cost {
    let Cost { flops, read, written } = attending(p);
    Cost { flops, read, written: Bytes(written.0 + append::bytes(p)) }
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    let scores = 2f64.powi(-24) * (p["d"] as f64).sqrt() * 16.0;
    let mixed = Tolerance {
        abs: 3.47 * (2.0 * u + scores) + 2f64.powi(-24) * (p["t"] as f64).sqrt(),
        rel: 2.0 * u,
        reason: "as attention's: a convex mix of values of at most 3.47, rounded once; scores carry f32 rounding into the \
                 exponent",
    };
    of_result(p, output, mixed)
}

/// Tolerance of an output: `tolerance` for `out`, exact for the caches, which are unchanged or copies.
fn of_result(p: &Problem, output: usize, tolerance: Tolerance) -> Tolerance {
    if output == result(p) { tolerance } else { exact(p, output) }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let caches = Appended::new(p, inputs);
    Box::new(move |output, row, out| match output == result(p) {
        true => reference(p, inputs, &caches, row, out),
        false => {
            let (place, key_head) = (row / p["kv"], row % p["kv"]);
            out.iter_mut().zip(0..).for_each(|(out, x)| *out = caches.at([K, V][output], place, key_head, x));
        }
    })
}

fn reference(p: &Problem, inputs: &Inputs, caches: &Appended, row: u64, out: &mut [f64]) {
    let d = p["d"];
    let (sequence, head) = (row / p["h"], row % p["h"]);
    let key_head = head / (p["h"] / p["kv"]);
    let scale = 1.0 / (d as f64).sqrt();
    let mut scores = Vec::new();
    for j in 0..inputs.at(LENGTHS, sequence) as u64 {
        let place = caches.place(sequence, j);
        let dot: f64 = (0..d).map(|x| inputs.at(Q, row * d + x) * caches.at(K, place, key_head, x)).sum();
        scores.push(dot * scale);
    }
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, maximum);
    let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
    out.fill(0.0);
    for (j, score) in scores.iter().enumerate() {
        let weight = (score - max).exp() / sum;
        let place = caches.place(sequence, j as u64);
        for x in 0..d {
            out[x as usize] += weight * caches.at(V, place, key_head, x);
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (d, h, kv, size) = (p["d"] as usize, p["h"] as usize, p["kv"] as usize, p["p"] as usize);
    let (table, lengths) = (inputs[TABLE].u32(), inputs[LENGTHS].u32());
    let (entries, prefix) = (pages_of_one(&p.shape) as usize, p["pre"] as usize);
    let place = |sequence: usize, token: usize| {
        let entry = if token < prefix { 0 } else { sequence * entries } + token / size;
        let page = if p.shape.has("contiguous") { entry } else { table[entry] as usize };
        page * size + token % size
    };
    let (result, caches) = outputs.split_last_mut().expect("the last of them is `out`");
    append::host(p, inputs, caches, place);
    let q = inputs[Q].f32();
    let (k, v) = match caches {
        [k, v] => (&k[..], &v[..]),
        _ => (inputs[K].f32(), inputs[V].f32()),
    };
    let scale = 1.0 / (d as f32).sqrt();
    result.par_chunks_mut(d).enumerate().for_each_init(Vec::new, |scores: &mut Vec<f32>, (row, out)| {
        let (sequence, key_head) = (row / h, row % h / (h / kv));
        let length = lengths[sequence] as usize;
        let of_token = |j: usize| (place(sequence, j) * kv + key_head) * d;
        let query = &q[row * d..][..d];
        scores.clear();
        scores.extend((0..length).map(|j| vector::dot(query, &k[of_token(j)..][..d]) * scale));
        let max = vector::largest(scores);
        let sum = vector::weigh(scores, max);
        out.fill(0.0);
        for (j, weight) in scores.iter().enumerate() {
            vector::add(out, *weight, &v[of_token(j)..][..d]);
        }
        // A sequence of no tokens has no weights.
        if length > 0 {
            vector::divide(out, sum);
        }
    });
}

/// Stage with the constants of the cache layout.
fn stage(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    Stage::kernel(entry, text, entry)
        .consts(
            &[("SEQUENCES", "b"), ("HEADS", "h"), ("KEY_HEADS", "kv"), ("D", "d"), ("PAGE", "p")]
                .map(|(name, key)| (name, p[key] as u32)),
        )
        .consts(&[("PAGES", pages_of_one(&p.shape) as u32)])
        .consts(&[("CONTIGUOUS", p.shape.has("contiguous"))])
        .consts(&prefix::layout(p))
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    const THREADS: u32 = 128;
    let attend = stage(p, "attention_decode/naive", "attention_decode_naive")
        .consts(&[("APPENDS", false)])
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
        .cost(attending(p));
    after_appending(p, [attend])
}

/// Program with the appending stage, if the shape has one, before the given stages.
fn after_appending(p: &Problem, stages: impl IntoIterator<Item = Stage>) -> Program {
    Program { stages: append::asked(p).then(|| append::apart(p)).into_iter().chain(stages).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        let case = parse_case(&format!("attention_decode/fwd/{shape}/f32/naive")).expect("valid");
        case.problem
    }

    #[test]
    fn each_page_is_dealt_out_once_and_neighbours_lie_apart() {
        for shape in ["b1,h1,t1,d1", "b3,h1,t100,d1,p7", "b32,h1,t4096,d1", "b32,h1,t4096,d1,append"] {
            let p = problem(shape);
            let inputs = p.inputs(1);
            let dealt: Vec<u64> = (0..pages(&p)).map(|i| inputs.at(TABLE, i) as u64).collect();
            assert!(!append::asked(&p) || dealt.last() == Some(&(pages(&p) - 1)), "{shape}");
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
