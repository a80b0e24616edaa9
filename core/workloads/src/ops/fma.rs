//! Fused multiply-adds: `out[i] = Σ_j acc[j]` after `k` rounds of `acc[j] = a[i, j mod 2]·acc[j] + b[i,j]` on eight independent
//! accumulators that start at `b[i,j]`.
//!
//! Memory traffic is negligible, so its speed is the rate of the arithmetic units. This is the ceiling of all kernels without
//! matrix units. It is a probe for that ceiling and belongs to no preset.
//!
//! A thread has two factors. A pair of equal 16-bit factors compiles to another instruction, which reads one half of a register
//! twice. NVIDIA's devices execute half as many of these. Rates of f16 on an H100:
//!
//! - One factor: 64 TFLOP/s.
//! - Two factors: 91 TFLOP/s in CUDA, 85 through wgpu.
//!
//! With `a` in [1/4, 1/2) and `b` in [1/4, 1), accumulators rise towards `b / (1 - a) < 2`. There is no overflow, no subnormal
//! number, and no cancellation. Operations: `2·8·k` per thread.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, smallest_normal, subnormal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Finds, HostBuffer, Inputs, OfNan, OpSpec, Probe, Problem, Program, Reference, Role,
    Shape, Stage, StressInput, Tolerance, Variant, Workload, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Rate};
use parallax_schema::units::{Bytes, Flops};

const A: usize = 0;
const B: usize = 1;

/// Independent accumulators of a thread: enough to hide the latency of one multiply-add behind the others.
pub(super) const ACCUMULATORS: u64 = 8;
/// Factors of a thread.
pub(super) const FACTORS: u64 = 2;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[
            Probe {
                finds: Finds::Arithmetic,
                shape: |s| Some(if s.emulated { "n4096,k256" } else { "n262144,k2048" }.to_owned()),
                variants: &[],
            },
            Probe {
                finds: Finds::Speed,
                shape: |s| {
                    let (threads, rounds) = if s.emulated { (1 << 12, 64) } else { (1 << 18, 256) };
                    Some(format!("n{threads},k{}", rounds * s.longer))
                },
                variants: &["scalar"],
            },
        ],
        about: "multiply-adds in registers: arithmetic rate",
        axes: const { &[Axis::extent("n", "threads"), Axis::extent("k", "rounds")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| match shape["n"] {
            n if n > MOST => Err(format!("kernels count threads in 32 bits: at most {MOST} of them")),
            _ => Ok(()),
        },
        forms: vec![
            OpSpec::new(
                Direction::Fwd,
                Rate::Flops,
                buffers,
                cost,
                tolerance,
                Reference::new(row_cost, |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out))),
                OfNan::EVERYWHERE,
            )
            .awkward(&["n1,k1", "n1,k16", "n3,k15", "n257,k17", "n1009,k5", "n640,k100"])
            .host(host)
            .variants(vec![
                Variant::kernel("scalar", "eight accumulators of one element", |p, _| {
                    program(p, "fma/scalar", "fma_scalar")
                }),
                Variant::kernel(
                    "vec2",
                    "four accumulators of two elements: units for 16-bit floats take two at a time",
                    |p, _| program(p, "fma/vec2", "fma_vec2"),
                ),
            ])
            .fallback(&["vec2", "scalar"])
            .stress(stress_inputs()),
        ],
    }
}

/// Largest number of threads: indices must not overflow 32 bits even if a grid extends past the end.
const MOST: u64 = 1 << 28;

/// Number in [1/4, 1/2), with a margin for rounding to the element type.
fn factor(_: &Shape, draw: Draw) -> f64 {
    0.25 + 0.2475 * draw.uniform()
}

/// Number in [1/4, 1), with the same margin.
fn term(_: &Shape, draw: Draw) -> f64 {
    0.25 + 0.7425 * draw.uniform()
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let n = p["n"];
    // In f32 for every element type, to show the rounding of the rounds, not of the last sum.
    let out = BufferSpec { role: Role::Output { row_len: 1 }, ..BufferSpec::output("out", Elem::F32, &[n]) };
    vec![
        BufferSpec::input("a", Elem::Real, &[n, FACTORS], factor),
        BufferSpec::input("b", Elem::Real, &[n, ACCUMULATORS], term),
        out,
    ]
}

fn cost(p: &Problem) -> Cost {
    let element = Elem::Real.storage(p.dtype).bytes();
    Cost {
        flops: Flops(2 * ACCUMULATORS * p["k"] * p["n"]),
        read: Bytes((FACTORS + ACCUMULATORS) * p["n"] * element),
        written: Bytes(p["n"] * 4),
    }
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    Tolerance {
        abs: 0.0,
        // Second-order terms are under a hundredth of the first, even for bf16.
        rel: 1.02 * (4.0 * u + 8.0 * 2f64.powi(-24)),
        reason: "a round adds at most 2u of the accumulator (WGSL may round product and sum apart) and shrinks the previous \
                 value by a < 1/2, a geometric series of sum 4u for rising positive values; eight are summed in f32",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "zero times zero plus zero, over and over",
            |_| vec![("a", zero), ("b", zero)],
            exact,
        ),
        StressInput::new(
            "equal",
            "a = 1/4 and b = 1/2 everywhere: all accumulators rise alike",
            |_| vec![("a", |_, _| 0.25), ("b", |_, _| 0.5)],
            tolerance,
        ),
        StressInput::new(
            "huge",
            "terms near the end of the range: accumulators stay below twice that, their sum within f32",
            |p| match p.dtype {
                DType::F16 => vec![("b", |_, draw| 3e4 * (0.25 + 0.7425 * draw.uniform()))],
                _ => vec![("b", |_, draw| 1e37 * (0.25 + 0.7425 * draw.uniform()))],
            },
            tolerance,
        ),
        StressInput::new(
            "subnormal",
            "terms too small to be normal: the sum is small, or zero where the device flushes them",
            |p| vec![("b", subnormal(p))],
            |p, _| Tolerance {
                abs: 4.0 * ACCUMULATORS as f64 * smallest_normal(p),
                rel: 0.0,
                reason: "each of eight accumulators stays below twice such a number, and may be taken for zero",
            },
        ),
    ]
}

fn row_cost(p: &Problem, _output: usize) -> u64 {
    ACCUMULATORS * p["k"]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    out[0] = 0.0;
    for j in 0..ACCUMULATORS {
        let (a, b) = (inputs.at(A, row * FACTORS + j % FACTORS), inputs.at(B, row * ACCUMULATORS + j));
        let mut acc = b;
        for _ in 0..p["k"] {
            acc = a * acc + b;
        }
        out[0] += acc;
    }
}

/// Host implementation with eight independent chains at once, of four or of eight elements. They hide most of the latency of a
/// multiplication and an addition, and fit into sixteen registers. More would not fit.
fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    match has_fma() {
        true => side_by_side::<8>(p, inputs, outputs),
        false => side_by_side::<4>(p, inputs, outputs),
    }
}

/// Whether this processor has fused multiply-adds of eight numbers.
fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn side_by_side<const R: usize>(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    const EACH: usize = ACCUMULATORS as usize;
    const TWO: usize = FACTORS as usize;
    let factors = inputs[A].f32().par_chunks(R * TWO);
    let terms = inputs[B].f32().par_chunks(R * EACH);
    outputs[0].par_chunks_mut(R).zip(factors).zip(terms).for_each(|((out, a), b)| {
        let factor = |i: usize| std::array::from_fn::<f32, EACH, _>(|j| a[i * TWO + j % TWO]);
        let term = |i: usize| std::array::from_fn::<f32, EACH, _>(|j| b[i * EACH + j]);
        if out.len() == R {
            out.copy_from_slice(&rounds::<R>(p["k"], std::array::from_fn(factor), std::array::from_fn(term)));
        } else {
            out.iter_mut().enumerate().for_each(|(i, out)| [*out] = rounds(p["k"], [factor(i)], [term(i)]));
        }
    });
}

/// One number per accumulator of a thread.
type Eight = [f32; ACCUMULATORS as usize];

/// Rounds of `R` threads at once, with the processor's best instructions. A ceiling must not be below the rate of libraries that
/// use them.
#[allow(unsafe_code, reason = "the instructions are of some processors only, which no type says")]
fn rounds<const R: usize>(k: u64, a: [Eight; R], b: [Eight; R]) -> [f32; R] {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        // SAFETY: the processor has both.
        return unsafe { rounds_with_fma(k, a, b) };
    }
    rounds_by(k, a, b, |a, x, b| a * x + b)
}

/// Rounds with fused multiply-adds of eight numbers at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn rounds_with_fma<const R: usize>(k: u64, a: [Eight; R], b: [Eight; R]) -> [f32; R] {
    rounds_by(k, a, b, f32::mul_add)
}

/// Rounds by the given step. `mul_add` is a library call on a processor without such an instruction.
#[inline(always)]
fn rounds_by<const R: usize>(k: u64, a: [Eight; R], b: [Eight; R], step: impl Fn(f32, f32, f32) -> f32) -> [f32; R] {
    let mut acc = b;
    for _ in 0..k {
        for ((acc, a), b) in acc.iter_mut().zip(&a).zip(&b) {
            for ((x, a), b) in acc.iter_mut().zip(a).zip(b) {
                *x = step(*a, *x, *b);
            }
        }
    }
    acc.map(|acc| acc.iter().sum())
}

/// Threads of a workgroup.
const THREADS: u64 = 256;

fn program(p: &Problem, text: &'static str, entry: &'static str) -> Program {
    Stage::kernel(entry, text, entry)
        .consts(&[("N", p["n"] as u32), ("K", p["k"] as u32), ("THREADS", THREADS as u32)])
        .args([("a", Read), ("b", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["n"].div_ceil(THREADS)))
        .cost(cost(p))
        .into()
}
