//! Rotary position embedding: every pair of elements of a head is rotated by an angle proportional to the position.
//!
//! Formula: Su et al., "RoFormer" (2021), in the convention that rotates halves. Element `i < d/2` of position `s` is paired with
//! element `i + d/2` and rotated by `s · 10000^(−2i/d)`. Cosines and sines are inputs, f32, as engines keep them. The kernel
//! computes `out₁ = x₁ cos − x₂ sin` and `out₂ = x₂ cos + x₁ sin`. Backward, the gradient is rotated by the negative angle.
//!
//! Operations: three an element. Bytes: the tensor, read and written once, and both tables.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, StressInput,
    Tolerance, Variant, Workload, by_pieces, indexable, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

const X: usize = 0;
const COSINES: usize = 1;
const SINES: usize = 2;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "rotary position embedding, by halves",
        axes: const {
            &[
                Axis::extent("b", "batch"),
                Axis::extent("h", "heads"),
                Axis::extent("s", "positions"),
                Axis::extent("d", "head dim"),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| match shape["d"] % 2 {
            1 => Err("elements turn in pairs: head_dim must be even".to_owned()),
            _ => indexable(shape["b"] * shape["h"] * shape["s"] * shape["d"]),
        },
        forms: vec![form(Direction::Fwd), form(Direction::Bwd)],
    }
}

/// Specification of a direction. Both differ in the sign of the angle and in the names of the tensors.
fn form(direction: Direction) -> OpSpec {
    OpSpec::new(
        direction,
        Rate::Bytes,
        buffers,
        cost,
        |p, _| tolerance(p, 3.47),
        Reference::new(
            |p, _| 2 * p["d"],
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::MIXED,
    )
    .headline("b1,h16,s2048,d64")
    .shapes(shapes)
    .awkward(&["b1,h1,s1,d2", "b2,h3,s7,d6", "b1,h4,s3,d68", "b3,h1,s1009,d2", "b1,h9,s5,d128", "b1,h7,s31,d72"])
    .host(host)
    .variants(vec![
        Variant::kernel("scalar", "one pair of elements per thread", |p, _| pairs(p, 1)),
        Variant::kernel("vector", "a vector of each half per thread", |p, caps| pairs(p, across(p, caps))),
        Variant::kernel(
            "heads",
            "the same vectors of four heads per thread: tables are read once for all four, and more loads are under way",
            heads,
        ),
    ])
    .fallback(&["heads", "vector", "scalar"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,h16,s2048,d64", "b1,h32,s4096,d128"],
        _ => &["b1,h16,s2048,d64", "b4,h32,s4096,d128", "b1,h8,s131072,d128"],
    }
}

/// Angle of pair `i` of `half` at a position, between −π and π.
fn angle(position: u64, i: u64, half: u64) -> f64 {
    const TURN: f64 = 2.0 * std::f64::consts::PI;
    let angle = position as f64 * exponential(-9.210_340_371_976_184 * i as f64 / half as f64);
    angle - (angle / TURN).round() * TURN
}

/// Cosine and sine of the angle of pair `i` of `half` at a position.
pub(super) fn cosine_and_sine(position: u64, i: u64, half: u64) -> [f64; 2] {
    let x = angle(position, i, half);
    [alternating(x, 1), x * alternating(x, 2)]
}

// Library functions differ in the last bit between platforms, and inputs must not. These use only operations that IEEE 754 defines
// to the last bit. They have twelve correct digits, more than f32 holds.

/// Exponential function between −10 and 0.
fn exponential(x: f64) -> f64 {
    let small = x / 1024.0;
    let mut sum = 1.0;
    for n in (1..8).rev() {
        sum = 1.0 + small / f64::from(n) * sum;
    }
    (0..10).fold(sum, |power, _| power * power)
}

/// Sum `1 − x²/(k(k+1)) (1 − x²/((k+2)(k+3)) (…))`, the base of sine and cosine, for |x| ≤ π.
pub(super) fn alternating(x: f64, k: u32) -> f64 {
    (0..16).rev().fold(1.0, |sum, n| {
        let k = f64::from(k + 2 * n);
        1.0 - x * x / (k * (k + 1.0)) * sum
    })
}

fn cosine(shape: &Shape, draw: Draw) -> f64 {
    let half = shape["d"] / 2;
    cosine_and_sine(draw.index / half, draw.index % half, half)[0]
}

fn sine(shape: &Shape, draw: Draw) -> f64 {
    let half = shape["d"] / 2;
    cosine_and_sine(draw.index / half, draw.index % half, half)[1]
}

/// Names of the input tensor and of the output tensor.
fn names(p: &Problem) -> [&'static str; 2] {
    match p.direction {
        Direction::Fwd => ["x", "out"],
        _ => ["dout", "dx"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (dims, table) = ([p["b"], p["h"], p["s"], p["d"]], [p["s"], p["d"] / 2]);
    let [from, to] = names(p);
    vec![
        BufferSpec::input(from, Elem::Real, &dims, |_, draw| draw.normal()),
        BufferSpec::input("cosines", Elem::F32, &table, cosine),
        BufferSpec::input("sines", Elem::F32, &table, sine),
        BufferSpec::output(to, Elem::Real, &dims),
    ]
}

fn elements(p: &Problem) -> u64 {
    p["b"] * p["h"] * p["s"] * p["d"]
}

fn cost(p: &Problem) -> Cost {
    let bytes = elements(p) * Elem::Real.storage(p.dtype).bytes();
    Cost::new(3 * elements(p), bytes + p["s"] * p["d"] * 4, bytes)
}

/// Tolerance for elements of at most `largest`.
fn tolerance(p: &Problem, largest: f64) -> Tolerance {
    Tolerance {
        abs: 4.0 * 2f64.powi(-24) * largest + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "two products and their sum in f32, each of at most the largest element; the result is rounded once",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new("zeros", "all zero: a result of zero", |p| vec![(names(p)[0], zero)], exact),
        StressInput::new(
            "equal",
            "all one: the diagonal is rotated",
            |p| vec![(names(p)[0], one)],
            |p, _| tolerance(p, 1.0),
        ),
        StressInput::new(
            "no angle",
            "cosines of one and sines of zero: elements arrive as they were",
            |_| vec![("cosines", one), ("sines", zero)],
            exact,
        ),
        StressInput::new(
            "huge",
            "up to 4e4 in f16 and 1e30 otherwise: √2 times that is a number still",
            |p| match p.dtype {
                DType::F16 => vec![(names(p)[0], |_, draw| 4e4 * (2.0 * draw.uniform() - 1.0))],
                _ => vec![(names(p)[0], |_, draw| 1e30 * (2.0 * draw.uniform() - 1.0))],
            },
            |p, _| tolerance(p, if p.dtype == DType::F16 { 4e4 } else { 1e30 }),
        ),
    ]
}

/// Sign of the angle.
fn sign(p: &Problem) -> f64 {
    if p.direction == Direction::Fwd { 1.0 } else { -1.0 }
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (d, half, position) = (p["d"], p["d"] / 2, row % p["s"]);
    for i in 0..half {
        let (first, second) = (inputs.at(X, row * d + i), inputs.at(X, row * d + half + i));
        let (cosine, sine) = (inputs.at(COSINES, position * half + i), sign(p) * inputs.at(SINES, position * half + i));
        out[i as usize] = first * cosine - second * sine;
        out[(half + i) as usize] = second * cosine + first * sine;
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (d, half, positions) = (p["d"] as usize, p["d"] as usize / 2, p["s"] as usize);
    let rows = outputs[0].par_chunks_mut(d).zip(inputs[X].f32().par_chunks(d)).enumerate();
    rows.for_each(|(row, (out, x))| {
        let at = row % positions * half;
        for i in 0..half {
            let (cosine, sine) = (inputs[COSINES].f32()[at + i], sign(p) as f32 * inputs[SINES].f32()[at + i]);
            out[i] = x[i] * cosine - x[half + i] * sine;
            out[half + i] = x[half + i] * cosine + x[i] * sine;
        }
    });
}

/// Program with one thread for each piece of half a position, for `heads` heads.
fn program(p: &Problem, width: u64, entry: &'static str, heads: u64) -> Program {
    let half = p["d"] / 2 / width;
    let [from, to] = names(p);
    by_pieces(heads * p["s"] * half, width, "rope/rotate", entry)
        .consts(
            &[("POSITIONS", p["s"]), ("HEADS", p["b"] * p["h"]), ("HALF_PIECES", half), ("HEADS_AT_ONCE", AT_ONCE)]
                .map(|(name, value)| (name, value as u32)),
        )
        .consts(&[("INVERSE", p.direction == Direction::Bwd)])
        .args([("x", from, Read), ("cosines", "cosines", Read), ("sines", "sines", Read), ("out", to, Write)])
        .cost(cost(p))
        .into()
}

/// Heads per thread of `heads`.
const AT_ONCE: u64 = 4;

/// Elements of a half per thread at a time.
fn across(p: &Problem, caps: &Caps) -> u64 {
    width(p["d"] / 2, p.dtype, caps)
}

fn pairs(p: &Problem, width: u64) -> Program {
    program(p, width, "rope_pairs", p["b"] * p["h"])
}

fn heads(p: &Problem, caps: &Caps) -> Program {
    program(p, across(p, caps), "rope_heads", (p["b"] * p["h"]).div_ceil(AT_ONCE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn tables_hold_cosines_and_sines_of_the_published_angles() {
        let case = parse_case("rope/fwd/b1,h1,s5000,d16/f32/scalar").expect("valid");
        let inputs = case.problem.inputs(1);
        for position in [0u64, 1, 7, 1000, 4999] {
            for i in 0..8u64 {
                let angle = position as f64 * 10_000f64.powf(-(2.0 * i as f64) / 16.0);
                let (cosine, sine) = (inputs.at(COSINES, position * 8 + i), inputs.at(SINES, position * 8 + i));
                assert!((cosine - angle.cos()).abs() < 1e-7 && (sine - angle.sin()).abs() < 1e-7, "{position} {i}");
            }
        }
    }
}
