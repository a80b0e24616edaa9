//! Gaussian error linear unit of each element: `out = x · Φ(x)` with the normal distribution function `Φ`.
//!
//! Formula: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016). `erf` uses `Φ` itself. `tanh`, the default, uses their
//! approximation `Φ(x) ≈ (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2`. Backward: `dx = dout · (Φ(x) + x Φ′(x))`.
//!
//! Operations: ten an element forward and fifteen backward. Bytes: each matrix read or written once.

use std::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, scattered_nan, smallest_normal, subnormal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, HostBuffer, OfNan, OpSpec, Problem, Program, Reference, Role, Shape, Stage,
    StressInput, Tolerance, Variant, Workload, by_pieces, indexable, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use super::copy::row_len;

use crate::real::{Real, logistic, narrow};
use crate::vector;

const X: usize = 0;
const DOUT: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "Gaussian error linear unit",
        axes: const { &[Axis::extent("n", "elements"), Axis::word("formula", "how Φ is defined", &["tanh", "erf"])] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"]),
        forms: vec![forward(), backward()],
    }
}

const AWKWARD: &[&str] = &["n1,tanh", "n3,erf", "n1009,tanh", "n2050,erf", "n4100,tanh", "n4104,erf", "n65544,tanh"];

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| vec![BufferSpec::input("x", Elem::Real, &[p["n"]], wide), output(p, "out")],
        |p| Cost::new(10 * p["n"], bytes(p), bytes(p)),
        tolerance,
        Reference::new(
            |p, _| 4 * row_len(p),
            |p, inputs| {
                Box::new(move |_, row, out| {
                    for (out, at) in out.iter_mut().zip(row * row_len(p)..) {
                        let x = inputs.at(X, at);
                        *out = x * share(p, x);
                    }
                })
            },
        ),
        OfNan::Kept,
    )
    .headline("n4194304,tanh")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("scalar", "one element per thread", |p, _| program(p, 1)),
        Variant::kernel("vector", "a vector per thread in one access", |p, caps| {
            program(p, width(p["n"], p.dtype, caps))
        }),
    ])
    .fallback(&["vector", "scalar"])
    .stress(stress_inputs(tolerance))
}

fn backward() -> OpSpec {
    OpSpec {
        direction: Direction::Bwd,
        buffers: |p| {
            let input = |name| BufferSpec::input(name, Elem::Real, &[p["n"]], wide);
            vec![input("x"), input("dout"), output(p, "dx")]
        },
        cost: |p| Cost::new(15 * p["n"], 2 * bytes(p), bytes(p)),
        tolerance: slope_tolerance,
        reference: Reference::new(
            |p, _| 8 * row_len(p),
            |p, inputs| {
                Box::new(move |_, row, out| {
                    for (out, at) in out.iter_mut().zip(row * row_len(p)..) {
                        *out = inputs.at(DOUT, at) * slope(p, inputs.at(X, at));
                    }
                })
            },
        ),
        host: Some(host_backward),
        stress: stress_inputs(slope_tolerance),
        nan: OfNan::Kept,
        ..forward()
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n4194304,tanh", "n4194304,erf", "n67108864,tanh"],
        _ => &["n4194304,tanh", "n67108864,tanh", "n67108864,erf", "n268435456,tanh"],
    }
}

/// Normal number of three times the usual deviation, so that both tails occur.
pub(super) fn wide(_: &Shape, draw: Draw) -> f64 {
    3.0 * draw.normal()
}

/// Output that is checked in the longest rows of equal length.
fn output(p: &Problem, name: &'static str) -> BufferSpec {
    BufferSpec { role: Role::Output { row_len: row_len(p) }, ..BufferSpec::output(name, Elem::Real, &[p["n"]]) }
}

/// Bytes of one array.
fn bytes(p: &Problem) -> u64 {
    p["n"] * Elem::Real.storage(p.dtype).bytes()
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: 2e-6 + smallest_normal(p),
        rel: 1e-5 + 2.0 * p.dtype.unit_roundoff(),
        reason: "Φ by a formula that is off by 7.5e-8, times elements of at most 10.4; exponents up to 90, of which WGSL's exp \
                 may be off by 3 + 2·90 units in the last place where the result is small; the result is rounded once",
    }
}

fn slope_tolerance(p: &Problem, output: usize) -> Tolerance {
    Tolerance {
        abs: 3.47 * 4e-6 + smallest_normal(p),
        reason: "as in the forward form: the slope is at most 1.13, its two terms may cancel, and gradients are at most 10.4",
        ..tolerance(p, output)
    }
}

/// Stress inputs with overflow or underflow of powers and exponentials.
fn stress_inputs(tolerance: fn(&Problem, usize) -> Tolerance) -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero: a result of zero, and a slope of a half", |_| vec![("x", zero)]),
        set("equal", "all one", |_| vec![("x", one)]),
        set("huge", "up to 6e4 in f16 and 1e30 otherwise, of either sign: x itself, or zero", |p| {
            vec![("x", huge_x(p))]
        }),
        set("subnormal", "numbers too small to be normal: half of them, or zero where the device flushes them", |p| {
            vec![("x", subnormal(p))]
        }),
        set("nan", "NaN among numbers: so are results", |_| vec![("x", scattered_nan)]),
    ]
}

fn huge_x(p: &Problem) -> Fill {
    match p.dtype {
        DType::F16 => |_, draw| 6e4 * (2.0 * draw.uniform() - 1.0),
        DType::F32 | DType::BF16 => |_, draw| 1e30 * (2.0 * draw.uniform() - 1.0),
    }
}

/// Normal distribution function: its series around zero, with only positive terms.
fn normal_share(x: f64) -> f64 {
    // The tails vanish there, and their rounding would be multiplied by x.
    if x.abs() > 9.0 {
        return if x < 0.0 { 0.0 } else { 1.0 };
    }
    let z = x.abs();
    let (mut term, mut sum, mut n) = (z, z, 1.0);
    while term > sum * 1e-18 {
        n += 2.0;
        term *= z * z / n;
        sum += term;
    }
    let half = (-z * z / 2.0).exp() / (2.0 * PI).sqrt() * sum;
    if x < 0.0 { 0.5 - half } else { 0.5 + half }
}

/// `Φ`, or its approximation.
fn share(p: &Problem, x: f64) -> f64 {
    if p.shape.has("erf") { normal_share(x) } else { tanh_share(x) }
}

/// Factor of the third power in the argument of the tanh formula.
const CUBIC: f64 = 0.044715;

/// `(1 + tanh(u)) / 2` as a logistic function, without cancellation.
#[inline(always)]
fn tanh_share<T: Real>(x: T) -> T {
    logistic(narrow::<T>(FRAC_2_SQRT_PI * SQRT_2) * (x + narrow::<T>(CUBIC) * x * x * x))
}

/// GELU by the tanh formula.
#[inline(always)]
pub(super) fn gelu_tanh<T: Real>(x: T) -> T {
    x * tanh_share(x)
}

/// Slope of GELU by the tanh formula.
#[inline(always)]
pub(super) fn slope_tanh<T: Real>(x: T) -> T {
    // The second term is zero beyond it, and powers of x would be infinite.
    let far = narrow::<T>(30.0);
    let near = x.clamp(-far, far);
    let share = tanh_share(near);
    let inner = narrow::<T>(FRAC_2_SQRT_PI * SQRT_2) * (T::one() + narrow::<T>(3.0 * CUBIC) * near * near);
    share + near * share * (T::one() - share) * inner
}

/// Slope `Φ(x) + x Φ′(x)`.
fn slope(p: &Problem, x: f64) -> f64 {
    if p.shape.has("erf") { slope_erf(x) } else { slope_tanh(x) }
}

/// Slope with the exact `Φ`.
fn slope_erf(x: f64) -> f64 {
    let near = x.clamp(-30.0, 30.0);
    normal_share(near) + near * (-near * near / 2.0).exp() / (2.0 * PI).sqrt()
}

/// Elements of a piece that one thread computes.
const PIECE: usize = 1 << 14;

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let erf = p.shape.has("erf");
    let pieces = outputs[0].par_chunks_mut(PIECE).zip(inputs[X].f32().par_chunks(PIECE));
    pieces.for_each(|(out, x)| match erf {
        true => out.iter_mut().zip(x).for_each(|(out, x)| *out = x * normal_share(f64::from(*x)) as f32),
        false => vector::map(out, x, gelu_tanh),
    });
}

fn host_backward(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let erf = p.shape.has("erf");
    let [x, dout] = [X, DOUT].map(|at| inputs[at].f32().par_chunks(PIECE));
    outputs[0].par_chunks_mut(PIECE).zip(x).zip(dout).for_each(|((out, x), dout)| match erf {
        true => vector::zip(out, [x, dout], |x, dout| dout * slope_erf(f64::from(x)) as f32),
        false => vector::zip(out, [x, dout], |x, dout| dout * slope_tanh(x)),
    });
}

fn program(p: &Problem, width: u64) -> Program {
    let erf = p.shape.has("erf");
    match p.direction {
        Direction::Fwd => stage(p["n"], width, "gelu_forward", erf).args([("x", Read), ("out", Write)]),
        _ => stage(p["n"], width, "gelu_backward", erf).args([("x", Read), ("dout", Read), ("dx", Write)]),
    }
    .cost(p.cost())
    .into()
}

/// Stage on `n` elements, in pieces of `width`.
fn stage(n: u64, width: u64, entry: &'static str, erf: bool) -> Stage {
    by_pieces(n / width, width, "gelu/pointwise", entry).consts(&[("ERF", erf)])
}

/// Forward stage of the tanh formula, from one buffer of `n` elements to another.
pub(super) fn forward_stage(n: u64, dtype: DType, caps: &Caps, [x, out]: [&'static str; 2]) -> Stage {
    let bytes = n * Elem::Real.storage(dtype).bytes();
    stage(n, width(n, dtype, caps), "gelu_forward", false).args([("x", x, Read), ("out", out, Write)]).cost(Cost::new(
        10 * n,
        bytes,
        bytes,
    ))
}

/// Backward stage of the tanh formula on buffers of `n` elements: input, gradient of the result, and gradient of the input.
pub(super) fn backward_stage(n: u64, dtype: DType, caps: &Caps, [x, dout, dx]: [&'static str; 3]) -> Stage {
    let bytes = n * Elem::Real.storage(dtype).bytes();
    stage(n, width(n, dtype, caps), "gelu_backward", false)
        .args([("x", x, Read), ("dout", dout, Read), ("dx", dx, Write)])
        .cost(Cost::new(15 * n, 2 * bytes, bytes))
}

/// Fused stage of both: `gelu(x)` to `anew`, and the gradient. In CUDA `x` and `anew` may be one buffer, and so may both gradients.
pub(super) fn through_stage(n: u64, dtype: DType, caps: &Caps, [x, dout, anew, dx]: [&'static str; 4]) -> Stage {
    let bytes = n * Elem::Real.storage(dtype).bytes();
    stage(n, width(n, dtype, caps), "gelu_through", false)
        .args([("x", x, Read), ("dout", dout, Read), ("anew", anew, Write), ("gradient", dx, Write)])
        .cost(Cost::new(25 * n, 2 * bytes, 2 * bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn the_normal_distribution_has_its_published_values() {
        for (x, want) in
            [(0.0, 0.5), (1.0, 0.841_344_746_068_543), (-2.0, 0.022_750_131_948_179), (5.0, 0.999_999_713_348_428)]
        {
            assert!((normal_share(x) - want).abs() < 1e-14, "{x}: {}", normal_share(x));
        }
    }

    #[test]
    fn slopes_are_those_of_the_function() {
        for formula in ["tanh", "erf"] {
            let case = parse_case(&format!("gelu/bwd/n1,{formula}/f32/scalar")).expect("valid");
            for x in [-6.0, -1.5, 0.0, 0.3, 4.0] {
                let of = |x| x * share(&case.problem, x);
                let difference = (of(x + 1e-5) - of(x - 1e-5)) / 2e-5;
                assert!((slope(&case.problem, x) - difference).abs() < 1e-8, "{formula} {x}");
            }
        }
    }
}
