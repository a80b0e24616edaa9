//! Step between a projection and attention over a paged cache: rotary position embedding of queries and keys, and storage of keys
//! and values.
//!
//! Formulas: [`super::rope`] has the rotation of halves, [`super::quantize`] the codes, [`super::attention_decode`] the pages.
//!
//! `qkv` is `[b, s, h + 2·kv, d]`: the heads of queries, keys and values of `s` new tokens of each sequence. Sequence `i` has
//! `length[i]` tokens afterwards. Its new tokens have the positions from `length[i] − s` to `length[i] − 1`. Tokens before position
//! zero are padding: their queries are zero, and nothing of them is stored. `angles` is `[t, d]`, f32: the `d/2` cosines and the
//! `d/2` sines of each position.
//!
//! The cache is `[2, pages, p, kv, d]`, keys before values. Position `j` of sequence `i` is in page `table[i, j / p]` at `j % p`.
//! With `int8` or `e4m3` the cache has codes, four in a word of 32 bits. Then `scales`, `[2, pages, p, kv]`, has a power of two for
//! each token and head. Codes come from rotated keys in f32, which are not rounded to the element type. The whole cache and all
//! scales are outputs. Every execution writes the same values to the same positions.
//!
//! Seeded elements are odd multiples of 2⁻⁷, and cosines and sines are multiples of 2⁻¹¹. The products of a rotation have at most
//! 20 bits, so f32 has them and their sum without rounding. Codes and scales are then equal bit by bit in any order of operations.
//!
//! Operations: three an element of queries and keys; a maximum and a product an element with a code. Bytes: new tokens, angles of
//! their positions, look-ups, queries, and the stored rows.

use parallax_ir::stress::{exact, smallest_normal};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Inputs, OfNan, OpSpec, Precondition, Problem, Reference, Rows, Shape, Tolerance,
    Tunable, Variant, Workload, indexable,
};
use parallax_schema::case::{Allowed, Cost, DType, Direction, Preset, Rate};

use super::attention::ragged;
use super::attention_decode::dealt;
use super::rope::cosine_and_sine;
use crate::codes::{Format, PACKED};

mod host;
mod reference;
mod stages;
mod stress;

const QKV: usize = 0;
const ANGLES: usize = 1;
const TABLE: usize = 2;
const LENGTHS: usize = 3;
const CACHE: usize = 4;
const SCALES: usize = 5;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "rotary embedding of new queries and keys, and storage of keys and values in a paged cache",
        axes: const {
            &[
                Axis::extent("b", "sequences"),
                Axis::optional("s", "new tokens of a sequence", 1, 1),
                Axis::extent("h", "heads"),
                Axis::same_as("kv", "key-value heads, a divisor of h", "h"),
                Axis::same_as("t", "tokens, of the longest sequence", "s"),
                Axis::extent("d", "head dim"),
                Axis::optional("p", "tokens of a page", 1, 16),
                Axis::word("lengths", "lengths of sequences", &["", "ragged"]),
                Axis::word("storage", "codes of 8 bits in the cache", &["", "int8", "e4m3"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![form()],
    }
}

/// Tunable of `fused`.
const EACH: Tunable = Tunable {
    name: "EACH",
    about: "heads of a thread, which share cosines and sines",
    allowed: Allowed::OneOf(&[1, 2, 4, 8]),
    default: 2,
};

fn form() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, 3.5),
        Reference::new(|p, output| if name(p, output) == "scales" { p["kv"] * 8 * p["d"] } else { 8 * p["d"] }, rows),
        OfNan::Kept,
    )
    .headline("b64,h32,kv8,t64,d128,ragged")
    .shapes(shapes)
    // One pair; pages of one token; odd halves; a half of more vectors than a warp has threads; rows of all three storages; padding
    // before short sequences; teams that hold heads of all kinds, and a last one with fewer heads.
    .awkward(&[
        "b1,h1,d8,int8",
        "b1,h1,d2",
        "b3,h2,t5,d6,p2,ragged",
        "b2,s5,h3,t33,d136,p1,e4m3",
        "b2,s3,h6,kv2,t67,d72,ragged",
        "b3,s4,h5,kv1,t30,d64,p7,ragged,int8",
        "b1,s37,h4,kv2,d128,e4m3",
        "b5,h24,kv2,t517,d16,p32,ragged,int8",
        "b2,s7,h7,d258,p3",
        "b1,s3,h1,d1024,int8",
        "b2,s9,h2,kv1,t12,d40,p4,ragged,e4m3",
        "b9,s2,h8,kv4,t19,d128,p5,ragged",
    ])
    .host(host::host)
    .variants(vec![
        Variant::kernel("naive", "a head of a token per thread, one element after the other", stages::naive),
        Variant::kernel(
            "separate",
            "a stage for rotations, one for codes, and one that copies rows to their pages",
            stages::separate,
        )
        .available(stages::separate_available),
        Variant::kernel(
            "fused",
            "one stage: neighbouring threads hold both halves of a head as vectors, rotate them, find the scale, and store the row \
             in its page",
            stages::fused,
        )
        .available(stages::fused_available)
        .tunables(&[EACH]),
    ])
    .fallback(&["fused", "separate", "naive"])
    .preconditions(vec![
        Precondition::Below { buffer: "table", bound: pages },
        Precondition::Distinct { buffer: "table", when: |_| true },
        Precondition::Below { buffer: "lengths", bound: |p| p["t"] + 1 },
    ])
    .stress(stress::inputs())
}

fn validate(shape: &Shape) -> Result<(), String> {
    let [b, s, h, kv, t, d, p] = ["b", "s", "h", "kv", "t", "d", "p"].map(|axis| shape[axis]);
    if !h.is_multiple_of(kv) {
        return Err(format!("{h} heads cannot share {kv} heads of keys and values evenly"));
    }
    if d % 2 == 1 {
        return Err(format!("elements are rotated in pairs: head_dim must be even, not {d}"));
    }
    if t < s {
        return Err(format!("{s} new tokens are part of a sequence: t must be at least as much, not {t}"));
    }
    if (shape.has("int8") || shape.has("e4m3")) && !d.is_multiple_of(2 * PACKED) {
        return Err(format!(
            "a word has the codes of {PACKED} neighbours in a half: d must be a multiple of 8, not {d}"
        ));
    }
    [b * s * (h + 2 * kv) * d, 2 * b * t.div_ceil(p) * p * kv * d, t * d].into_iter().try_for_each(indexable)
}

/// Heads of Llama 3 8B: steps of many sequences with a new token each, and whole prompts.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "b256,h32,kv8,t256,d128,ragged",
            "b256,h32,kv8,t256,d128,ragged,e4m3",
            "b1,s8192,h32,kv8,d128",
            "b1,s8192,h32,kv8,d128,e4m3",
        ],
        _ => &[
            "b64,h32,kv8,t64,d128,ragged",
            "b256,h32,kv8,t256,d128,ragged",
            "b256,h32,kv8,t256,d128,ragged,e4m3",
            "b256,h32,kv8,t256,d128,ragged,int8",
            "b1,s8192,h32,kv8,d128",
            "b1,s8192,h32,kv8,d128,e4m3",
            "b1,s8192,h32,kv8,d128,int8",
            "b16,s512,h32,kv8,t2048,d128,ragged,e4m3",
        ],
    }
}

/// Returns whether the cache has codes.
fn coded(p: &Problem) -> bool {
    p.shape.has("int8") || p.shape.has("e4m3")
}

/// Number of pages of the longest sequence.
fn pages_of_one(shape: &Shape) -> u64 {
    shape["t"].div_ceil(shape["p"])
}

/// Number of pages of the cache.
fn pages(p: &Problem) -> u64 {
    p["b"] * pages_of_one(&p.shape)
}

/// Number of new tokens, with padding.
fn tokens(p: &Problem) -> u64 {
    p["b"] * p["s"]
}

/// Number of heads of a token: of queries, keys and values.
fn token_heads(p: &Problem) -> u64 {
    p["h"] + 2 * p["kv"]
}

/// Number of tokens of sequence `i` afterwards. It is independent of the seed, so that costs are known.
fn length(shape: &Shape, i: u64) -> u64 {
    if shape.has("ragged") { ragged(i, shape["b"], shape["t"]) } else { shape["t"] }
}

/// Odd multiple of 2⁻⁷ with a nearly normal distribution, up to 3.48.
fn element(_: &Shape, draw: Draw) -> f64 {
    (2.0 * (64.0 * draw.normal()).floor() + 1.0) / 128.0
}

/// Cosine or sine, a multiple of 2⁻¹¹.
fn angle(shape: &Shape, draw: Draw) -> f64 {
    let (d, half) = (shape["d"], shape["d"] / 2);
    let (position, column) = (draw.index / d, draw.index % d);
    let both = cosine_and_sine(position, column % half, half);
    (2048.0 * both[(column / half) as usize]).round_ties_even() / 2048.0
}

/// Page of an entry of the table. The last entry names the last page: every check compares the last row of the cache.
fn page(shape: &Shape, draw: Draw) -> f64 {
    let all = shape["b"] * pages_of_one(shape);
    (all - 1 - dealt(all - 1 - draw.index, all)) as f64
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let [b, s, h, kv, t, d] = ["b", "s", "h", "kv", "t", "d"].map(|axis| p[axis]);
    let mut buffers = vec![
        BufferSpec::input("qkv", Elem::Real, &[b, s, token_heads(p), d], element),
        BufferSpec::input("angles", Elem::F32, &[t, d], angle),
        BufferSpec::input("table", Elem::U32, &[b, pages_of_one(&p.shape)], page),
        BufferSpec::input("lengths", Elem::U32, &[b], |shape, draw| length(shape, draw.index) as f64),
    ];
    let rows = [2, pages(p), p["p"], kv];
    if coded(p) {
        let words = [&rows[..], &[d / PACKED]].concat();
        buffers.extend([
            BufferSpec::in_out("cache", Elem::U32, &words, |_, draw| (draw.bits() >> 32) as f64),
            BufferSpec::in_out("scales", Elem::F32, &rows, |_, draw| 1.0 + draw.uniform()),
        ]);
    } else {
        buffers.push(BufferSpec::in_out("cache", Elem::Real, &[&rows[..], &[d]].concat(), element));
    }
    buffers.push(BufferSpec::output("q", Elem::Real, &[b, s, h, d]));
    // Of `separate`: keys after the rotation, and the codes of keys and values with their scales.
    let rotated = if coded(p) { Elem::F32 } else { Elem::Real };
    buffers.push(BufferSpec::scratch("rotated", rotated, &[b, s, kv, d]));
    if coded(p) {
        buffers.extend([
            BufferSpec::scratch("codes", Elem::U32, &[2, b, s, kv, d / PACKED]),
            BufferSpec::scratch("code_scales", Elem::F32, &[2, b, s, kv]),
        ]);
    }
    buffers
}

/// Name of a checked buffer by its index.
fn name(p: &Problem, output: usize) -> &'static str {
    match (output, coded(p)) {
        (0, _) => "cache",
        (1, true) => "scales",
        _ => "q",
    }
}

/// Bytes of an element.
fn element_bytes(p: &Problem) -> u64 {
    Elem::Real.storage(p.dtype).bytes()
}

/// Bytes of a stored row: the elements, or the codes and their scale.
fn row_bytes(p: &Problem) -> u64 {
    if coded(p) { p["d"] + 4 } else { p["d"] * element_bytes(p) }
}

/// Counts that follow from the lengths.
struct Counts {
    /// New tokens that are not padding.
    tokens: u64,
    /// Positions of at least one of them.
    positions: u64,
    /// Entries of the table that they look up.
    entries: u64,
}

impl Counts {
    fn of(p: &Problem) -> Counts {
        let (s, page) = (p["s"], p["p"]);
        let mut ranges: Vec<(u64, u64)> =
            (0..p["b"]).map(|i| length(&p.shape, i)).map(|length| (length.saturating_sub(s), length)).collect();
        let tokens = ranges.iter().map(|(start, end)| end - start).sum();
        let entries = ranges.iter().map(|(start, end)| end.div_ceil(page) - start / page).sum();
        ranges.sort_unstable();
        let (mut positions, mut next) = (0, 0);
        for (start, end) in ranges {
            positions += end.saturating_sub(start.max(next));
            next = next.max(end);
        }
        Counts { tokens, positions, entries }
    }
}

fn cost(p: &Problem) -> Cost {
    let [b, h, kv, d] = ["b", "h", "kv", "d"].map(|axis| p[axis]);
    let Counts { tokens: new, positions, entries } = Counts::of(p);
    let of_codes = if coded(p) { 4 * new * kv * d } else { 0 };
    Cost::new(
        3 * new * (h + kv) * d + of_codes,
        new * token_heads(p) * d * element_bytes(p) + 4 * (positions * d + entries + b),
        tokens(p) * h * d * element_bytes(p) + 2 * new * kv * row_bytes(p),
    )
}

/// Tolerance for elements of at most `largest`.
fn tolerance(p: &Problem, output: usize, largest: f64) -> Tolerance {
    if coded(p) && name(p, output) != "q" {
        return exact(p, output);
    }
    Tolerance {
        abs: 4.0 * 2f64.powi(-24) * largest + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "two products and their sum in f32, each of at most the largest element; the result is rounded once",
    }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    reference::rows(p, inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str, dtype: &str) -> Problem {
        parse_case(&format!("rope_append/fwd/{shape}/{dtype}/naive")).expect("valid").problem
    }

    #[test]
    fn rotations_of_seeded_inputs_are_exact_in_f32() {
        for dtype in ["f32", "f16", "bf16"] {
            let p = problem("b2,s40,h2,kv1,t600,d16,e4m3", dtype);
            let inputs = p.inputs(3);
            let (mut nonzero, angles) = (true, |i| inputs.at(ANGLES, i));
            for i in 0..p.buffers()[QKV].len {
                nonzero &= inputs.at(QKV, i) != 0.0;
                let (x, y) = (inputs.at(QKV, i), inputs.at(QKV, (7 * i + 3) % 1000));
                let (cosine, sine) = (angles(i * 16 % 9600), angles((i * 16 + 8) % 9600));
                let exact = x * cosine - y * sine;
                let separately = (x as f32 * cosine as f32) - (y as f32 * sine as f32);
                let contracted = (x as f32).mul_add(cosine as f32, -(y as f32 * sine as f32));
                assert_eq!((f64::from(separately), f64::from(contracted)), (exact, exact));
            }
            assert!(nonzero, "a zero has a sign that operations may change");
        }
    }

    #[test]
    fn costs_count_real_tokens_and_distinct_positions() {
        let p = problem("b1,s8,h4,kv2,d16,p4", "bf16");
        // Eight tokens of eight heads, as many positions, two pages and a length.
        assert_eq!(p.cost().read.0, 8 * 8 * 16 * 2 + 4 * (8 * 16 + 2 + 1));
        assert_eq!(p.cost().written.0, 8 * 4 * 16 * 2 + 8 * 2 * 2 * 16 * 2);
        let p = problem("b4,s3,h1,t4,d8,p2,ragged,int8", "f32");
        let lengths: Vec<u64> = (0..4).map(|i| length(&p.shape, i)).collect();
        assert_eq!(lengths, [4, 3, 2, 1]);
        let Counts { tokens, positions, entries } = Counts::of(&p);
        assert_eq!((tokens, positions, entries), (3 + 3 + 2 + 1, 4, 2 + 2 + 1 + 1));
        assert_eq!(p.cost().written.0, 12 * 8 * 4 + 9 * 2 * 12);
    }

    #[test]
    fn shapes_that_kernels_cannot_store_are_refused() {
        for (shape, why) in [
            ("b1,h3,kv2,d8", "evenly"),
            ("b1,h1,d7", "even"),
            ("b1,s4,h1,t3,d8", "at least"),
            ("b1,h1,d12,int8", "multiple of 8"),
        ] {
            let refused = parse_case(&format!("rope_append/fwd/{shape}/f32/naive")).expect_err("refused").to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
