//! Depthwise convolution along a sequence that sees no later tokens, as before a selective state-space model. Over the taps `j` of
//! channel `c`, `out[i,t,c] = act(bias[c] + Σ w[c,j] · x[i, t − (k − 1) + j, c])`. Tokens before the first are zeros.
//!
//! Gu and Dao, "Mamba" (2023), with four taps and `silu`; the package `causal-conv1d` computes it. `x` and `out` are `[b, s, c]`: channels
//! are neighbours. `w` is `[c, k]` with the tap of the token itself last.
//!
//! Operations: `2·k` a result, and five for `silu`. Bytes: each array read or written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{nan_in_rows, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage,
    StressInput, Tolerance, Tunable, Variant, Workload, by_pieces, indexable, normal, width,
};
use parallax_schema::case::{Allowed, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use crate::real::silu;
use crate::state_space::MOST_NORMAL;
use crate::vector;

const X: usize = 0;
const W: usize = 1;
const BIAS: usize = 2;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "causal depthwise convolution along sequences",
        axes: const {
            &[
                Axis::extent("b", "sequences"),
                Axis::extent("s", "tokens of a sequence"),
                Axis::extent("c", "channels"),
                Axis::optional("k", "taps", 1, 4),
                Axis::word("activation", "function of the sums", &["", "silu"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| {
            indexable(shape["c"] * shape["k"])?;
            indexable(shape["b"] * shape["s"] * shape["c"])
        },
        forms: vec![forward()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        |p| p.each_once(p["b"] * p["s"] * p["c"] * (2 * p["k"] + if activated(p) { 5 } else { 0 })),
        tolerance,
        Reference::new(|p, _| p["c"] * p["k"], |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out))),
        OfNan::Kept,
    )
    .headline("b1,s2048,c5376,silu")
    .shapes(shapes)
    // One element; fewer tokens than taps; tokens that fill no stretch of a thread, and begin a second one; channels without whole
    // vectors; one tap, and more than registers hold; several workgroups.
    .awkward(&[
        "b1,s1,c1",
        "b2,s3,c5,silu",
        "b3,s17,c12,k2",
        "b1,s33,c8,k3,silu",
        "b2,s16,c7,k1",
        "b2,s31,c20,k7,silu",
        "b1,s40,c4,k9",
        "b3,s2,c264,k5,silu",
        "b2,s65,c1026",
        "b1,s257,c136,silu",
    ])
    .huge(&["b2,s262145,c4096,silu"])
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one output element per thread", |p, _| {
            stage(p, 1, p["s"], "causal_conv1d_naive", "causal_conv1d/naive").into()
        }),
        Variant::kernel(
            "march",
            "a thread has a vector of channels and marches along tokens: taps and the last tokens stay in registers",
            march,
        )
        .available(|p, _| match p["k"] {
            k if k <= MOST_TAPS => Ok(()),
            k => Err(format!("march keeps taps in registers: {k} are more than {MOST_TAPS}")),
        })
        .tunables(&[TOKENS]),
    ])
    .fallback(&["march", "naive"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,s2048,c5376,silu", "b8,s4096,c5376,silu"],
        _ => &[
            "b1,s2048,c5376,silu",
            "b8,s4096,c5376",
            "b8,s4096,c5376,silu",
            "b8,s4096,c10240,silu",
            "b256,s1,c5376,silu",
            "b8,s4096,c5376,k2,silu",
        ],
    }
}

/// Whether the results go through SiLU.
fn activated(p: &Problem) -> bool {
    p.shape.has("silu")
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let extents = [p["b"], p["s"], p["c"]];
    vec![
        BufferSpec::input("x", Elem::Real, &extents, normal),
        BufferSpec::input("w", Elem::Real, &[p["c"], p["k"]], tap),
        BufferSpec::input("bias", Elem::Real, &[p["c"]], normal),
        BufferSpec::output("out", Elem::Real, &extents),
    ]
}

/// Draw of a tap: half a normal number.
fn tap(_: &Shape, draw: Draw) -> f64 {
    0.5 * draw.normal()
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    of_magnitude(p, MOST_NORMAL)
}

/// Tolerance for elements of at most `x`.
fn of_magnitude(p: &Problem, x: f64) -> Tolerance {
    let k = p["k"] as f64;
    let summed = (k + 2.0) * 2f64.powi(-24) * MOST_NORMAL * (0.5 * k * x + 1.0) + smallest_normal(p);
    let rel = 2.0 * p.dtype.unit_roundoff();
    match activated(p) {
        false => Tolerance {
            abs: summed,
            rel,
            reason: "k products and the bias are summed in f32, each addition off by u times the sum of magnitudes at most; rounded \
                     once to the element type",
        },
        true => Tolerance {
            abs: 1.1 * summed + 4e-6,
            rel: rel + 1e-5,
            reason: "k products and the bias are summed in f32; the slope of silu is at most 1.1, and WGSL's exp may be off by 3 + 2|x| \
                     units in the last place; rounded once to the element type",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    const FAR: f64 = 1000.0;
    vec![
        StressInput::new(
            "nan",
            "NaN in the first channel of every third token: it reaches k results of that channel",
            |_| vec![("x", |shape, draw| nan_in_rows(draw, shape["c"]))],
            tolerance,
        ),
        StressInput::new("zeros", "no input: the bias alone", |_| vec![("x", zero)], tolerance),
        StressInput::new(
            "last",
            "zeros but for the last token of each sequence, which no earlier result sees",
            |_| {
                vec![(
                    "x",
                    |shape, draw| if draw.index / shape["c"] % shape["s"] + 1 == shape["s"] { 3.0 } else { 0.0 },
                )]
            },
            tolerance,
        ),
        StressInput::new(
            "far",
            "±1000: silu is at its limits, and exponentials would overflow",
            |_| vec![("x", |_, draw| if draw.bits() & 1 == 0 { FAR } else { -FAR })],
            |p, _| of_magnitude(p, FAR),
        ),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (s, c, k) = (p["s"], p["c"], p["k"]);
    let (sequence, token) = (row / s, row % s);
    for (channel, out) in (0..).zip(out) {
        let mut sum = inputs.at(BIAS, channel);
        for j in 0..k {
            // Tokens before the first are zero.
            if let Some(seen) = (token + j + 1).checked_sub(k) {
                sum += inputs.at(W, channel * k + j) * inputs.at(X, (sequence * s + seen) * c + channel);
            }
        }
        *out = if activated(p) { silu(sum) } else { sum };
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (s, c, k) = (p["s"] as usize, p["c"] as usize, p["k"] as usize);
    let (x, w, bias) = (inputs[X].f32(), inputs[W].f32(), inputs[BIAS].f32());
    // Taps of all channels beside each other, so that sums of neighbouring channels are vectors.
    let taps: Vec<Vec<f32>> = (0..k).map(|j| w.iter().skip(j).step_by(k).copied().collect()).collect();
    outputs[0].par_chunks_mut(c).enumerate().for_each(|(row, out)| {
        out.copy_from_slice(bias);
        for (j, taps) in taps.iter().enumerate() {
            if row % s + j + 1 >= k {
                vector::add_products(out, [taps, &x[(row + j + 1 - k) * c..][..c]]);
            }
        }
        if activated(p) {
            vector::replace(out, silu);
        }
    });
}

/// Most taps of `march`.
const MOST_TAPS: u64 = 8;

/// Tokens of a thread. A thread reads the `k − 1` tokens before its own once more, from caches.
const TOKENS: Tunable = Tunable {
    name: "TOKENS",
    about: "tokens along which a thread marches",
    allowed: Allowed::OneOf(&[8, 16, 32, 64]),
    default: 16,
};

/// Stage in which a thread has a piece of `width` channels and `tokens` neighbouring tokens.
fn stage(p: &Problem, width: u64, tokens: u64, entry: &'static str, text: &'static str) -> Stage {
    let (pieces, stretches) = (p["c"] / width, p["s"].div_ceil(tokens));
    // `naive` has one element a thread.
    let count = if entry == "causal_conv1d_naive" { p["b"] * p["s"] * p["c"] } else { p["b"] * stretches * pieces };
    let consts = [("S", p["s"]), ("PIECES", pieces), ("TAPS", p["k"]), ("TOKENS", tokens), ("STRETCHES", stretches)];
    by_pieces(count, width, text, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("SILU", activated(p))])
        .args([("x", Read), ("w", Read), ("bias", Read), ("out", Write)])
        .cost(p.cost())
}

fn march(p: &Problem, caps: &Caps) -> Program {
    let tokens = u64::from(p.tuned(caps, "march", &TOKENS));
    stage(p, width(p["c"], p.dtype, caps), tokens, "causal_conv1d_march", "causal_conv1d/march").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn a_result_sees_its_own_token_by_the_last_tap_and_none_after_it() {
        let p = parse_case("causal_conv1d/fwd/b1,s3,c1,k2/f32/naive").expect("valid").problem;
        let mut inputs = p.inputs(1);
        let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        for (buffer, values) in [(X, &[1.0, 2.0, 4.0][..]), (W, &[10.0, 1.0]), (BIAS, &[0.5])] {
            inputs.replace(buffer, bytes(values)).expect("as long");
        }
        for (row, want) in [(0, 1.5), (1, 12.5), (2, 24.5)] {
            let mut out = [0.0];
            reference(&p, &inputs, row, &mut out);
            assert_eq!(out, [want], "{row}");
        }
    }

    #[test]
    fn registers_hold_few_taps() {
        let march = |k: u64| {
            let case = parse_case(&format!("causal_conv1d/fwd/b1,s4,c4,k{k}/f32/march")).expect("valid");
            let parallax_ir::VariantKind::Kernel { available, .. } = case.variant_form().expect("a variant").how else {
                unreachable!("a kernel")
            };
            available(&case.problem, &parallax_schema::testing::caps())
        };
        assert_eq!(march(MOST_TAPS), Ok(()));
        assert!(march(MOST_TAPS + 1).is_err_and(|why| why.contains("9 are more than 8")));
    }
}
