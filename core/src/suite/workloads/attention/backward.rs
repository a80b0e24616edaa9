//! The backward form: `dQ`, `dK` and `dV` for a gradient `dO` of the output.
//!
//! With `P = softmax(scale · Q Kᵀ)` and `δ_i = dO_i · O_i`: `dV = Pᵀ dO`, `dS = scale · P ∘ (dO Vᵀ − δ)`, `dQ = dS K`,
//! `dK = dSᵀ Q` (Dao et al., "FlashAttention" (2022), appendix B.2). The forward pass runs before the timing and leaves
//! its output and the log-sum-exp of every row of scores, as in training.
//!
//! Operations are counted as FlashAttention's benchmarks count them: two and a half times the forward pass, because the
//! scores are made anew.

use std::sync::OnceLock;

use super::{ROW_THREADS, by_rows, by_tiles, group, normal, product, short_rows, sizes, stage, visible, weighted_sum};
use crate::suite::Access::{Read, Write};
use crate::suite::hard::{any, one, zero};
use crate::suite::{
    BufferSpec, Caps, Cost, Dialect, Direction, Elem, Fill, Form, Hard, Inputs, Preset, Problem, Program, Rate,
    Reference, Rows, Stage, Tolerance, Variant, spread,
};

mod flash;

const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const DOUT: usize = 3;

const INPUTS: [&str; 4] = ["q", "k", "v", "dout"];

/// The checked buffers, in buffer order.
const OUT: usize = 0;
const LSE: usize = 1;
const DQ: usize = 2;
const DK: usize = 3;

/// The form.
pub fn form() -> Form {
    Form {
        direction: Direction::Bwd,
        rate: Rate::Flops,
        headline: Some("b1,h8,s512,d64"),
        shapes,
        awkward: &[
            "b1,h1,s1,d1",
            "b1,h1,s1,t5,d3",
            "b2,h3,s7,d5",
            "b1,h2,s31,t67,d72",
            "b1,h2,s67,t31,d64",
            "b1,h1,s65,d129",
            "b2,h1,s13,d17,causal",
            "b1,h2,s37,t101,d64,causal",
            "b1,h2,s101,t37,d72,causal",
            // Several steps of several tiles on tensor cores.
            "b1,h1,s130,t201,d128,causal",
            // Rows that no variant keeps in registers.
            "b1,h2,s5,t9,d260",
            "b1,h4,kv1,s35,d64",
            "b2,h6,kv2,s19,t37,d24,causal",
        ],
        huge: &[],
        buffers,
        cost,
        tolerance,
        reference: Reference { row_cost, rows },
        host: None,
        variants: vec![
            Variant::kernel(
                "manual",
                "five stages with probabilities and their gradients in device memory: delta, dscores, dV, dQ, dK",
                manual,
            ),
            Variant::kernel(
                "flash",
                "probabilities made anew from the log-sum-exp, once for dK and dV over key tiles and once for dQ over query \
                 tiles: no score matrix, deterministic",
                flash::flash,
            )
            .available(|p, _| short_rows(p)),
            Variant::kernel(
                "flash_atomic",
                "probabilities made anew once, over key tiles; dQ is summed in f32 by atomic additions, which WGSL lacks",
                flash::flash_atomic,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, _| short_rows(p)),
            Variant::kernel(
                "flash_mma",
                "the same on tensor cores by warp-wide instructions, tiles copied asynchronously",
                flash::flash_mma,
            )
            .only_in(&[Dialect::Cuda])
            .available(flash::mma_available),
        ],
        fallback: &["flash_mma", "flash_atomic", "flash", "manual"],
        setup: Some(setup),
        preconditions: Vec::new(),
        hard: hard_sets(),
        only: None,
    }
}

/// The gradients of what is constant: a reference that divides zero by zero, or a kernel that does, shows here.
fn hard_sets() -> Vec<Hard> {
    vec![
        Hard {
            name: "zeros",
            about: "all zero: every key has the same weight, and every gradient is zero",
            applies: any,
            fills: |_| INPUTS.map(|name| (name, zero as Fill)).to_vec(),
            tolerance,
        },
        Hard {
            name: "equal",
            about: "all one: dV adds weights, and what reaches the scores cancels",
            applies: any,
            fills: |_| INPUTS.map(|name| (name, one as Fill)).to_vec(),
            tolerance,
        },
    ]
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "b1,h8,s512,d64",
            "b1,h16,s2048,d64",
            "b1,h16,s2048,d64,causal",
            "b1,h16,s2048,d128",
            "b1,h16,kv4,s2048,d128,causal",
        ],
        _ => &[
            "b1,h8,s512,d64",
            "b1,h16,s2048,d64",
            "b1,h16,s4096,d128",
            "b8,h16,s4096,d64,causal",
            "b8,h16,s4096,d128",
            "b8,h16,kv4,s4096,d128,causal",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, kv, s, t, d) = (p["b"], p["h"], p["kv"], p["s"], p["t"], p["d"]);
    let (queries, keys) = ([b, h, s, d], [b, kv, t, d]);
    vec![
        BufferSpec::input("q", Elem::Real, &queries, normal),
        BufferSpec::input("k", Elem::Real, &keys, normal),
        BufferSpec::input("v", Elem::Real, &keys, normal),
        BufferSpec::input("dout", Elem::Real, &queries, normal),
        BufferSpec::setup("out", Elem::Real, &queries),
        BufferSpec::setup("lse", Elem::F32, &[b, h, s]),
        BufferSpec::output("dq", Elem::Real, &queries),
        BufferSpec::output("dk", Elem::Real, &keys),
        BufferSpec::output("dv", Elem::Real, &keys),
        BufferSpec::scratch("scores", Elem::F32, &[b, h, s, t]),
        BufferSpec::scratch("dscores", Elem::F32, &[b, h, s, t]),
        BufferSpec::scratch("delta", Elem::F32, &[b, h, s]),
        // Of the variants that sum dQ by atomic additions.
        BufferSpec::scratch("dq_sum", Elem::F32, &queries),
    ]
}

fn cost(p: &Problem) -> Cost {
    let (queries, keys, _) = sizes(p);
    // Q, dO and O; K and V; a number a row.
    let read = 3 * queries + 2 * keys + p["b"] * p["h"] * p["s"] * 4;
    Cost::new(5 * product(p), read, queries + 2 * keys)
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    let f32u = 2f64.powi(-24);
    // A key has the queries of all heads that share it.
    let (s, t, d) = ((group(p) * p["s"]) as f64, p["t"] as f64, p["d"] as f64);
    // As in the forward form: the rounding of a score enters the exponent as an absolute error, and a few operations more.
    let weight = f32u * (16.0 * d.sqrt() + 8.0);
    let rel = 2.0 * u;
    match output {
        OUT => Tolerance { abs: 3.47 * (2.0 * u + weight) + f32u * t.sqrt(), rel, reason: "as in the forward form" },
        LSE => Tolerance {
            abs: weight + f32u * t.sqrt(),
            rel: 4.0 * f32u,
            reason: "the rounding of the scores, and of the logarithm of their sum; always f32",
        },
        // |dP - delta| is at most about 8 √d for these inputs. Its weight is off by `weight`, dP by the rounding of a dot
        // product, delta by that and by the rounding of the stored output, the product of all perhaps by one to the element
        // type; `scale` = 1/√d takes the √d away again.
        _ => {
            let one = 3.47 * (8.0 * weight + 16.0 * f32u * d.sqrt() + 12.0 * u);
            // dQ adds weights of one row, which sum to one. dK and dV add those of a column: their mean is s/t, for the s
            // queries of a key.
            let mass = if output == DQ { 1.0 } else { 8.0 + 4.0 * s / t };
            Tolerance {
                abs: mass * one + 3.47 * f32u * s.max(t).sqrt(),
                rel,
                reason: "weights, their gradients and delta carry f32 rounding (delta also that of the stored output, the \
                         others at most one to the element type) and are mixed by weights of total 1 (dQ) or about s/t \
                         (dK, dV); the result is rounded once",
            }
        }
    }
}

/// Of one head: what every row of its gradients needs.
struct Head {
    lse: Vec<f64>,
    delta: Vec<f64>,
    out: Vec<f64>,
}

struct Backward<'a> {
    p: &'a Problem,
    inputs: &'a Inputs,
    heads: Vec<OnceLock<Head>>,
}

fn row_cost(p: &Problem, output: usize) -> u64 {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    // A head's own work, shared by its rows, and then three products along the other side.
    match output {
        OUT => 2 * t * d,
        // One row of it is a head's.
        LSE => 2 * s * t * d,
        DQ => 5 * t * d,
        _ => 5 * group(p) * s * d,
    }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let heads = (0..p["b"] * p["h"]).map(|_| OnceLock::new()).collect();
    let state = Backward { p, inputs, heads };
    Box::new(move |output, row, out| state.row(output, row, out))
}

impl Backward<'_> {
    /// Query (or gradient of the output) `i` of a head times key (or value) `j` of those it has.
    fn dot(&self, left: usize, i: u64, right: usize, j: u64, head: u64) -> f64 {
        let (s, t, d) = (self.p["s"], self.p["t"], self.p["d"]);
        let (a, b) = ((head * s + i) * d, (self.keys(head) * t + j) * d);
        (0..d).map(|x| self.inputs.at(left, a + x) * self.inputs.at(right, b + x)).sum()
    }

    /// The head of keys and values that a head has.
    fn keys(&self, head: u64) -> u64 {
        head / group(self.p)
    }

    fn scale(&self) -> f64 {
        1.0 / (self.p["d"] as f64).sqrt()
    }

    fn head(&self, head: u64) -> &Head {
        self.heads[head as usize].get_or_init(|| {
            let (s, t, d) = (self.p["s"], self.p["t"], self.p["d"]);
            let mut found = Head { lse: Vec::new(), delta: Vec::new(), out: vec![0.0; (s * d) as usize] };
            for i in 0..s {
                let scores: Vec<f64> =
                    (0..visible(self.p, i)).map(|j| self.dot(Q, i, K, j, head) * self.scale()).collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - top).exp()).sum();
                found.lse.push(if scores.is_empty() { 0.0 } else { top + sum.ln() });
                let row = &mut found.out[(i * d) as usize..][..d as usize];
                for (j, score) in scores.iter().enumerate() {
                    let weight = (score - top).exp() / sum;
                    for (x, o) in row.iter_mut().enumerate() {
                        *o += weight * self.inputs.at(V, (self.keys(head) * t + j as u64) * d + x as u64);
                    }
                }
                let at = (head * s + i) * d;
                found.delta.push(row.iter().zip(0..).map(|(o, x)| o * self.inputs.at(DOUT, at + x)).sum());
            }
            found
        })
    }

    /// Probability of key `j` for query `i`, and the gradient of its score.
    fn weight(&self, head: u64, i: u64, j: u64) -> (f64, f64) {
        if j >= visible(self.p, i) {
            return (0.0, 0.0);
        }
        let known = self.head(head);
        let probability = (self.dot(Q, i, K, j, head) * self.scale() - known.lse[i as usize]).exp();
        let dscore = probability * (self.dot(DOUT, i, V, j, head) - known.delta[i as usize]) * self.scale();
        (probability, dscore)
    }

    /// `out = Σ factor(n) · row n` of an input's rows from `first` on.
    fn mix(&self, out: &mut [f64], n: u64, buffer: usize, first: u64, factor: impl Fn(u64) -> f64) {
        let d = self.p["d"];
        out.fill(0.0);
        for row in 0..n {
            let factor = factor(row);
            for (o, x) in out.iter_mut().zip(0..) {
                *o += factor * self.inputs.at(buffer, (first + row) * d + x);
            }
        }
    }

    fn row(&self, output: usize, row: u64, out: &mut [f64]) {
        let (s, t, d) = (self.p["s"], self.p["t"], self.p["d"]);
        let (of_query, i) = (row / s, row % s);
        let (of_key, j) = (row / t, row % t);
        // The queries of a head of keys: those of its group lie one behind the other.
        let queries = group(self.p) * s;
        let weight = |i: u64| self.weight(of_key * group(self.p) + i / s, i % s, j);
        match output {
            OUT => out.copy_from_slice(&self.head(of_query).out[(i * d) as usize..][..d as usize]),
            LSE => out.copy_from_slice(&self.head(row).lse),
            DQ => self.mix(out, t, K, self.keys(of_query) * t, |j| self.weight(of_query, i, j).1),
            DK => self.mix(out, queries, Q, of_key * queries, |i| weight(i).1),
            _ => self.mix(out, queries, DOUT, of_key * queries, |i| weight(i).0),
        }
    }
}

/// The forward pass, a row at a time: for every head_dim, and without a matrix of scores.
fn setup(p: &Problem, _caps: &Caps) -> Program {
    let (queries, keys, _) = sizes(p);
    by_rows(p, "attention/forward", "attention_forward")
        .consts(&[("COLUMNS", p["d"].div_ceil(u64::from(ROW_THREADS)) as u32)])
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write), ("lse", Write)])
        // A number per thread for reductions, and a weight.
        .shared(2 * ROW_THREADS * 4)
        .costing(Cost::new(2 * product(p), queries + 2 * keys, queries + p["b"] * p["h"] * p["s"] * 4))
        .into()
}

/// What each key gets from all queries: transposed weights of f32 times rows of an element type.
fn gradient(p: &Problem, label: &'static str, [left, right, to]: [&'static str; 3]) -> Stage {
    let (queries, keys, scores) = sizes(p);
    let stage = by_tiles(p, ["attention/gradient", "attention_gradient"], [p["kv"], p["t"], p["d"]], 2)
        .args([("left", left, Write), ("right", right, Read), ("gradient", to, Write)])
        .costing(Cost::new(product(p), scores + queries, keys));
    Stage { label: label.into(), ..stage }
}

/// `δ` of each row.
fn delta(p: &Problem) -> Stage {
    const THREADS: u64 = 256;
    const LANES: u64 = 32;
    let (queries, rows) = (sizes(p).0, p["b"] * p["h"] * p["s"]);
    stage(p, "attention/delta", "attention_delta")
        .consts(&[("THREADS", THREADS as u32), ("LANES", LANES as u32)])
        .args([("delta", Write), ("dout", Read), ("out", Read)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(rows.div_ceil(THREADS / LANES)))
        // What WGSL's reductions over neighbouring threads take.
        .shared(4 * (THREADS + THREADS / LANES * 16) as u32)
        .costing(Cost::new(2 * rows * p["d"], 2 * queries, rows * 4))
}

fn manual(p: &Problem, _caps: &Caps) -> Program {
    let (queries, keys, scores) = sizes(p);
    Program {
        stages: vec![
            delta(p),
            by_tiles(p, ["attention/backward", "attention_dscores"], [p["h"], p["s"], p["t"]], 4)
                .args([
                    ("delta", "delta", Read),
                    ("dout", "dout", Read),
                    ("probabilities", "scores", Write),
                    ("dscores", "dscores", Write),
                    ("q", "q", Read),
                    ("k", "k", Read),
                    ("v", "v", Read),
                    ("lse", "lse", Read),
                ])
                .costing(Cost::new(2 * product(p), 2 * (queries + keys), 2 * scores)),
            gradient(p, "attention_dv", ["scores", "dout", "dv"]),
            // Queries get from all keys what a weighted sum is.
            Stage { label: "attention_dq".into(), ..weighted_sum(p, ["dscores", "k", "dq"]) },
            gradient(p, "attention_dk", ["dscores", "q", "dk"]),
        ],
    }
}
