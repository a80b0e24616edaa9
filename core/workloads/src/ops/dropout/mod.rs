//! Dropout: each element is zero with probability `p`, and otherwise divided by `1 − p`.
//!
//! Formula: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (2014), scaled in training.
//! Element `i` is dropped if its random word is below `p · 2³²`. The word is `i mod 4` of Philox 4x32-10 with counter `i / 4` and
//! the seed as key, so that every target drops the same elements. Backward, the gradient is dropped alike.
//!
//! A backward pass reads the kept elements from a mask of the forward pass, a byte each, or draws the same words again. Operations:
//! one an element, without those on words. Bytes: each array read or written once, without a mask. Stages with a mask cost one more
//! byte an element.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, subnormal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Role, Shape, Stage,
    StressInput, Tolerance, Variant, Workload, by_pieces, indexable, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use super::copy::row_len;

mod philox;

use philox::philox;

const X: usize = 0;
const SEED: usize = 1;
/// Index of the gradient in the backward direction.
const DOUT: usize = 2;

/// Index of the mask, the second checked buffer of the backward direction, between the result and the gradient.
const MASK: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "dropout, with a mask that is stored or regenerated",
        axes: const { &[Axis::extent("n", "elements"), Axis::decimal("p", "dropped share", (0, 1), "0.1")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| below_one(shape).and_then(|()| indexable(shape["n"])),
        forms: vec![forward(), backward()],
    }
}

/// Checks that some elements are kept.
///
/// # Errors
/// Reason against a probability of one.
pub(crate) fn below_one(shape: &Shape) -> Result<(), String> {
    match shape.decimal("p") {
        1.0 => Err("kept elements are divided by 1 − p: p must be below one".to_owned()),
        _ => Ok(()),
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            let [x, seed] = drawn_from(p);
            vec![x, seed, output(p, "out"), BufferSpec::scratch("mask", Elem::U32, &[counters(p)])]
        },
        |p| cost(p, 0, 0),
        tolerance,
        Reference::new(row_cost, |p, inputs| Box::new(move |_, row, out| dropped(p, inputs, X, row, out))),
        OfNan::MIXED,
    )
    .headline("n4194304")
    .shapes(shapes)
    .awkward(&["n1", "n3,p0.5", "n1009", "n2050,p0.25", "n4100", "n4104,p0.9", "n65544,p0"])
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one element per thread, each of which draws all four words of its counter", naive),
        Variant::kernel(
            "stored",
            "a vector per thread, or the elements of a counter; a mask is written, a byte an element",
            |p, caps| stored(p, caps).into(),
        ),
        Variant::kernel("regenerated", "without a mask: the backward pass is to draw the same words", regenerated),
    ])
    .fallback(&["regenerated", "stored", "naive"])
    .stress(stress_inputs())
}

fn backward() -> OpSpec {
    OpSpec {
        direction: Direction::Bwd,
        buffers: |p| {
            let [x, seed] = drawn_from(p);
            let row_len = 1 << counters(p).trailing_zeros().min(20);
            let mask = BufferSpec::setup("mask", Elem::U32, &[counters(p)]);
            vec![
                x,
                seed,
                BufferSpec::input("dout", Elem::Real, &[p["n"]], away_from_zero),
                BufferSpec { role: Role::Setup { row_len: self::row_len(p) }, ..output(p, "out") },
                BufferSpec { role: Role::Setup { row_len }, ..mask },
                output(p, "dx"),
            ]
        },
        reference: Reference::new(row_cost, |p, inputs| {
            Box::new(move |output, row, out| match output {
                0 => dropped(p, inputs, X, row, out),
                MASK => mask(p, inputs, row, out),
                _ => dropped(p, inputs, DOUT, row, out),
            })
        }),
        setup: Some(|p, caps| stored(p, caps).into()),
        host: Some(|p, inputs, outputs| host_of(p, inputs, DOUT, &mut outputs[0])),
        variants: vec![
            Variant::kernel(
                "naive",
                "one element per thread, each of which draws all four words of its counter",
                naive,
            ),
            Variant::kernel(
                "stored",
                "a vector per thread, or the elements of a counter; the mask of the forward pass is read",
                by_mask,
            ),
            Variant::kernel(
                "regenerated",
                "without a mask: the words of the forward pass are drawn again",
                regenerated,
            ),
        ],
        ..forward()
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n4194304", "n67108864", "n67108864,p0.5"],
        _ => &["n4194304", "n67108864", "n67108864,p0.5", "n268435456"],
    }
}

/// Number of magnitude one or more, so that only dropped elements are zero.
fn away_from_zero(_: &Shape, draw: Draw) -> f64 {
    let x = draw.normal();
    x + 1f64.copysign(x)
}

/// Input of a forward pass, and the key.
fn drawn_from(p: &Problem) -> [BufferSpec; 2] {
    [BufferSpec::input("x", Elem::Real, &[p["n"]], away_from_zero), BufferSpec::input("seed", Elem::U32, &[2], key)]
}

/// Words of a key.
pub(crate) fn key(_: &Shape, draw: Draw) -> f64 {
    (draw.bits() >> 32) as f64
}

/// Output that is checked in the longest rows of equal length.
fn output(p: &Problem, name: &'static str) -> BufferSpec {
    BufferSpec { role: Role::Output { row_len: row_len(p) }, ..BufferSpec::output(name, Elem::Real, &[p["n"]]) }
}

/// Number of counters of all elements. The mask has a word for each, with a byte for each of its four elements.
fn counters(p: &Problem) -> u64 {
    p["n"].div_ceil(4)
}

/// Cost of stages that read and write these bytes of a mask or a seed.
fn cost(p: &Problem, read: u64, written: u64) -> Cost {
    let bytes = p["n"] * Elem::Real.storage(p.dtype).bytes();
    Cost::new(p["n"], bytes + read, bytes + written)
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    match (p.direction, output) {
        (Direction::Bwd, MASK) => Tolerance { abs: 0.0, rel: 0.0, reason: "words of integer arithmetic are exact" },
        _ => Tolerance {
            abs: 0.0,
            rel: 2f64.powi(-23) + 2.0 * p.dtype.unit_roundoff(),
            reason: "dropped elements are zero; others are a product in f32 with a factor rounded to f32, rounded once",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let small = |p: &Problem, output: usize| match (p.direction, output) {
        (Direction::Bwd, MASK) => tolerance(p, output),
        _ => Tolerance {
            abs: smallest_normal(p),
            reason: "a device may flush subnormal numbers to zero, before the product and after it",
            ..tolerance(p, output)
        },
    };
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero, and a key of zero", |p| vec![(dropped_from(p), zero), ("seed", zero)]),
        set("equal", "all one: a result is zero or the factor", |p| vec![(dropped_from(p), one)]),
        StressInput {
            applies: |p| p.shape.decimal("p") <= 0.9,
            ..set(
                "huge",
                "up to 6e3 in f16 and 1e30 otherwise, of either sign: ten times that is a number still",
                |p| match p.dtype {
                    DType::F16 => vec![(dropped_from(p), |_, draw| 6e3 * (2.0 * draw.uniform() - 1.0))],
                    _ => vec![(dropped_from(p), |_, draw| 1e30 * (2.0 * draw.uniform() - 1.0))],
                },
            )
        },
        StressInput {
            tolerance: small,
            ..set(
                "subnormal",
                "numbers too small to be normal: themselves, or zero where the device flushes them",
                |p| vec![(dropped_from(p), subnormal(p))],
            )
        },
    ]
}

/// Buffers that the timed stages read and write.
fn names(p: &Problem) -> [&'static str; 2] {
    match p.direction {
        Direction::Fwd => ["x", "out"],
        _ => ["dout", "dx"],
    }
}

fn dropped_from(p: &Problem) -> &'static str {
    names(p)[0]
}

/// Threshold of dropped elements: words below it drop their element.
fn threshold(p: &Problem) -> u32 {
    (p.shape.decimal("p") * 2f64.powi(32)) as u32
}

/// Whether each element of a counter is kept.
fn kept(p: &Problem, counter: u64, seed: [u32; 2]) -> [bool; 4] {
    philox([counter as u32, (counter >> 32) as u32, 0, 0], seed).map(|word| word >= threshold(p))
}

/// Whether an element is kept.
pub(crate) fn keeps(p: &Problem, at: u64, key: [u32; 2]) -> bool {
    kept(p, at / 4, key)[(at % 4) as usize]
}

/// Key in an input.
pub(crate) fn key_in(inputs: &Inputs, buffer: usize) -> [u32; 2] {
    [inputs.at(buffer, 0) as u32, inputs.at(buffer, 1) as u32]
}

/// Operations of a row: two multiplications a round, with their further operations. The mask has a quarter of the words.
fn row_cost(p: &Problem, _output: usize) -> u64 {
    40 * row_len(p)
}

fn dropped(p: &Problem, inputs: &Inputs, from: usize, row: u64, out: &mut [f64]) {
    let seed = key_in(inputs, SEED);
    for (out, at) in out.iter_mut().zip(row * row_len(p)..) {
        *out = if keeps(p, at, seed) { inputs.at(from, at) / (1.0 - p.shape.decimal("p")) } else { 0.0 };
    }
}

fn mask(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (seed, first) = (key_in(inputs, SEED), row * out.len() as u64);
    for (out, counter) in out.iter_mut().zip(first..) {
        let bytes = kept(p, counter, seed).map(u8::from);
        *out = f64::from(u32::from_le_bytes(bytes));
    }
}

/// Counters that a thread of the host processes together.
const COUNTERS: usize = 1 << 12;

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    host_of(p, inputs, X, &mut outputs[0]);
}

/// Drops elements of an input.
fn host_of(p: &Problem, inputs: &[HostBuffer], from: usize, out: &mut [f32]) {
    let factor = (1.0 / (1.0 - p.shape.decimal("p"))) as f32;
    let seed = [inputs[SEED].u32()[0], inputs[SEED].u32()[1]];
    let pieces = out.par_chunks_mut(4 * COUNTERS).zip(inputs[from].f32().par_chunks(4 * COUNTERS));
    pieces.enumerate().for_each(|(piece, (out, x))| {
        for (counter, (out, x)) in (piece * COUNTERS..).zip(out.chunks_mut(4).zip(x.chunks(4))) {
            for ((out, x), kept) in out.iter_mut().zip(x).zip(kept(p, counter as u64, seed)) {
                *out = if kept { x * factor } else { 0.0 };
            }
        }
    });
}

/// Stage with `each` elements per thread, in pieces of `width`.
fn stage(p: &Problem, (each, width): (u64, u64), text: &'static str, entry: &'static str) -> Stage {
    let factor = (1.0 / (1.0 - p.shape.decimal("p"))) as f32;
    by_pieces(p["n"].div_ceil(each), width, text, entry)
        .consts(&[("N", p["n"] as u32), ("THRESHOLD", threshold(p))])
        .consts(&[("FACTOR", factor)])
}

fn naive(p: &Problem, _: &Caps) -> Program {
    let [from, to] = names(p);
    stage(p, (1, 1), "dropout/naive", "dropout_naive")
        .args([("x", from, Read), ("seed", "seed", Read), ("out", to, Write)])
        .cost(cost(p, 8, 0))
        .into()
}

/// Stage with one vector per thread, and at least the elements of a counter.
fn vectors(p: &Problem, caps: &Caps, entry: &'static str) -> Stage {
    let width = width(p["n"], p.dtype, caps);
    let text = "dropout/vectors";
    stage(p, (width.max(4), width), text, entry)
}

fn stored(p: &Problem, caps: &Caps) -> Stage {
    vectors(p, caps, "dropout_stored").args([("x", Read), ("seed", Read), ("out", Write), ("mask", Write)]).cost(cost(
        p,
        8,
        4 * counters(p),
    ))
}

fn by_mask(p: &Problem, caps: &Caps) -> Program {
    vectors(p, caps, "dropout_by_mask")
        .args([("x", "dout", Read), ("kept", "mask", Read), ("out", "dx", Write)])
        .cost(cost(p, 4 * counters(p), 0))
        .into()
}

fn regenerated(p: &Problem, caps: &Caps) -> Program {
    let [from, to] = names(p);
    vectors(p, caps, "dropout_regenerated")
        .args([("x", from, Read), ("seed", "seed", Read), ("out", to, Write)])
        .cost(cost(p, 8, 0))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::caps;

    #[test]
    fn the_asked_share_is_dropped_and_the_mean_stays() {
        for text in ["n262144", "n262144,p0.5", "n262144,p0"] {
            let case = parse_case(&format!("dropout/fwd/{text}/f32/naive")).expect("valid");
            let p = &case.problem;
            let mut out = vec![0.0; p["n"] as usize];
            dropped(p, &p.inputs(3), X, 0, &mut out);
            let zeros = out.iter().filter(|x| **x == 0.0).count() as f64 / out.len() as f64;
            assert!((zeros - p.shape.decimal("p")).abs() < 0.004, "{text}: {zeros}");
        }
    }

    #[test]
    fn a_mask_costs_a_byte_an_element_in_each_direction() {
        for direction in ["fwd", "bwd"] {
            let moved = |variant: &str| {
                let case = parse_case(&format!("dropout/{direction}/n4096/f16/{variant}")).expect("valid");
                case.program(&caps()).expect("a kernel variant").stages[0].cost.moved().0
            };
            assert_eq!(moved("regenerated"), 4 * 4096 + 8, "{direction}");
            assert!(moved("stored").abs_diff(5 * 4096) <= 8, "{direction}");
        }
    }
}
