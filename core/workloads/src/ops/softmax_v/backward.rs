//! Backward direction: `dv = Pᵀ dout` and `dx = P ∘ (dP − Σ_j P dP)` with `dP = dout vᵀ`, from the weights `P = softmax(x)`.
//!
//! The forward pass runs before the timing and leaves its weights, as in training. Operations: those of two GEMMs. The softmax
//! itself is not counted.

use std::sync::OnceLock;

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    BufferSpec, Elem, Gemm, HostBuffer, Inputs, Layout, OfNan, OpSpec, Problem, Program, Reference, Rows, StressInput,
    Tolerance, Variant,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::super::linear::stages::{GemmKind, Stages};
use super::super::softmax::backward::{BACKWARD, host_row};
use super::super::softmax::by_rows;
use super::{V, masked_x, matrix, normal, rows, sizes, softmax, weight_error, weights};
use crate::dense;

const DOUT: usize = 2;

/// Indices of the checked buffers, in buffer order.
const WEIGHTS: usize = 0;
const DX: usize = 1;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        cost,
        |p, output| tolerance(p, output, p["s"] as f64 / p["t"] as f64),
        Reference::new(row_cost, reference),
        OfNan::EVERYWHERE,
    )
    .headline("b8,s512,t512,d64")
    .shapes(shapes)
    .awkward(&[
        "s1,t1,d1",
        "s3,t5,d2",
        "b2,s64,t32,d64",
        "b3,s7,t130,d33",
        "s67,t259,d129",
        "b2,s65,t33,d5",
        "s5,t1009,d20",
        "b2,s37,t96,d72",
        // Rows that no workgroup can keep.
        "s2,t40004,d3",
        "b2,s31,t70,d260",
    ])
    .setup(|p, caps| softmax(p, caps).into())
    .host(host)
    .variants(vec![
        Variant::kernel(
            "separate",
            "three stages: both products by tiles, with dP in device memory, and the softmax's gradient",
            |p, caps| separate(p, caps, GemmKind::Tiles),
        ),
        Variant::kernel("separate_mma", "the same with the products on tensor cores", |p, caps| {
            separate(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
    ])
    .fallback(&["separate_mma", "separate"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b8,s512,t512,d64", "b16,s2048,t2048,d64"],
        _ => &["b8,s512,t512,d64", "b16,s2048,t2048,d64", "b16,s4096,t4096,d128"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, s, t, d) = (p["b"], p["s"], p["t"], p["d"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[b, s, t], normal),
        BufferSpec::input("v", Elem::Real, &[b, t, d], normal),
        BufferSpec::input("dout", Elem::Real, &[b, s, d], normal),
        BufferSpec::setup("weights", Elem::Real, &[b, s, t]),
        BufferSpec::output("dx", Elem::Real, &[b, s, t]),
        BufferSpec::output("dv", Elem::Real, &[b, t, d]),
        BufferSpec::scratch("dweights", Elem::Real, &[b, s, t]),
    ]
}

/// Host implementation. The weights of the set-up follow the inputs.
fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [v, dout, weights] = [V, DOUT, DOUT + 1].map(|buffer| inputs[buffer].f32());
    let [dx, dv] = outputs else { unreachable!("two gradients") };
    let [of_weights, of_values] = gemms(p);
    let t = p["t"] as usize;
    let dweights = dense::gemm_of(of_weights, dout, v);
    let rows = dweights.par_chunks(t).zip(weights.par_chunks(t));
    dx.par_chunks_mut(t).zip(rows).for_each(|(dx, (dweights, weights))| host_row(dx, dweights, weights));
    dv.fill(0.0);
    dense::add_gemm(of_values, weights, dout, dv);
}

/// GEMMs `dout vᵀ` and `Pᵀ dout`.
fn gemms(p: &Problem) -> [Gemm; 2] {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    let of = |m, n, k, layout| Gemm::new(m, n, k).batch(p["b"]).layout(layout);
    [of(s, t, d, Layout::Nt), of(t, d, s, Layout::Tn)]
}

fn cost(p: &Problem) -> Cost {
    let [x, v, out] = sizes(p);
    // Weights, v and dout; dx and dv.
    Cost::new(gemms(p).iter().map(Gemm::flops).sum(), x + v + out, x + v)
}

/// Tolerance for rows of x with a total weight of `mass` on a row of v, on average.
fn tolerance(p: &Problem, output: usize, mass: f64) -> Tolerance {
    let (u, f32u, d) = (p.dtype.unit_roundoff(), 2f64.powi(-24), p["d"] as f64);
    let (weight, rel) = (weight_error(p), 2.0 * u);
    match output {
        WEIGHTS => Tolerance { abs: smallest_normal(p), rel: weight, reason: "as of the workload softmax" },
        DX => Tolerance {
            // |dP| is at most about 8 √d for these inputs, and its weighted mean is no larger.
            abs: smallest_normal(p) * (1.0 + 16.0 * d.sqrt())
                + 16.0 * d.sqrt() * (2.0 * weight + u + 8.0 * f32u * d.sqrt()),
            rel,
            reason: "a weight is off by its own rounding and that of the forward pass, dP, of at most about 8 √d, by that to the \
                     element type and of a sum of d products; both enter directly and by their mean; the result is rounded",
        },
        _ => {
            let (s, all) = (p["s"] as f64, 8.0 + 4.0 * mass);
            Tolerance {
                abs: 3.47 * (all * (weight + f32u * s.sqrt()) + 4.0 * s.sqrt() * smallest_normal(p)),
                rel,
                reason: "a sum of gradients of at most 3.47 by the weights that s rows put on one of t, about s/t in total, each \
                         rounded to the element type or to zero; the sum is in f32 and is rounded once",
            }
        }
    }
}

/// Stress inputs: rows with equal weights, and rows with all weight in a third of the elements.
fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| {
        StressInput::new(
            name,
            about,
            fills,
            // All rows may put all their weight on the same one.
            |p, output| tolerance(p, output, p["s"] as f64),
        )
    };
    vec![
        set("zeros", "all zero: weights are equal, and every gradient is zero", |_| {
            vec![("x", zero), ("v", zero), ("dout", zero)]
        }),
        set("equal", "all one: the gradient of x cancels, and dv adds weights", |_| {
            vec![("x", one), ("v", one), ("dout", one)]
        }),
        set("masked", "two thirds of x, and all of every fifth row, at the number that masks hold", |p| {
            vec![("x", masked_x(p))]
        }),
    ]
}

fn row_cost(p: &Problem, output: usize) -> u64 {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    match output {
        WEIGHTS => 2 * t,
        DX => t * (d + 4),
        // Share of this row in the weights of all rows.
        _ => s * (d + 2),
    }
}

/// Weights of a row of x, computed at the first use.
fn of_row<'k>(known: &'k [OnceLock<Vec<f64>>], p: &Problem, inputs: &Inputs, row: u64) -> &'k [f64] {
    known[row as usize].get_or_init(|| weights(p, inputs, row))
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    let known: Vec<OnceLock<Vec<f64>>> = (0..p["b"] * s).map(|_| OnceLock::new()).collect();
    Box::new(move |output, row, out| match output {
        WEIGHTS => out.copy_from_slice(of_row(&known, p, inputs, row)),
        DX => {
            let weights = of_row(&known, p, inputs, row);
            let first = row / s * t;
            for (slot, j) in out.iter_mut().zip(first..) {
                *slot = (0..d).map(|c| inputs.at(DOUT, row * d + c) * inputs.at(V, j * d + c)).sum();
            }
            let mean: f64 = out.iter().zip(weights).map(|(gradient, weight)| gradient * weight).sum();
            out.iter_mut().zip(weights).for_each(|(slot, weight)| *slot = weight * (*slot - mean));
        }
        _ => {
            out.fill(0.0);
            let (item, j) = (row / t, (row % t) as usize);
            for query in item * s..(item + 1) * s {
                let weight = of_row(&known, p, inputs, query)[j];
                for (slot, at) in out.iter_mut().zip(query * d..) {
                    *slot += weight * inputs.at(DOUT, at);
                }
            }
        }
    })
}

fn separate(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let stages = Stages { dtype: p.dtype, caps, kind };
    let [of_weights, of_values] = gemms(p);
    let [x, ..] = sizes(p);
    let (share, kept) = rows(p, caps);
    let backward = match kept {
        true => share.stage(BACKWARD, "softmax_backward_row"),
        false => by_rows(matrix(p), "softmax_backward_naive"),
    };
    let backward = backward
        .args([("y", "weights", Read), ("dout", "dweights", Read), ("dx", "dx", Write)])
        .cost(Cost::new(4 * p["b"] * p["s"] * p["t"], 2 * x, x));
    Program {
        stages: vec![
            stages.gemm(of_weights, ["dout", "v", "dweights"]),
            backward,
            stages.gemm(of_values, ["weights", "dout", "dv"]),
        ],
    }
}
