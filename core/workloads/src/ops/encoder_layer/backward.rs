//! Backward direction: gradients of `x` and of all parameters of the layer, for a gradient `dout` of the result.
//!
//! The forward pass runs before the timing, as in training. It leaves the inputs of the backward pass. These are queries, keys and
//! values, attention's output with the log-sum-exp of its rows, the sum `y`, and the statistics of both norms. The first four are there
//! twice: as rows of the layer, and as a matrix for each head. With `kept` it also leaves GELU's argument. Normalised rows are
//! recomputed. Gradients of the weights and biases of queries, keys and values are concatenated.

use parallax_ir::stress::{smallest_normal, sums_of_zeros, zero};
use parallax_ir::{
    BufferSpec, Draw, Elem, HostBuffer, Inputs, MOST_PARTS, OfNan, OpSpec, Problem, Reference, Rows, Shape,
    StressInput, Tolerance, Variant,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

use super::super::attention_block::items::{DIFFERENT, Items, normal_items};
use super::super::attention_block::{Rounding, attention, row_beside, row_count, width};
use super::super::linear::backward::by_element;
use super::super::linear::stages::{GemmKind, most_parts};
use super::backward_stages::{available, fused, parts_of_weights, setup, unfused};
use super::dropout::{DROPPED, factor};
use super::layer::Passed;
use super::{
    BQ, BQKV, Errors, LEARNED, WQ, WQKV, X, dropout, inputs, items_of, kept, layer_of, likely, operations, parameters,
    side_by_side_buffers, sizes,
};

pub(super) const DOUT: usize = 1 + LEARNED.len();

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        cost,
        |p, output| tolerance(p, output, 1.0),
        Reference::new(row_cost, rows),
        OfNan::MIXED,
    )
    .headline("b1,s64,h8,d64,f2048")
    .shapes(shapes)
    .awkward(super::AWKWARD)
    .setup(setup)
    .host(host)
    .variants(vec![
        Variant::kernel("unfused", "every step a stage, scores and their gradients in device memory", unfused),
        Variant::kernel(
            "fused",
            "probabilities made anew from the log-sum-exp, GELU and its slope done to sums in registers, products for \
             queries, keys and values in one",
            |p, caps| fused(p, caps, GemmKind::Tiles),
        )
        .available(|p, caps| available(p, caps, GemmKind::Tiles)),
        Variant::kernel("mma", "the same on tensor cores by warp-wide instructions", |p, caps| {
            fused(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| available(p, caps, GemmKind::Mma)),
        Variant::kernel(
            "wgmma",
            "the same on tensor cores by four warps together; the copy engine loads and stores tiles",
            |p, caps| fused(p, caps, GemmKind::Wgmma),
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| available(p, caps, GemmKind::Wgmma)),
        Variant::kernel(
            "vendor",
            "the same with products and attention by the vendor's libraries, cuBLASLt and cuDNN",
            |p, caps| fused(p, caps, GemmKind::Library),
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| available(p, caps, GemmKind::Library)),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["wgmma", "mma", "fused", "unfused"])
    .stress(stress_inputs())
}

pub(super) fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,s64,h8,d64,f2048", "b1", "b8", "b8,kept", "b8,p0.1"],
        _ => &["b1,s64,h8,d64,f2048", "b8", "b8,p0.1", "b128", "b1024", "b1024,kept"],
    }
}

fn gradient_of_items(shape: &Shape, draw: Draw) -> f64 {
    normal_items(draw, shape["s"] * shape["h"] * shape["d"])
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, s, f) = (p["b"], p["s"], p["f"]);
    let mut buffers = inputs(p);
    buffers.push(upstream(p));
    buffers.extend(dropout::keys(p));
    buffers.extend(side_by_side_buffers(p));
    buffers.extend(remembered(p, BufferSpec::setup));
    let pre = if kept(p) { BufferSpec::setup } else { BufferSpec::scratch };
    buffers.push(pre("pre", Elem::Real, &[b, s, f]));
    buffers.extend(gradients(p));
    buffers.extend(scratch(p));
    buffers
}

/// Upstream gradient.
pub(super) fn upstream(p: &Problem) -> BufferSpec {
    BufferSpec::input("dout", Elem::Real, &[p["b"], p["s"], width(p)], gradient_of_items)
}

/// Values of the forward pass for the backward pass, in buffers of one role.
pub(super) fn remembered(p: &Problem, role: Make) -> Vec<BufferSpec> {
    let (b, h, s, d) = (p["b"], p["h"], p["s"], p["d"]);
    let mut buffers = ["q", "k", "v", "mixed"].map(|name| role(name, Elem::Real, &[b, h, s, d])).to_vec();
    buffers.push(role("lse", Elem::F32, &[b, h, s, 1]));
    buffers.push(role("sum", Elem::Real, &[b, s, width(p)]));
    buffers.extend(["mean1", "rstd1", "mean2", "rstd2"].map(|name| role(name, Elem::F32, &[b, s, 1])));
    buffers.push(role("qkv", Elem::Real, &[b, s, 3 * width(p)]));
    buffers.push(role("merged", Elem::Real, &[b, s, width(p)]));
    buffers
}

/// Gradients of the rows and of the layer's parameters.
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

/// Buffers between the stages of either variant.
pub(super) fn scratch(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, s, d, c, f, rows) = (p["b"], p["h"], p["s"], p["d"], width(p), p["f"], row_count(p));
    let of_rows = [
        ("normed", c),
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
    // The set-up uses the first one of the forward pass.
    buffers.extend(dropout::scratch(p, &[&DROPPED[..1], &dropout::GRADIENTS].concat()));
    buffers.extend(["dmixed", "dq", "dk", "dv"].map(|name| real(name, &[b, h, s, d])));
    buffers.extend(["dwq", "dwk", "dwv"].map(|name| real(name, &[c, c])));
    buffers.extend(["dbq", "dbk", "dbv"].map(|name| real(name, &[c])));
    buffers.extend(["mean", "rstd"].map(|name| BufferSpec::scratch(name, Elem::F32, &[b, s, 1])));
    let inner = attention(p, Direction::Bwd);
    let of_attention = ["scores", "dscores", "delta", "dq_sum", "row_numbers", "dq_tiles"];
    buffers.extend(of_attention.map(|name| inner.scratch(name, name)));
    buffers.push(parts_of_weights(p));
    buffers.push(BufferSpec::scratch("norm_parts", Elem::F32, &[rows.min(MOST_PARTS), 2, c]));
    buffers.push(BufferSpec::scratch("parts", Elem::F32, &[most_parts(rows), (3 * c).max(f)]));
    buffers
}

pub(super) type Make = fn(&'static str, Elem, &[u64]) -> BufferSpec;

pub(super) fn cost(p: &Problem) -> Cost {
    let ([matrix, learned, middle], element) = (sizes(p), Elem::Real.storage(p.dtype).bytes());
    let [products, attention] = operations(p);
    let pre = if kept(p) { middle } else { 0 };
    // x, dout, queries, keys, values, attention's output, and the sum.
    Cost::new(2 * products + attention * 5 / 2, (7 * matrix + learned + pre) * element, (matrix + learned) * element)
}

/// Indices of the checked buffers from the third on, in buffer order; a kept buffer is absent if it is not kept.
const Q: usize = 2;
const MIXED: usize = 5;
const LSE: usize = 6;
const SUM: usize = 7;
const MEAN1: usize = 8;
const RSTD1: usize = 9;
const MEAN2: usize = 10;
const RSTD2: usize = 11;
const QKV: usize = 12;
const MERGED: usize = 13;
const PRE: usize = 14;
pub(super) const DX: usize = 15;
const FIRST_LEARNED: usize = 16;

pub(super) fn checked(p: &Problem, output: usize) -> usize {
    if kept(p) || output < PRE { output } else { output + 1 }
}

/// Tolerance for a gradient `dout` times as large as a seeded one.
pub(super) fn tolerance(p: &Problem, output: usize, dout: f64) -> Tolerance {
    let errors = Errors::new(p, 1.0);
    let Rounding { u, sum: by_width } = Rounding::new(p, width(p));
    let (by_middle, by_rows) = (Rounding::new(p, p["f"]).sum, Rounding::new(p, row_count(p)).sum);
    let rows = row_count(p) as f64;
    // Gradients grow on their way back. After the MLP they are about three. After attention, with values of that size, they are
    // about six. A norm divides by the deviation of its rows, which is small in short rows.
    let spread = if width(p) < 32 { 300.0 } else { 2.0 };
    // Dropout multiplies the kept elements of either part.
    let kept = factor(p);
    let behind_mlp = kept * 3.0 * spread * (errors.pre + 4.0 * u + by_width + by_middle);
    let behind_attention =
        kept * 4.0 * spread * (behind_mlp + 4.0 * (errors.projected + errors.mixed) + 6.0 * u + 2.0 * by_width);
    // Sum over all rows of inexact products. A running sum in f32 rounds equal terms alike, and items repeat. Those roundings add
    // in proportion to the repetitions, others to its square root.
    let repeats = (p["b"] / DIFFERENT).max(1) as f64;
    let over_rows = |gradient: f64, size: f64, other: f64| {
        dout * (rows.sqrt() * (gradient + size * (other + u)) + (3.0 + repeats) * size * rows.sqrt() * by_rows)
    };
    match checked(p, output) {
        WQKV | BQKV => Tolerance { abs: smallest_normal(p), rel: 0.0, reason: "copied" },
        Q..MIXED | QKV => likely(p, errors.projected),
        MIXED | MERGED => likely(p, errors.mixed),
        LSE => likely(p, 2.0 * errors.projected + 2f64.powi(-22)),
        SUM => likely(p, errors.sum),
        MEAN1 => likely(p, by_width),
        RSTD1 => likely(p, spread * by_width),
        MEAN2 => likely(p, errors.sum),
        RSTD2 => likely(p, spread * errors.sum),
        PRE => likely(p, errors.pre),
        DX => likely(p, dout * behind_attention),
        learned => match learned - FIRST_LEARNED {
            0..=3 => likely(p, over_rows(behind_attention, kept * kept * 6.0 * spread, errors.projected)),
            4..=7 => likely(p, over_rows(behind_mlp, kept * 3.0 * spread, errors.mixed)),
            _ => likely(p, over_rows(behind_mlp, kept * 3.0, errors.pre)),
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "no gradient: every gradient is zero",
            |_| vec![("dout", zero)],
            |p, output| match checked(p, output) {
                0..DX => tolerance(p, output, 1.0),
                _ => sums_of_zeros(p),
            },
        ),
        StressInput::new(
            "small",
            "gradients a thousand times smaller, as at the end of a training",
            |_| vec![("dout", |shape, draw| gradient_of_items(shape, draw) / 1024.0)],
            // An underflow in 16 bits loses a value once for each summed row.
            |p, output| {
                let seeded = tolerance(p, output, 1.0 / 1024.0);
                let lost = smallest_normal(p) * 64.0 * (row_count(p) as f64).sqrt();
                Tolerance { abs: seeded.abs + lost, ..seeded }
            },
        ),
    ]
}

/// Operations of a row: its share of an item, or of all distinct items for sums over all rows.
fn row_cost(p: &Problem, output: usize) -> u64 {
    let of_row = width(p) * (4 * width(p) + 2 * p["f"] + 2 * p["s"]);
    match checked(p, output) {
        WQKV | BQKV => 1,
        0..DX => of_row,
        DX => 3 * of_row,
        _ => p["s"],
    }
}

/// State of the reference: of each item its forward pass and the gradients of its rows, and the parameter gradients of all items.
pub(super) struct ReferenceState<'a> {
    p: &'a Problem,
    inputs: &'a Inputs,
    pub(super) items: Items<(Passed<f64>, Vec<f64>)>,
    pub(super) learned: Vec<Vec<f64>>,
}

impl ReferenceState<'_> {
    fn row(&self, output: usize, row: u64, out: &mut [f64]) {
        let (s, c, f, d) = (self.p["s"], width(self.p), self.p["f"], self.p["d"]);
        let within = |from: &[f64], at: u64, columns: u64| from[(at * columns) as usize..][..columns as usize].to_vec();
        let passed = |item: u64| &self.items.item(item).0;
        // Rows of heads count through the heads of an item. Here the heads are adjacent.
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
            QKV => {
                let each = out.chunks_exact_mut(c as usize).zip(&passed(item).qkv);
                each.for_each(|(out, from)| out.copy_from_slice(&within(from, i, c)));
            }
            MERGED => out.copy_from_slice(&within(&passed(item).attended.out, i, c)),
            PRE => out.copy_from_slice(&within(&passed(item).pre, i, f)),
            DX => out.copy_from_slice(&within(&self.items.item(item).1, i, c)),
            learned => out[0] = self.learned[learned - FIRST_LEARNED][row as usize],
        }
    }
}

/// Both passes of all distinct items.
pub(super) fn known<'a>(p: &'a Problem, inputs: &'a Inputs) -> ReferenceState<'a> {
    let (layer, elements) = (layer_of(p), p["s"] * width(p));
    let of = parameters(|buffer| inputs.whole(buffer).into());
    let mut learned: Vec<Vec<f64>> = gradients(p).iter().skip(1).map(|spec| vec![0.0; spec.len as usize]).collect();
    let made = |at: u64, count| {
        let [x, dout] = [X, DOUT].map(|buffer| inputs.values(buffer, at * elements..(at + 1) * elements));
        let passed = layer.forward(&x, &of, dropout::of_inputs(p, inputs, at));
        let gradients = layer.backward(&of, &passed, &dout);
        gradients.add_to(&mut learned, count);
        (passed, gradients.dx)
    };
    let items = items_of(p, inputs, &[X, DOUT], made);
    ReferenceState { p, inputs, items, learned }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let known = known(p, inputs);
    Box::new(move |output, row, out| known.row(output, row, out))
}

/// Computes both passes of each item on the host, with gradients in buffer order. A callback receives the forward values of an
/// item.
pub(super) fn host_passes(
    p: &Problem,
    inputs: &[HostBuffer],
    gradients: &mut [Vec<f32>],
    mut show: impl FnMut(usize, &Passed<f32>),
) {
    let (layer, elements) = (layer_of(p), (p["s"] * width(p)) as usize);
    let of = parameters(|buffer| inputs[buffer].f32().into());
    let [dx, learned @ ..] = gradients else { unreachable!("gradients of rows, and of parameters") };
    learned.iter_mut().for_each(|sums| sums.fill(0.0));
    let items = inputs[X].f32().chunks_exact(elements).zip(inputs[DOUT].f32().chunks_exact(elements));
    for (item, ((x, dout), dx)) in items.zip(dx.chunks_exact_mut(elements)).enumerate() {
        let passed = layer.forward(x, &of, dropout::of_host(p, inputs, item));
        show(item, &passed);
        let gradients = layer.backward(&of, &passed, dout);
        dx.copy_from_slice(&gradients.dx);
        gradients.add_to(learned, 1.0);
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    host_passes(p, inputs, outputs, |_, _| ());
}
