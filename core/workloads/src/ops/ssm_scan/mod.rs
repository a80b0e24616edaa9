//! Selective state-space model over sequences: the recurrence of [`super::ssm_update`] from a state of zeros, token by token.
//!
//! Formula: Dao and Gu, "Transformers are SSMs" (2024). For a head with rate `A`, skip `D` and bias, with `δₜ = softplus(dtₜ + bias)`:
//! `stateₜ[r,j] = stateₜ₋₁[r,j] · e^(δₜA) + δₜ · Bₜ[j] · xₜ[r]`, `outₜ[r] = Σ Cₜ[j] · stateₜ[r,j] + D · xₜ[r]`.
//!
//! `x` and `out` are `[b, s, h, d]`, `dt` is `[b, s, h]`, `B` and `C` are `[b, s, g, n]` with `h/g` neighbouring heads per group. `heads`
//! is `[3, h]`: rates, skips, biases. The states after the last tokens, `[b, h, d, n]` in f32, are results too: generation begins with
//! them.
//!
//! Operations: five an element of the state and two a result, for each token. That is the recurrence. The chunks of Dao and Gu need about
//! as many, as GEMMs. Bytes: each input read once, results and last states written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage, StressInput,
    Tolerance, Variant, Workload, indexable, normal, spread,
};
use parallax_schema::case::{DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::state_space::{BIAS, MOST_STEP, RATE, SKIP, heads_buffer, of_head, softplus, step};
use crate::vector;

mod chunked;
mod mma;

const X: usize = 0;
const DT: usize = 1;
const B: usize = 2;
const C: usize = 3;
const HEADS: usize = 4;

/// Place of the last states among the outputs.
const STATES: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "selective state-space model over sequences (Mamba-2)",
        axes: const {
            &[
                Axis::extent("b", "sequences"),
                Axis::extent("s", "tokens of a sequence"),
                Axis::extent("h", "heads"),
                Axis::optional("g", "groups of heads with the same B and C, a divisor of h", 1, 1),
                Axis::extent("d", "head dim"),
                Axis::extent("n", "elements of a row of the state"),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Flops,
            buffers,
            |p| p.each_once(p["b"] * p["s"] * p["h"] * p["d"] * (5 * p["n"] + 2)),
            tolerance,
            Reference::new(
                |p, output| 3 * p["s"] * p["n"] * if output == STATES { 1 } else { p["d"] },
                |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("b1,s1024,h24,d64,n128")
        .shapes(shapes)
        // One element; a part of a chunk; a chunk and one token; a whole chunk; odd rows and states; more rows than a tile, several
        // groups; several chunks.
        .awkward(&[
            "b1,s1,h1,d1,n1",
            "b2,s3,h3,d5,n7",
            "b1,s65,h2,g2,d9,n16",
            "b2,s64,h2,d33,n20",
            "b1,s130,h3,d8,n127",
            "b1,s67,h4,g2,d132,n12",
            "b2,s70,h4,g2,d128,n48",
            "b1,s200,h2,d64,n64",
            "b1,s129,h2,d64,n128",
        ])
        .huge(&["b8,s32769,h128,d64,n16"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one row of a state per thread, token by token, in device memory", naive),
            Variant::kernel(
                "chunked",
                "chunks of 64 tokens: the state of each alone, a pass over the chunks' states, and results from a chunk's tokens and the \
                 state before it, as tiled GEMMs in f32",
                chunked::program,
            ),
            Variant::kernel(
                "mma",
                "tensor cores by warp-wide instructions: a block has a head of a sequence, and its state stays in registers from chunk to \
                 chunk, so that no states pass through device memory",
                mma::program,
            )
            .only_in(&[Dialect::Cuda])
            .available(mma::available)
            .not_on(mma::NOT_ON),
        ])
        .fallback(&["mma", "chunked", "naive"])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (b, s, h, g, d, n) = (shape["b"], shape["s"], shape["h"], shape["g"], shape["d"], shape["n"]);
    if !h.is_multiple_of(g) {
        return Err(format!("{h} heads cannot share {g} groups evenly"));
    }
    [b * s * h * d, b * s * g * n, chunked::states(shape), chunked::scores(shape)].into_iter().try_for_each(indexable)
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,s1024,h24,d64,n128", "b1,s2048,h80,d64,n128", "b4,s4096,h80,d64,n128"],
        _ => &[
            "b1,s1024,h24,d64,n128",
            "b1,s2048,h80,d64,n128",
            "b1,s16384,h80,d64,n128",
            "b4,s4096,h80,d64,n128",
            "b8,s4096,h80,d64,n128",
            "b4,s4096,h128,g8,d64,n128",
            "b8,s2048,h24,d64,n64",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, s, h, g, d, n) = (p["b"], p["s"], p["h"], p["g"], p["d"], p["n"]);
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &[b, s, h, d], normal),
        BufferSpec::input("dt", Elem::Real, &[b, s, h], step),
        BufferSpec::input("b", Elem::Real, &[b, s, g, n], normal),
        BufferSpec::input("c", Elem::Real, &[b, s, g, n], normal),
        heads_buffer(h),
        BufferSpec::output("out", Elem::Real, &[b, s, h, d]),
        BufferSpec::output("state", Elem::F32, &[b, h, d, n]),
    ];
    buffers.extend(chunked::scratch(p));
    buffers
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    // Weights fade: the second powers of those of a state's tokens sum to at most the second power of the longest step, and half of it.
    of_deviation(p, output, 0.8)
}

/// Tolerance for states of this standard deviation.
fn of_deviation(p: &Problem, output: usize, deviation: f64) -> Tolerance {
    let (u, s, n) = (2f64.powi(-24), p["s"] as f64, p["n"] as f64);
    // Exponents of a chunk sum up to 220. Their sums are six additions deep, and an exponent is the difference of two: eight
    // deviations of twelve roundings, each of at most 220 units and half as much in the mean.
    let of_weight = (64.0 + 4.0 * 12f64.sqrt() * 110.0) * u;
    // `mma` rounds weighted tokens, weighted scores and states to 16-bit types.
    let of_factors = if p.dtype == DType::F32 { 0.0 } else { 8.0 * deviation * p.dtype.unit_roundoff() };
    let of_state = 8.0 * deviation * (of_weight + 2.0 * s.sqrt() * u) + of_factors;
    match output {
        STATES => Tolerance {
            abs: of_state + smallest_of_sum(p),
            rel: 0.0,
            reason: "a state is a sum of tokens whose weights are exponentials: their exponents are differences of sums of at most 220 in \
                     f32, six additions deep; s additions of either sign are off by √s units; eight deviations bound all. On tensor cores \
                     factors are rounded to the element type, each by an error of its own: eight deviations bound their sums",
        },
        _ => Tolerance {
            abs: n.sqrt() * (of_state + 8.0 * deviation * n.sqrt() * u) + smallest_of_sum(p) + smallest_normal(p),
            rel: 2.0 * p.dtype.unit_roundoff() + 8.0 * u,
            reason: "n products of a state's row, whose errors are of either sign; their sum in f32 and the skip are rounded once to the \
                     element type",
        },
    }
}

/// Bound of terms that a device may flush to zero.
fn smallest_of_sum(p: &Problem) -> f64 {
    2f64.powi(-126) * 64.0 * (p["s"] * p["n"]) as f64
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "nan",
            "NaN in the first row of each third head in the middle of a sequence: so are its results from there on, and its state",
            |_| vec![("x", nan_from_the_middle)],
            tolerance,
        ),
        StressInput::new("zeros", "no input: no state, and no result", |_| vec![("x", zero)], exact),
        StressInput::new(
            "no decay",
            "rates of zero: states are sums of all tokens",
            |_| vec![("heads", |shape, draw| of_head(shape, draw, 0.0))],
            |p, output| of_deviation(p, output, MOST_STEP + 0.2 * (p["s"] as f64).sqrt()),
        ),
        StressInput::new(
            "strong decay",
            "rates of -1e6, whose exponentials underflow: each state is its last token alone",
            |_| vec![("heads", |shape, draw| of_head(shape, draw, -1e6))],
            tolerance,
        ),
        StressInput::new(
            "long steps",
            "steps of about 20, where softplus is its argument and states fade at once",
            |_| vec![("dt", |_, draw| 20.0 + draw.normal())],
            |p, output| of_deviation(p, output, 24.0),
        ),
        StressInput::new(
            "no steps",
            "steps of e^-100, which f32 has not: states stay zero, and the skip is all",
            |_| vec![("dt", |_, _| -100.0)],
            tolerance,
        ),
        StressInput::new(
            "forgetting",
            "a step of about 20 at each fifth token and none at the others: states last until the next such token",
            |_| {
                vec![("dt", |shape, draw| if draw.index / shape["h"] % 5 == 0 { 20.0 + draw.normal() } else { -100.0 })]
            },
            |p, output| of_deviation(p, output, 24.0),
        ),
    ]
}

/// Input with NaN in the first row of each third head, at the token in the middle of each sequence.
fn nan_from_the_middle(shape: &Shape, draw: parallax_ir::Draw) -> f64 {
    let (row, head) = (draw.index % shape["d"], draw.index / shape["d"] % shape["h"]);
    let token = draw.index / (shape["d"] * shape["h"]) % shape["s"];
    if row == 0 && head.is_multiple_of(3) && token == shape["s"] / 2 { f64::NAN } else { draw.normal() }
}

/// Rows of a head's state after some tokens of a sequence, one after the other.
fn states_after(p: &Problem, inputs: &Inputs, [sequence, head]: [u64; 2], rows: [u64; 2], tokens: u64) -> Vec<f64> {
    let (s, h, g, d, n) = (p["s"], p["h"], p["g"], p["d"], p["n"]);
    let (rate, bias) = (inputs.at(HEADS, RATE * h + head), inputs.at(HEADS, BIAS * h + head));
    let mut states = vec![0.0; ((rows[1] - rows[0]) * n) as usize];
    for token in sequence * s..sequence * s + tokens {
        let step = softplus(inputs.at(DT, token * h + head) + bias);
        let decay = (step * rate).exp();
        let shared = (token * g + head / (h / g)) * n;
        let (b, first) = (inputs.values(B, shared..shared + n), (token * h + head) * d);
        for (state, x) in states.chunks_mut(n as usize).zip(inputs.values(X, first + rows[0]..first + rows[1])) {
            for (state, b) in state.iter_mut().zip(&b) {
                *state = *state * decay + step * b * x;
            }
        }
    }
    states
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let (s, h, g, d, n) = (p["s"], p["h"], p["g"], p["d"], p["n"]);
    if output == STATES {
        let (of_head, row) = (row / d, row % d);
        out.copy_from_slice(&states_after(p, inputs, [of_head / h, of_head % h], [row, row + 1], s));
        return;
    }
    let (token, head) = (row / h, row % h);
    let states = states_after(p, inputs, [token / s, head], [0, d], token % s + 1);
    let shared = (token * g + head / (h / g)) * n;
    let c = inputs.values(C, shared..shared + n);
    for ((out, state), x) in out.iter_mut().zip(states.chunks(n as usize)).zip(inputs.values(X, row * d..(row + 1) * d))
    {
        let sum: f64 = state.iter().zip(&c).map(|(state, c)| state * c).sum();
        *out = sum + inputs.at(HEADS, SKIP * h + head) * x;
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [s, h, g, d, n] = ["s", "h", "g", "d", "n"].map(|key| p[key] as usize);
    let [x, dt, b, c, heads] = [X, DT, B, C, HEADS].map(|buffer| inputs[buffer].f32());
    let [out, states] = outputs else { unreachable!("two outputs") };
    // Results of each head of a sequence, which lie apart in memory.
    let of_head = |(at, states): (usize, &mut [f32])| {
        let (sequence, head) = (at / h, at % h);
        let [rate, skip, bias] = [RATE, SKIP, BIAS].map(|place| heads[place as usize * h + head]);
        let mut results = vec![0.0; s * d];
        states.fill(0.0);
        for (token, results) in (sequence * s..).zip(results.chunks_exact_mut(d)) {
            let step = softplus(dt[token * h + head] + bias);
            let decay = (step * rate).exp();
            let shared = (token * g + head / (h / g)) * n;
            let (b, c) = (&b[shared..][..n], &c[shared..][..n]);
            let x = &x[(token * h + head) * d..][..d];
            for ((state, x), result) in states.chunks_exact_mut(n).zip(x).zip(results) {
                vector::replace(state, |state| state * decay);
                vector::add(state, step * x, b);
                *result = vector::dot(c, state) + skip * x;
            }
        }
        results
    };
    let results: Vec<Vec<f32>> = states.par_chunks_mut(d * n).enumerate().map(of_head).collect();
    out.par_chunks_mut(d).enumerate().for_each(|(row, out)| {
        let (token, head) = (row / h, row % h);
        out.copy_from_slice(&results[token / s * h + head][token % s * d..][..d]);
    });
}

/// Stage with the extents as constants.
fn stage(p: &Problem, entry: &'static str, text: &'static str) -> Stage {
    let extents = [("SEQUENCES", "b"), ("S", "s"), ("HEADS", "h"), ("GROUPS", "g"), ("D", "d"), ("N", "n")];
    Stage::kernel(entry, text, entry).consts(&extents.map(|(name, key)| (name, p[key] as u32)))
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    const THREADS: u32 = 64;
    stage(p, "ssm_scan_naive", "ssm_scan/naive")
        .consts(&[("THREADS", THREADS)])
        .args([("x", Read), ("dt", Read), ("b", Read), ("c", Read), ("heads", Read), ("out", Write), ("state", Write)])
        .threads([THREADS, 1, 1])
        .grid(spread((p["b"] * p["h"] * p["d"]).div_ceil(u64::from(THREADS))))
        .cost(p.cost())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("ssm_scan/fwd/{shape}/f32/naive")).expect("valid").problem
    }

    #[test]
    fn states_are_counted_in_32_bits_and_heads_share_groups_evenly() {
        for (shape, part) in [("b1,s1,h6,g4,d1,n1", "4 groups"), ("b64,s65536,h128,d64,n128", "32 bits")] {
            let refused = parse_case(&format!("ssm_scan/fwd/{shape}/f32/naive")).expect_err("refused").to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn the_recurrence_is_the_sum_of_its_tokens_with_fading_weights() {
        let p = problem("b2,s5,h2,d3,n4");
        let inputs = p.inputs(7);
        let (h, d, n) = (2, 3, 4);
        for (sequence, head, token) in [(0, 0, 0), (0, 1, 4), (1, 0, 3)] {
            let step = |t: u64| softplus(inputs.at(DT, (sequence * 5 + t) * h + head) + inputs.at(HEADS, 2 * h + head));
            let mut out = [0.0; 3];
            reference(&p, &inputs, 0, (sequence * 5 + token) * h + head, &mut out);
            for (r, out) in (0..d).zip(out) {
                let x = |t: u64| inputs.at(X, ((sequence * 5 + t) * h + head) * d + r);
                let mut want = inputs.at(HEADS, h + head) * x(token);
                for t in 0..=token {
                    let later: f64 = (t + 1..=token).map(step).sum();
                    let product = (0..n).map(|j| {
                        inputs.at(C, (sequence * 5 + token) * n + j) * inputs.at(B, (sequence * 5 + t) * n + j)
                    });
                    want += product.sum::<f64>() * (inputs.at(HEADS, head) * later).exp() * step(t) * x(t);
                }
                assert!((out - want).abs() < 1e-12, "{sequence} {head} {token}: {out}, not {want}");
            }
        }
    }

    #[test]
    fn last_states_are_those_after_all_tokens() {
        let p = problem("b1,s4,h1,d2,n3");
        let inputs = p.inputs(3);
        let mut row = [0.0; 3];
        reference(&p, &inputs, STATES, 1, &mut row);
        assert_eq!(states_after(&p, &inputs, [0, 0], [0, 2], 4)[3..], row);
        assert!(states_after(&p, &inputs, [0, 0], [0, 2], 3)[3..] != row);
    }
}
