//! The backward form: gradients of `x` and of everything that the layer learns, for a gradient `dout` of the result.
//!
//! The forward pass runs before the timing and leaves what a backward pass wants of it, as in training: queries, keys and
//! values, what attention mixes of them with the log-sum-exp of its rows, the sum `y`, and the statistics of both norms; with
//! `kept` also what GELU is taken of. Normalised rows are made anew. Gradients of the weights and biases of queries, keys and
//! values lie side by side.

use super::super::attention_block::items::{Items, normal_items};
use super::super::attention_block::{
    PROJECTED, Rounding, attention, merge, output, projected, row_count, side_by_side, split, stages, width,
};
use super::super::linear::backward::by_element;
use super::super::linear::stages::{By, Then, most_parts};
use super::super::{add_layernorm, gelu};
use super::forward::{MLP, flash_of, fusable, normed, products};
use super::layer::{Gradients, Passed};
use super::{
    BQ, BQKV, Errors, LEARNED, WQ, WQKV, X, inputs, kept, layer_of, likely, operations, parameters, read, row_beside,
    side_by_side_buffers, sizes,
};
use crate::suite::hard::{any, smallest_normal, zero};
use crate::suite::{
    BufferSpec, Caps, Cost, Dialect, Direction, Draw, Elem, Form, Hard, HostBuffer, Inner, Inputs, MOST_PARTS, Preset,
    Problem, Product, Program, Rate, Rearrange, Reference, Rows, Shape, Stage, Stored, Tolerance, Variant,
};

pub(super) const DOUT: usize = 1 + LEARNED.len();

/// The form.
pub fn form() -> Form {
    Form {
        direction: Direction::Bwd,
        rate: Rate::Flops,
        headline: Some("b1,s64,h8,d64,f2048"),
        shapes,
        awkward: super::AWKWARD,
        huge: &[],
        buffers,
        cost,
        tolerance: |p, output| tolerance(p, output, 1.0),
        reference: Reference { row_cost, rows },
        setup: Some(setup),
        host: Some(host),
        variants: vec![
            Variant::kernel("unfused", "every step a stage, scores and their gradients in device memory", unfused),
            Variant::kernel(
                "fused",
                "probabilities made anew from the log-sum-exp, GELU and its slope done to sums in registers, products for \
                 queries, keys and values in one",
                |p, caps| fused(p, caps, By::Tiles),
            )
            .available(|p, caps| available(p, caps, By::Tiles)),
            Variant::kernel("mma", "the same on tensor cores by warp-wide instructions", |p, caps| {
                fused(p, caps, By::Mma)
            })
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| available(p, caps, By::Mma)),
            Variant::kernel("vendor", "the same with products by the vendor's library, cuBLASLt", |p, caps| {
                fused(p, caps, By::Library)
            })
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| available(p, caps, By::Library)),
        ],
        // Not `vendor`: a figure for the library must never be a kernel's of ours.
        fallback: &["mma", "fused", "unfused"],
        preconditions: Vec::new(),
        hard: hard_sets(),
        only: None,
    }
}

pub(super) fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,s64,h8,d64,f2048", "b1", "b8", "b8,kept"],
        _ => &["b1,s64,h8,d64,f2048", "b8", "b128", "b1024", "b1024,kept"],
    }
}

fn gradient_of_items(shape: &Shape, draw: Draw) -> f64 {
    normal_items(draw, shape["s"] * shape["h"] * shape["d"])
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, s, f) = (p["b"], p["s"], p["f"]);
    let mut buffers = inputs(p);
    buffers.push(upstream(p));
    buffers.extend(side_by_side_buffers(p));
    buffers.extend(remembered(p, BufferSpec::setup));
    let pre = if kept(p) { BufferSpec::setup } else { BufferSpec::scratch };
    buffers.push(pre("pre", Elem::Real, &[b, s, f]));
    buffers.extend(gradients(p));
    buffers.extend(scratch(p));
    buffers
}

/// The gradient that comes in.
pub(super) fn upstream(p: &Problem) -> BufferSpec {
    BufferSpec::input("dout", Elem::Real, &[p["b"], p["s"], width(p)], gradient_of_items)
}

/// What the forward pass leaves for the backward pass, in buffers of one role.
pub(super) fn remembered(p: &Problem, role: Make) -> Vec<BufferSpec> {
    let (b, h, s, d) = (p["b"], p["h"], p["s"], p["d"]);
    let mut buffers = ["q", "k", "v", "mixed"].map(|name| role(name, Elem::Real, &[b, h, s, d])).to_vec();
    buffers.push(role("lse", Elem::F32, &[b, h, s, 1]));
    buffers.push(role("sum", Elem::Real, &[b, s, width(p)]));
    buffers.extend(["mean1", "rstd1", "mean2", "rstd2"].map(|name| role(name, Elem::F32, &[b, s, 1])));
    buffers
}

/// Gradients of the rows and of what the layer learns.
pub(super) fn gradients(p: &Problem) -> Vec<BufferSpec> {
    let (c, f) = (width(p), p["f"]);
    let learned: [(&'static str, &[u64]); 12] = [
        ("dgamma1", &[c]),
        ("dbeta1", &[c]),
        ("dwqkv", &[c, 3 * c]),
        ("dbqkv", &[3 * c]),
        ("dwo", &[c, c]),
        ("dbo", &[c]),
        ("dgamma2", &[c]),
        ("dbeta2", &[c]),
        ("dw1", &[c, f]),
        ("db1", &[f]),
        ("dw2", &[f, c]),
        ("db2", &[c]),
    ];
    let dx = BufferSpec::output("dx", Elem::Real, &[p["b"], p["s"], c]);
    std::iter::once(dx).chain(learned.map(|(name, dims)| by_element(name, dims))).collect()
}

/// What the stages of either variant leave for each other.
pub(super) fn scratch(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, s, d, c, f, rows) = (p["b"], p["h"], p["s"], p["d"], width(p), p["f"], row_count(p));
    let of_rows = [
        ("normed", c),
        ("qkv", 3 * c),
        ("merged", c),
        ("projected", c),
        ("normed2", c),
        ("hidden", f),
        ("dhidden", f),
        ("dpre", f),
        ("dnormed", c),
        ("through", c),
        ("dsum", c),
        ("dmerged", c),
        ("dqkv", 3 * c),
        ("dq_rows", c),
        ("dk_rows", c),
        ("dv_rows", c),
        ("product", c),
        ("some", c),
    ];
    let real = |name: &'static str, dims: &[u64]| BufferSpec::scratch(name, Elem::Real, dims);
    let mut buffers = of_rows.map(|(name, columns)| real(name, &[b, s, columns])).to_vec();
    buffers.extend(["dmixed", "dq", "dk", "dv"].map(|name| real(name, &[b, h, s, d])));
    buffers.extend(["dwq", "dwk", "dwv"].map(|name| real(name, &[c, c])));
    buffers.extend(["dbq", "dbk", "dbv"].map(|name| real(name, &[c])));
    buffers.extend(["mean", "rstd"].map(|name| BufferSpec::scratch(name, Elem::F32, &[b, s, 1])));
    let inner = attention(p, Direction::Bwd);
    buffers.extend(["scores", "dscores", "delta", "dq_sum"].map(|name| inner.scratch(name, name)));
    buffers.push(BufferSpec::scratch("norm_parts", Elem::F32, &[rows.min(MOST_PARTS), 2, c]));
    buffers.push(BufferSpec::scratch("parts", Elem::F32, &[most_parts(rows), (3 * c).max(f)]));
    buffers
}

pub(super) type Make = fn(&'static str, Elem, &[u64]) -> BufferSpec;

pub(super) fn cost(p: &Problem) -> Cost {
    let ([matrix, learned, middle], element) = (sizes(p), Elem::Real.storage(p.dtype).bytes());
    let [products, attention] = operations(p);
    let pre = if kept(p) { middle } else { 0 };
    // x, dout, queries, keys, values, what is mixed of them, and the sum.
    Cost::new(2 * products + attention * 5 / 2, (7 * matrix + learned + pre) * element, (matrix + learned) * element)
}

/// The checked buffers from the third on, in buffer order; what is kept is left out where it is not.
const Q: usize = 2;
const MIXED: usize = 5;
const LSE: usize = 6;
const SUM: usize = 7;
const MEAN1: usize = 8;
const RSTD1: usize = 9;
const MEAN2: usize = 10;
const RSTD2: usize = 11;
const PRE: usize = 12;
pub(super) const DX: usize = 13;
const FIRST_LEARNED: usize = 14;

pub(super) fn checked(p: &Problem, output: usize) -> usize {
    if kept(p) || output < PRE { output } else { output + 1 }
}

/// For a gradient that is so many times as large as a seeded one.
pub(super) fn tolerance(p: &Problem, output: usize, dout: f64) -> Tolerance {
    let errors = Errors::of(p, 1.0);
    let Rounding { u, sum: by_width } = Rounding::of(p, width(p));
    let (by_middle, by_rows) = (Rounding::of(p, p["f"]).sum, Rounding::of(p, row_count(p)).sum);
    let rows = row_count(p) as f64;
    // Gradients grow on their way back: those behind the MLP are about three, those behind attention, with values of as much,
    // about six. A norm divides by how far its rows spread, of which short rows have little.
    let spread = if width(p) < 32 { 300.0 } else { 2.0 };
    let behind_mlp = 3.0 * spread * (errors.pre + 4.0 * u + by_width + by_middle);
    let behind_attention =
        4.0 * spread * (behind_mlp + 4.0 * (errors.projected + errors.mixed) + 6.0 * u + 2.0 * by_width);
    // A sum over all rows of products with what is off itself.
    let over_rows = |gradient: f64, size: f64, other: f64| {
        dout * (rows.sqrt() * (gradient + size * (other + u)) + 4.0 * size * rows.sqrt() * by_rows)
    };
    match checked(p, output) {
        WQKV | BQKV => Tolerance { abs: smallest_normal(p), rel: 0.0, reason: "copied" },
        Q..MIXED => likely(p, errors.projected),
        MIXED => likely(p, errors.mixed),
        LSE => likely(p, 2.0 * errors.projected + 2f64.powi(-22)),
        SUM => likely(p, errors.sum),
        MEAN1 => likely(p, by_width),
        RSTD1 => likely(p, spread * by_width),
        MEAN2 => likely(p, errors.sum),
        RSTD2 => likely(p, spread * errors.sum),
        PRE => likely(p, errors.pre),
        DX => likely(p, dout * behind_attention),
        learned => match learned - FIRST_LEARNED {
            0..=3 => likely(p, over_rows(behind_attention, 6.0 * spread, errors.projected)),
            4..=7 => likely(p, over_rows(behind_mlp, 3.0 * spread, errors.mixed)),
            _ => likely(p, over_rows(behind_mlp, 3.0, errors.pre)),
        },
    }
}

fn hard_sets() -> Vec<Hard> {
    vec![
        Hard {
            name: "zeros",
            about: "no gradient: every gradient is zero",
            applies: any,
            fills: |_| vec![("dout", zero)],
            tolerance: |p, output| match checked(p, output) {
                0..DX => tolerance(p, output, 1.0),
                _ => Tolerance { abs: smallest_normal(p), rel: 0.0, reason: "sums of zeros are zero" },
            },
        },
        Hard {
            name: "small",
            about: "gradients a thousand times smaller, as at the end of a training",
            applies: any,
            fills: |_| vec![("dout", |shape, draw| gradient_of_items(shape, draw) / 1024.0)],
            // What underflows in 16 bits is lost once for each of the rows that are summed.
            tolerance: |p, output| {
                let seeded = tolerance(p, output, 1.0 / 1024.0);
                let lost = smallest_normal(p) * 64.0 * (row_count(p) as f64).sqrt();
                Tolerance { abs: seeded.abs + lost, ..seeded }
            },
        },
    ]
}

/// A row's own share of an item; of what all rows go into, of all items that differ.
fn row_cost(p: &Problem, output: usize) -> u64 {
    let of_row = width(p) * (4 * width(p) + 2 * p["f"] + 2 * p["s"]);
    match checked(p, output) {
        WQKV | BQKV => 1,
        0..DX => of_row,
        DX => 3 * of_row,
        _ => p["s"],
    }
}

/// What the reference knows: of each item its forward pass and its gradients.
pub(super) struct Known<'a> {
    p: &'a Problem,
    inputs: &'a Inputs,
    pub(super) items: Items<(Passed<f64>, Gradients<f64>)>,
}

impl Known<'_> {
    /// The sum over all items of an element of what the layer learns.
    pub(super) fn learned(&self, which: usize, at: usize) -> f64 {
        self.items.counted().map(|((_, gradients), count)| count * gradients.learned[which][at]).sum()
    }

    fn row(&self, output: usize, row: u64, out: &mut [f64]) {
        let (s, c, f, d) = (self.p["s"], width(self.p), self.p["f"], self.p["d"]);
        let within = |from: &[f64], at: u64, columns: u64| from[(at * columns) as usize..][..columns as usize].to_vec();
        let passed = |item: u64| &self.items.item(item).0;
        // Rows of heads are counted through the heads of an item, which lie side by side here.
        let (item, i) = (row / s, row % s);
        let (head, of_heads) = (item % self.p["h"], item / self.p["h"]);
        let of_head = |from: &[f64]| from[(i * c + head * d) as usize..][..d as usize].to_vec();
        match checked(self.p, output) {
            WQKV => row_beside(self.p, self.inputs, WQ, row, out),
            BQKV => row_beside(self.p, self.inputs, BQ, 0, out),
            of @ Q..MIXED => out.copy_from_slice(&of_head(&passed(of_heads).qkv[of - Q])),
            MIXED => out.copy_from_slice(&of_head(&passed(of_heads).attended.out)),
            LSE => out[0] = passed(of_heads).attended.lse[(head * s + i) as usize],
            SUM => out.copy_from_slice(&within(&passed(item).sum, i, c)),
            MEAN1 => out[0] = passed(item).norm1.mean[i as usize],
            RSTD1 => out[0] = passed(item).norm1.rstd[i as usize],
            MEAN2 => out[0] = passed(item).norm2.mean[i as usize],
            RSTD2 => out[0] = passed(item).norm2.rstd[i as usize],
            PRE => out.copy_from_slice(&within(&passed(item).pre, i, f)),
            DX => out.copy_from_slice(&within(&self.items.item(item).1.dx, i, c)),
            learned => out[0] = self.learned(learned - FIRST_LEARNED, row as usize),
        }
    }
}

/// Both passes of all items that differ.
pub(super) fn known<'a>(p: &'a Problem, inputs: &'a Inputs) -> Known<'a> {
    let (layer, elements) = (layer_of(p), p["s"] * width(p));
    let of = parameters(|buffer| read(p, inputs, buffer));
    let made = |at: u64| {
        let [x, dout] = [X, DOUT]
            .map(|buffer| (at * elements..(at + 1) * elements).map(|at| inputs.at(buffer, at)).collect::<Vec<f64>>());
        let passed = layer.forward(&x, &of);
        let gradients = layer.backward(&of, &passed, &dout);
        (passed, gradients)
    };
    Known { p, inputs, items: Items::of(inputs, &[X, DOUT], [p["b"], elements], made) }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let known = known(p, inputs);
    Box::new(move |output, row, out| known.row(output, row, out))
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (layer, elements) = (layer_of(p), (p["s"] * width(p)) as usize);
    let of = parameters(|buffer| inputs[buffer].f32().to_vec());
    let [dx, learned @ ..] = outputs else { unreachable!("gradients of rows, and of what is learned") };
    learned.iter_mut().for_each(|sums| sums.fill(0.0));
    let items = inputs[X].f32().chunks_exact(elements).zip(inputs[DOUT].f32().chunks_exact(elements));
    for ((x, dout), dx) in items.zip(dx.chunks_exact_mut(elements)) {
        let gradients = layer.backward(&of, &layer.forward(x, &of), dout);
        dx.copy_from_slice(&gradients.dx);
        for (sums, gradient) in learned.iter_mut().zip(&gradients.learned) {
            sums.iter_mut().zip(gradient).for_each(|(sum, gradient)| *sum += gradient);
        }
    }
}

/// The forward pass, which keeps what the backward pass wants.
fn setup(p: &Problem, caps: &Caps) -> Program {
    let made = stages(p, caps, By::Tiles);
    let mut all = side_by_side(p, caps).stages;
    all.extend(remembering(normed(p, caps, ["x", "normed"], 0), ["mean1", "rstd1"]));
    all.extend(projected(p, caps, By::Tiles, "normed"));
    all.extend(attention(p, Direction::Bwd).setup(caps, &[("out", "mixed")]));
    all.extend(output(p, caps, By::Tiles, "projected"));
    all.push(added(p, caps, ["x", "projected", "sum"]).called("add_1"));
    all.extend(remembering(normed(p, caps, ["sum", "normed2"], 1), ["mean2", "rstd2"]));
    if kept(p) {
        let [into, _] = products(p);
        all.push(made.fused(into, Then::Bias, ["normed2", "w1", "pre"], &["b1"]).called("mlp_product_1"));
    }
    Program { stages: all }
}

/// The statistics of a norm in these buffers.
pub(super) fn remembering(stages: Vec<Stage>, [mean, rstd]: [&'static str; 2]) -> impl Iterator<Item = Stage> {
    stages.into_iter().map(move |stage| stage.on_buffers(&[("mean", mean), ("rstd", rstd)]))
}

fn added(p: &Problem, caps: &Caps, names: [&'static str; 3]) -> Stage {
    add_layernorm::sum_stage(row_count(p) * width(p), p.dtype, caps, names)
}

pub(super) fn available(p: &Problem, caps: &Caps, by: By) -> Result<(), String> {
    fusable(p, caps, by)?;
    attention(p, Direction::Bwd).available(flash_of(by), caps)?;
    sum_and_norm(p).available("fused", caps)
}

/// What the profile sums up by.
const ATTENTION: &str = "attention";
const PROJECTION: &str = "output projection";
const QKV: &str = "QKV projection";
const NORM1: &str = "first norm";
const NORM2: &str = "second norm";

fn sum_and_norm(p: &Problem) -> Inner {
    Inner::new("add_layernorm", Direction::Bwd, &format!("r{},c{}", row_count(p), width(p)), p.dtype)
}

/// Gradients of the rows before a norm and what was added to them since, and of the norm's factors and offsets.
fn norm_backward(p: &Problem, caps: &Caps, which: usize, [x, dout, also, dx]: [&'static str; 4]) -> Vec<Stage> {
    const NAMES: [[&str; 5]; 2] =
        [["gamma1", "mean1", "rstd1", "dgamma1", "dbeta1"], ["gamma2", "mean2", "rstd2", "dgamma2", "dbeta2"]];
    let [gamma, mean, rstd, dgamma, dbeta] = NAMES[which];
    let names = [
        ("sum", x),
        ("dout", dout),
        ("dsum", also),
        ("dx", dx),
        ("gamma", gamma),
        ("mean", mean),
        ("rstd", rstd),
        ("dgamma", dgamma),
        ("dbeta", dbeta),
        ("parts", "norm_parts"),
    ];
    let inner = sum_and_norm(p);
    let component = [NORM1, NORM2][which];
    let number = which + 1;
    let called = |stage: Stage| Stage { label: format!("{}_{number}", stage.label).into(), ..stage }.of(component);
    inner.stages(inner.best(&["fused", "naive"], caps), caps, &names).into_iter().map(called).collect()
}

/// The gradient of an `m × n` weight: the product of rows of what it was multiplied with, and of the gradient of the result.
fn of_weight(p: &Problem, caps: &Caps, by: By, [m, n]: [u64; 2], names: [&'static str; 3]) -> Stage {
    let product = Product::new(m, n, row_count(p)).stored(Stored::Tn);
    stages(p, caps, by).product(product, names).called(names[2])
}

/// Gradients of rows that were multiplied with an `m × n` weight.
fn of_rows(p: &Problem, caps: &Caps, by: By, [m, n]: [u64; 2], names: [&'static str; 3]) -> Stage {
    let product = Product::new(row_count(p), m, n).stored(Stored::Nt);
    stages(p, caps, by).product(product, names).called(names[2])
}

/// The sum of all rows of so many columns.
fn of_bias(p: &Problem, caps: &Caps, columns: u64, [from, to]: [&'static str; 2]) -> [Stage; 2] {
    let [first, second] = stages(p, caps, By::Tiles).columns([row_count(p), columns], [from, "parts", to]);
    let label = first.label.clone();
    [first.called(format!("{label}_{to}")), second.called(to)]
}

/// The MLP, whose argument of GELU is kept or made anew, and the second norm: up to `dsum`, the gradient of the sum.
fn through_mlp(p: &Problem, caps: &Caps, by: By, fused: bool, kept: bool) -> Vec<Stage> {
    let (made, rows, c, f) = (stages(p, caps, by), row_count(p), width(p), p["f"]);
    let [into, _] = products(p);
    let through = Product::new(rows, f, c).stored(Stored::Nt);
    let mut all = normed(p, caps, ["sum", "normed2"], 1);
    if !kept {
        all.push(made.with_bias(into, ["normed2", "w1", "pre"], "b1").called("mlp_product_1"));
    }
    let [hidden, dpre] = match fused {
        true => {
            let back = made.through_gelu(through, ["dout", "w2"], kept);
            all.extend(back.stages);
            [back.hidden, back.dpre]
        }
        false => {
            all.push(gelu::forward_stage(rows * f, p.dtype, caps, ["pre", "hidden"]).called("mlp_gelu"));
            all.push(made.product(through, ["dout", "w2", "dhidden"]).called("dhidden"));
            all.push(gelu::backward_stage(rows * f, p.dtype, caps, ["pre", "dhidden", "dpre"]).called("dpre"));
            ["hidden", "dpre"]
        }
    };
    all.push(of_weight(p, caps, by, [f, c], [hidden, "dout", "dw2"]));
    all.extend(of_bias(p, caps, c, ["dout", "db2"]));
    all.push(of_weight(p, caps, by, [c, f], ["normed2", dpre, "dw1"]));
    all.extend(of_bias(p, caps, f, [dpre, "db1"]));
    all.push(of_rows(p, caps, by, [c, f], [dpre, "w1", "dnormed"]));
    let mut all: Vec<Stage> = all.into_iter().map(|stage| stage.of(MLP)).collect();
    all.extend(norm_backward(p, caps, 1, ["sum", "dnormed", "dout", "dsum"]));
    all
}

/// The output projection and attention: up to the gradients of its heads.
fn through_attention(p: &Problem, caps: &Caps, by: By, variant: &str) -> Vec<Stage> {
    let c = width(p);
    let mut all = vec![merge(p, caps), of_weight(p, caps, by, [c, c], ["merged", "dsum", "dwo"])];
    all.extend(of_bias(p, caps, c, ["dsum", "dbo"]));
    all.push(of_rows(p, caps, by, [c, c], ["dsum", "wo", "dmerged"]));
    all.push(split(p, c, 0).stage(p.dtype, caps, ["dmerged", "dmixed"]).called("split_heads"));
    let mut all: Vec<Stage> = all.into_iter().map(|stage| stage.of(PROJECTION)).collect();
    let inner = attention(p, Direction::Bwd).stages(variant, caps, &[("out", "mixed"), ("dout", "dmixed")]);
    all.extend(inner.into_iter().map(|stage| stage.of(ATTENTION)));
    all
}

pub(super) fn fused(p: &Problem, caps: &Caps, by: By) -> Program {
    let c = width(p);
    let mut all = through_mlp(p, caps, by, true, kept(p));
    all.extend(through_attention(p, caps, by, flash_of(by)));
    let mut last = Vec::new();
    for (which, gradient) in GRADIENTS.into_iter().enumerate() {
        let together = split(p, 3 * c, which as u64 * c).reversed();
        last.push(together.stage(p.dtype, caps, [gradient, "dqkv"]).called(format!("{gradient}_beside")));
    }
    last.extend(normed(p, caps, ["x", "normed"], 0));
    last.push(of_weight(p, caps, by, [c, 3 * c], ["normed", "dqkv", "dwqkv"]));
    last.extend(of_bias(p, caps, 3 * c, ["dqkv", "dbqkv"]));
    last.push(of_rows(p, caps, by, [c, 3 * c], ["dqkv", "wqkv", "dnormed"]));
    all.extend(last.into_iter().map(|stage| stage.of(QKV)));
    all.extend(norm_backward(p, caps, 0, ["x", "dnormed", "dsum", "dx"]));
    Program { stages: all }
}

const GRADIENTS: [&str; 3] = ["dq", "dk", "dv"];
const GRADIENT_ROWS: [&str; 3] = ["dq_rows", "dk_rows", "dv_rows"];
const WEIGHT_GRADIENTS: [&str; 3] = ["dwq", "dwk", "dwv"];
const BIAS_GRADIENTS: [&str; 3] = ["dbq", "dbk", "dbv"];
const WEIGHTS: [&str; 3] = ["wq", "wk", "wv"];

pub(super) fn unfused(p: &Problem, caps: &Caps) -> Program {
    unfused_with(p, caps, kept(p))
}

/// With GELU's argument there already, or made anew.
pub(super) fn unfused_with(p: &Problem, caps: &Caps, kept: bool) -> Program {
    let (by, c) = (By::Tiles, width(p));
    let mut all = through_mlp(p, caps, by, false, kept);
    all.extend(through_attention(p, caps, by, "manual"));
    let mut last = normed(p, caps, ["x", "normed"], 0);
    for which in 0..3 {
        let (gradient, name) = (GRADIENTS[which], PROJECTED[which]);
        let side = Rearrange::beside([c, c], 3 * c, which as u64 * c);
        let of_biases = Rearrange::beside([1, c], 3 * c, which as u64 * c);
        let rows = GRADIENT_ROWS[which];
        last.push(split(p, c, 0).reversed().stage(p.dtype, caps, [gradient, rows]).called(rows));
        last.push(of_weight(p, caps, by, [c, c], ["normed", rows, WEIGHT_GRADIENTS[which]]));
        last.push(side.stage(p.dtype, caps, [WEIGHT_GRADIENTS[which], "dwqkv"]).called(format!("dw{name}_beside")));
        last.extend(of_bias(p, caps, c, [rows, BIAS_GRADIENTS[which]]));
        last.push(of_biases.stage(p.dtype, caps, [BIAS_GRADIENTS[which], "dbqkv"]).called(format!("db{name}_beside")));
        // The first is written where the others are added to it.
        let to = ["some", "product", "through"][which];
        last.push(of_rows(p, caps, by, [c, c], [rows, WEIGHTS[which], to]).called(format!("{name}_dnormed")));
    }
    last.push(added(p, caps, ["some", "product", "projected"]).called("add_dnormed_1"));
    last.push(added(p, caps, ["projected", "through", "dnormed"]).called("add_dnormed_2"));
    all.extend(last.into_iter().map(|stage| stage.of(QKV)));
    all.extend(norm_backward(p, caps, 0, ["x", "dnormed", "dsum", "dx"]));
    Program { stages: all }
}
