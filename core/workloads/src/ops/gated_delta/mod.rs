//! Gated delta rule of linear attention over sequences, from a state of zeros, token by token.
//!
//! Formula: Yang, Kautz and Hatamizadeh, "Gated Delta Networks" (2024), in the order of flash-linear-attention. For a head, with
//! the decay `αₜ = e^gₜ`: `Sₜ = αₜ · (Sₜ₋₁ − βₜ · kₜ · (kₜᵀSₜ₋₁)) + βₜ · kₜ · vₜᵀ`, and `outₜ = Sₜᵀqₜ / √dk`. See
//! `crate::delta_rule`.
//!
//! `q` and `k` are `[b, s, h, dk]`, `v` and `out` are `[b, s, h, dv]`, and `beta` is `[b, s, h]`. `g`, `[b, s, h]`, is f32 for each
//! element type: models sum it up. Keys have unit length. The states after the last tokens, `[b, h, dk, dv]` in f32, are results
//! too: generation begins with them.
//!
//! Operations: seven an element of the state and four a result, for each token. That is the recurrence. Chunks need about as many,
//! as GEMMs. Bytes: each input read once, results and last states written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage,
    StressInput, Tolerance, Variant, Workload, indexable, normal, spread,
};
use parallax_schema::case::{DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::delta_rule::{HostToken, Ranges, decay, key, read, scale, strength, take_in, take_in_on_host};

mod chunked;
mod mma;
mod recurrent;

const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const G: usize = 3;
const BETA: usize = 4;

/// Place of the last states among the outputs.
const STATES: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "gated delta rule of linear attention over sequences (Gated DeltaNet, Qwen3-Next)",
        axes: const {
            &[
                Axis::extent("b", "sequences"),
                Axis::extent("s", "tokens of a sequence"),
                Axis::extent("h", "heads"),
                Axis::extent("dk", "elements of a key: rows of a state"),
                Axis::same_as("dv", "elements of a value: columns of a state", "dk"),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Flops,
            buffers,
            |p| p.each_once(p["b"] * p["s"] * p["h"] * p["dv"] * (7 * p["dk"] + 4)),
            |p, output| tolerance(p, output, Ranges::USUAL),
            Reference::new(
                |p, _| 5 * p["s"] * p["dk"] * p["dv"],
                |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("b1,s1024,h16,dk128")
        .shapes(shapes)
        // One element; a part of a chunk; a chunk and one token; a whole chunk; odd rows and columns; more rows than columns;
        // several chunks; whole tiles of tensor cores.
        .awkward(&[
            "b1,s1,h1,dk1",
            "b2,s3,h3,dk5,dv7",
            "b1,s65,h2,dk9,dv16",
            "b2,s64,h2,dk33,dv20",
            "b1,s130,h3,dk8,dv65",
            "b1,s67,h2,dk132,dv12",
            "b2,s70,h4,dk64",
            "b1,s200,h2,dk64,dv32",
            "b1,s129,h2,dk128,dv64",
        ])
        .huge(&["b8,s32769,h128,dk64"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one column of a state per thread, token by token, in device memory", naive),
            Variant::kernel(
                "recurrent",
                "the state in registers: neighbouring threads share a column, and a workgroup has some columns of a head, with tokens in \
                 shared memory",
                recurrent::program,
            )
            .available(recurrent::available),
            Variant::kernel(
                "chunked",
                "chunks of 64 tokens: the triangular systems of all chunks at once, then results and states chunk by chunk, as tiled GEMMs \
                 in f32 with the state in shared memory",
                chunked::program,
            ),
            Variant::kernel(
                "chunked_mma",
                "the same on tensor cores by warp-wide instructions: a block has some columns of a head's state in registers",
                mma::program,
            )
            .only_in(&[Dialect::Cuda])
            .available(mma::available)
            .tunables(&[mma::COLUMNS])
            .not_on(mma::NOT_ON),
        ])
        .fallback(&["chunked_mma", "recurrent", "chunked", "naive"])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let tokens = shape["b"] * shape["s"] * shape["h"];
    let states = shape["b"] * shape["h"] * shape["dk"] * shape["dv"];
    [tokens * shape["dk"], tokens * shape["dv"], states, chunked::factors(shape)].into_iter().try_for_each(indexable)
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,s1024,h16,dk128", "b1,s4096,h16,dk128", "b8,s2048,h32,dk128"],
        _ => &[
            "b1,s1024,h16,dk128",
            "b1,s4096,h16,dk128",
            "b1,s16384,h32,dk128",
            "b8,s2048,h32,dk128",
            "b4,s4096,h16,dk64,dv128",
            "b64,s64,h32,dk128",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, s, h, dk, dv) = (p["b"], p["s"], p["h"], p["dk"], p["dv"]);
    let mut buffers = vec![
        BufferSpec::input("q", Elem::Real, &[b, s, h, dk], normal),
        BufferSpec::input("k", Elem::Real, &[b, s, h, dk], key),
        BufferSpec::input("v", Elem::Real, &[b, s, h, dv], normal),
        BufferSpec::input("g", Elem::F32, &[b, s, h], decay),
        BufferSpec::input("beta", Elem::Real, &[b, s, h], strength),
        BufferSpec::output("out", Elem::Real, &[b, s, h, dv]),
        BufferSpec::output("state", Elem::F32, &[b, h, dk, dv]),
    ];
    buffers.extend(chunked::scratch(p));
    buffers
}

fn tolerance(p: &Problem, output: usize, ranges: Ranges) -> Tolerance {
    match output {
        STATES => ranges.states(p, p["s"]),
        _ => ranges.results(p, p["s"]),
    }
}

/// Tolerance for the usual ranges.
fn usual(p: &Problem, output: usize) -> Tolerance {
    tolerance(p, output, Ranges::USUAL)
}

fn stress_inputs() -> Vec<StressInput> {
    const LARGE: f64 = 1000.0;
    /// Logarithm of a decay whose exponential underflows.
    const STRONG: f64 = -1e6;
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set(
            "nan",
            "NaN in the first column of each third head in the middle of a sequence: so are its results from there on, and its state",
            |_| vec![("v", nan_from_the_middle)],
            usual,
        ),
        set("zeros", "no values: no state, and no result", |_| vec![("v", zero)], exact),
        set("no strength", "strengths of zero: no state, and no result", |_| vec![("beta", zero)], exact),
        set("no decay", "decays of one: only keys change the state", |_| vec![("g", zero)], usual),
        set(
            "strong decay",
            "decays of e^-1000000, which are zero: each state is its last token alone",
            |_| vec![("g", |_, _| STRONG)],
            usual,
        ),
        set(
            "forgetting",
            "a decay of zero at each fifth token: states last until the next such token",
            |_| vec![("g", |shape, draw| if draw.index / shape["h"] % 5 == 0 { STRONG } else { decay(shape, draw) })],
            // A chunk has at most thirteen such tokens, whose exponents are limited.
            |p, output| tolerance(p, output, Ranges { exponents: 13.0 * 64.0 + 32.0, ..Ranges::USUAL }),
        ),
        set(
            "full strength",
            "strengths and decays of one: each token replaces the value of its key",
            |_| vec![("beta", one), ("g", zero)],
            |p, output| tolerance(p, output, Ranges { deviation: 1.5, ..Ranges::USUAL }),
        ),
        set(
            "one key",
            "the same key at each token with strengths and decays of one: the state has the last value alone",
            |_| vec![("k", |shape, draw| key(shape, draw.of(draw.index % shape["dk"]))), ("beta", one), ("g", zero)],
            |p, output| tolerance(p, output, Ranges { deviation: 1.5, ..Ranges::USUAL }),
        ),
        set(
            "weak",
            "strengths and logarithms of decays near zero: states hardly change",
            |_| vec![("beta", |_, draw| 1e-3 * draw.uniform()), ("g", |_, draw| -1e-6 * draw.uniform())],
            usual,
        ),
        set(
            "large",
            "values of about 1000: states and results are as large",
            |_| vec![("v", |_, draw| LARGE * draw.normal())],
            |p, output| tolerance(p, output, Ranges { deviation: LARGE, ..Ranges::USUAL }),
        ),
    ]
}

/// Value with NaN in the first column of each third head, at the token in the middle of each sequence.
fn nan_from_the_middle(shape: &Shape, draw: Draw) -> f64 {
    let (column, head) = (draw.index % shape["dv"], draw.index / shape["dv"] % shape["h"]);
    let token = draw.index / (shape["dv"] * shape["h"]) % shape["s"];
    if column == 0 && head.is_multiple_of(3) && token == shape["s"] / 2 { f64::NAN } else { draw.normal() }
}

/// A head's state after some tokens of a sequence, with its columns one after the other.
fn state_after(p: &Problem, inputs: &Inputs, [sequence, head]: [u64; 2], tokens: u64) -> Vec<f64> {
    let (s, h, dk, dv) = (p["s"], p["h"], p["dk"], p["dv"]);
    let mut state = vec![0.0; (dk * dv) as usize];
    for token in sequence * s..sequence * s + tokens {
        let row = token * h + head;
        let (key, values) = (inputs.values(K, row * dk..(row + 1) * dk), inputs.values(V, row * dv..(row + 1) * dv));
        take_in(&mut state, &key, &values, inputs.at(G, row), inputs.at(BETA, row));
    }
    state
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let (s, h, dk) = (p["s"], p["h"], p["dk"]);
    if output == STATES {
        let (of_head, row) = (row / dk, row % dk);
        let state = state_after(p, inputs, [of_head / h, of_head % h], s);
        out.iter_mut().zip(state.chunks(dk as usize)).for_each(|(out, column)| *out = column[row as usize]);
        return;
    }
    let (token, head) = (row / h, row % h);
    let state = state_after(p, inputs, [token / s, head], token % s + 1);
    let query = inputs.values(Q, row * dk..(row + 1) * dk);
    read(p, &state, &query, out);
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [s, h, dk, dv] = ["s", "h", "dk", "dv"].map(|key| p[key] as usize);
    let [q, k, v, g, beta] = [Q, K, V, G, BETA].map(|buffer| inputs[buffer].f32());
    let [out, states] = outputs else { unreachable!("two outputs") };
    let scale = scale(p) as f32;
    // Results of each head of a sequence, which lie apart in memory.
    let of_head = |(at, state): (usize, &mut [f32])| {
        let (mut results, mut delta) = (vec![0.0; s * dv], vec![0.0; dv]);
        state.fill(0.0);
        for (token, result) in (at / h * s..).zip(results.chunks_exact_mut(dv)) {
            let row = token * h + at % h;
            let [query, key] = [q, k].map(|rows| &rows[row * dk..][..dk]);
            let value = &v[row * dv..][..dv];
            let token = HostToken { query, key, value, decay: g[row], strength: beta[row], scale };
            take_in_on_host(state, &token, &mut delta, result);
        }
        results
    };
    let results: Vec<Vec<f32>> = states.par_chunks_mut(dk * dv).enumerate().map(of_head).collect();
    out.par_chunks_mut(dv).enumerate().for_each(|(row, out)| {
        let (token, head) = (row / h, row % h);
        out.copy_from_slice(&results[token / s * h + head][token % s * dv..][..dv]);
    });
}

/// Stage with the extents as constants.
fn stage(p: &Problem, entry: &'static str, text: &'static str) -> Stage {
    let extents = [("SEQUENCES", "b"), ("S", "s"), ("HEADS", "h"), ("DK", "dk"), ("DV", "dv")];
    Stage::kernel(entry, text, entry)
        .consts(&extents.map(|(name, key)| (name, p[key] as u32)))
        .consts(&[("SCALE", scale(p) as f32)])
}

/// Stage that computes all results from all inputs.
fn whole(p: &Problem, entry: &'static str, text: &'static str, threads: u32) -> Stage {
    stage(p, entry, text)
        .consts(&[("THREADS", threads)])
        .args([("q", Read), ("k", Read), ("v", Read), ("g", Read), ("beta", Read), ("out", Write), ("state", Write)])
        .threads([threads, 1, 1])
        .cost(p.cost())
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    const THREADS: u32 = 64;
    let columns = p["b"] * p["h"] * p["dv"];
    whole(p, "gated_delta_naive", "gated_delta/naive", THREADS)
        .grid(spread(columns.div_ceil(u64::from(THREADS))))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("gated_delta/fwd/{shape}/f32/naive")).expect("valid").problem
    }

    #[test]
    fn states_are_counted_in_32_bits() {
        let refused = parse_case("gated_delta/fwd/b64,s65536,h128,dk128/f32/naive").expect_err("refused").to_string();
        assert!(refused.contains("32 bits"), "{refused}");
    }

    #[test]
    fn the_first_result_is_its_value_by_strength_and_agreement_of_query_and_key() {
        let p = problem("b2,s3,h2,dk4,dv3");
        let inputs = p.inputs(7);
        for (row, sequence_first) in [(1, true), (7, true), (3, false)] {
            let mut out = [0.0; 3];
            reference(&p, &inputs, 0, row, &mut out);
            let agreement: f64 = (row * 4..row * 4 + 4).map(|at| inputs.at(Q, at) * inputs.at(K, at)).sum();
            for (column, out) in (0..).zip(out) {
                let want = agreement * inputs.at(BETA, row) * inputs.at(V, row * 3 + column) / 2.0;
                assert_eq!((out - want).abs() < 1e-12, sequence_first, "{row} {column}: {out}, not {want}");
            }
        }
    }

    #[test]
    fn last_states_are_those_after_all_tokens() {
        let p = problem("b1,s4,h2,dk3,dv2");
        let inputs = p.inputs(3);
        let mut row = [0.0; 2];
        reference(&p, &inputs, STATES, 4, &mut row);
        let state = state_after(&p, &inputs, [0, 1], 4);
        assert_eq!([state[1], state[4]], row);
        assert_ne!(state_after(&p, &inputs, [0, 1], 3), state);
    }

    #[test]
    fn host_code_agrees_with_the_reference() {
        let p = problem("b2,s5,h2,dk3,dv4");
        let inputs = p.inputs(5);
        let given: Vec<HostBuffer> = (0..=BETA).map(|buffer| inputs.host(buffer).expect("memory")).collect();
        let mut outputs = vec![vec![0.0; 2 * 5 * 2 * 4], vec![0.0; 2 * 2 * 3 * 4]];
        host(&p, &given, &mut outputs);
        for (output, found) in outputs.iter().enumerate() {
            for (row, found) in (0..).zip(found.chunks(4)) {
                let mut want = [0.0; 4];
                reference(&p, &inputs, output, row, &mut want);
                assert!(found.iter().zip(want).all(|(found, want)| (f64::from(*found) - want).abs() < 1e-5), "{row}");
            }
        }
    }
}
