//! One whole training step of a small model with tables: forward, backward, and AdamW on all parameters.
//!
//! A sample has features, which are hashed, a category, and a target for each of two heads:
//!
//! - `x = hashed + table[category]`, `[n, d]`: its features by `hash_embedding`, `e` per sample and sorted by it, and the row of
//!   its category in a learned table `[v, d]`;
//! - `hidden = gelu(x·w1 + b1)`, `[n, f]`, by the tanh formula, with `w1` `[d, f]`;
//! - `pred = hidden·w2 + b2`, `[n, 2]`: a column for each head, with `w2` `[f, 2]`;
//! - `loss = loss_smape(pred, targets)` over both heads.
//!
//! Backward from `dloss`, which is one, or the loss scale, with `∘` for elementwise products: `dpred` by `loss_smape`; `dw2 =
//! hiddenᵀ·dpred`; `dpre = (dpred·w2ᵀ) ∘ gelu′(x·w1 + b1)`; `dw1 = xᵀ·dpre`; `dx = dpre·w1ᵀ`. The gradients of `b1` and `b2` are
//! sums over samples. The table row of a category gets the sum of `dx` over its samples. Hashed features have no parameters.
//!
//! Then `adamw` performs its step `t` on `table`, `w1`, `b1`, `w2` and `b2`, with two averages of each, in place. Table rows
//! without a sample follow their averages, too.
//!
//! On `gpus` GPUs each has an equal part of the samples, and all parameters and averages. `group` numbers the samples of a GPU from
//! zero. `loss` of a GPU is the mean over its samples, and `dloss` the gradient of that mean. The gradient of the mean over all
//! samples is `gpus` times as large. Gradients are summed over all GPUs before the optimiser. The step is therefore that of one GPU
//! on all samples, and the parameters stay equal.
//!
//! Operations: `6·n·f·(d + 2)` of the GEMMs, and fourteen for each parameter; on several GPUs those of one. Everything is in f32,
//! like hashed features.

use parallax_ir::stress::{zero, zipf};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, GPUS, HostBuffer, Inputs, OfNan, OpSpec, Precondition, Problem, Reference,
    Rows, Shape, StressInput, Variant, Workload, has_gpus, indexable,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

use self::model::{Batch, Model, Parameter};
use self::ranks::{of_rank, same};
use super::hash_embedding::{any_id, rising};
use super::linear::stages::most_parts;
use crate::real::{Real, narrow};

mod exchange;
mod model;
mod ranks;
mod stages;
mod tolerance;

/// Number of predicted columns.
const HEADS: u64 = 2;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "a whole step of training a small model of tables",
        axes: const {
            &[
                Axis::extent("n", "samples").items(),
                Axis::extent("e", "hashed features, of a sample"),
                Axis::extent("v", "categories"),
                Axis::extent("d", "embedding width"),
                Axis::extent("f", "hidden width, of the MLP"),
                Axis::optional("t", "step of the optimiser, counted from one", 1, 100),
                Axis::optional(GPUS.key, GPUS.about, 1, 1),
            ]
        },
        dtypes: &[DType::F32],
        validate: |shape| {
            let (n, v, d, f) = (shape["n"], shape["v"], shape["d"], shape["f"]);
            ranks::in_parts(shape)?;
            [n * shape["e"], n * d, n * f, HEADS * n, v * d, d * f, HEADS * f].into_iter().try_for_each(indexable)
        },
        forms: vec![form()],
    }
}

fn form() -> OpSpec {
    OpSpec::new(
        Direction::FwdBwd,
        Rate::Flops,
        buffers,
        cost,
        |p, output| tolerance::seeded(p, output, 1.0),
        Reference::new(row_cost, rows),
        OfNan::MIXED,
    )
    .headline("n4096,e8,v1000,d64,f256")
    .shapes(shapes)
    .awkward(&[
        "n1,e1,v1,d1,f1,t1",
        "n3,e2,v5,d2,f3",
        "n9,e3,v4,d260,f5",
        "n1100,e2,v13,d20,f36",
        "n130,e4,v67,d67,f70,t1000",
        "n1500,e1,v1030,d2,f3",
        "n2,e1,v1,d1,f1,t1,gpus2",
        "n9,e2,v5,d2,f3,gpus3",
        "n1100,e2,v13,d20,f36,gpus2",
        "n260,e4,v67,d67,f70,t1000,gpus4",
    ])
    .host(host)
    .variants(vec![
        Variant::kernel(
            "separate",
            "every step a stage: biases, GELU and its slope beside the products, the loss in two passes, and four stages of \
             the optimiser for each parameter",
            stages::separate,
        )
        .available(has_gpus),
        Variant::kernel(
            "fused",
            "features summed by their owners without atomics; biases, GELU and its slope done to sums in registers; gradients of \
             weights by parts of the samples; the loss in one pass, and one stage of the optimiser for each parameter",
            stages::fused,
        )
        .available(has_gpus),
        Variant::kernel(
            "overlapped",
            "as fused on several GPUs, with gradients exchanged by layers on a second queue while backward goes on",
            stages::overlapped,
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| match p.gpus() {
            1 => Err("one GPU has no gradients to exchange".to_owned()),
            _ => has_gpus(p, caps),
        }),
    ])
    .fallback(&["fused", "separate"])
    .preconditions(vec![
        Precondition::Below { buffer: "group", bound: |p| p["n"] / p.gpus() },
        Precondition::Ascending { buffer: "group", when: |_| true },
        Precondition::Below { buffer: "category", bound: |p| p["v"] },
    ])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n4096,e8,v1000,d64,f256",
            "n16384,e8,v1000,d128,f512",
            "n32768,e8,v1000,d128,f512,gpus2",
            "n65536,e8,v1000,d128,f512,gpus4",
        ],
        _ => &[
            "n1024,e8,v1000,d64,f256",
            "n4096,e8,v1000,d64,f256",
            "n4096,e8,v10000,d64,f256",
            "n16384,e8,v1000,d128,f512",
            "n65536,e8,v1000,d64,f256",
            "n16384,e8,v1000,d128,f512,gpus2",
            "n16384,e8,v1000,d128,f512,gpus4",
            "n32768,e8,v1000,d128,f512,gpus2",
            "n65536,e8,v1000,d128,f512,gpus4",
            "n65536,e8,v1000,d64,f256,gpus2",
            "n65536,e8,v1000,d64,f256,gpus4",
            "n131072,e8,v1000,d64,f256,gpus2",
            "n262144,e8,v1000,d64,f256,gpus4",
        ],
    }
}

/// Indices of the unchanged inputs, in buffer order.
const ID: usize = 0;
const GROUP: usize = 1;
const WEIGHT: usize = 2;
const CATEGORY: usize = 3;
const TARGETS: usize = 4;
const DLOSS: usize = 5;
/// Index of the first learned buffer: each parameter with its averages.
const LEARNED: usize = 6;

/// Names of a parameter's buffers.
#[derive(Clone, Copy)]
struct Names {
    param: &'static str,
    m: &'static str,
    v: &'static str,
    gradient: &'static str,
}

/// Parameters, in buffer order.
const NAMES: [Names; 5] = [
    Names { param: "table", m: "m_table", v: "v_table", gradient: "dtable" },
    Names { param: "w1", m: "m_w1", v: "v_w1", gradient: "dw1" },
    Names { param: "b1", m: "m_b1", v: "v_b1", gradient: "db1" },
    Names { param: "w2", m: "m_w2", v: "v_w2", gradient: "dw2" },
    Names { param: "b2", m: "m_b2", v: "v_b2", gradient: "db2" },
];

/// Number of hashed features of all samples.
fn features(p: &Problem) -> u64 {
    p["n"] * p["e"]
}

fn dims(p: &Problem) -> [Vec<u64>; 5] {
    let (v, d, f) = (p["v"], p["d"], p["f"]);
    [vec![v, d], vec![d, f], vec![f], vec![f, HEADS], vec![HEADS]]
}

/// Number of elements of each parameter.
fn lengths(p: &Problem) -> [u64; 5] {
    lengths_of(&p.shape)
}

fn lengths_of(shape: &Shape) -> [u64; 5] {
    let (v, d, f) = (shape["v"], shape["d"], shape["f"]);
    [v * d, d * f, f, f * HEADS, HEADS]
}

/// Fills of the parameters, equal on all GPUs. Heads predict about four, and never differ from it by more than one: see [`target`].
const FILLS: [Fill; 5] = [
    |shape, draw| 0.5 * same::<0>(shape, draw).normal(),
    |shape, draw| same::<1>(shape, draw).normal() / (shape["d"] as f64).sqrt(),
    |shape, draw| 0.25 * same::<2>(shape, draw).normal(),
    |shape, draw| 0.1 * same::<3>(shape, draw).normal() / (shape["f"] as f64).sqrt(),
    |shape, draw| 4.0 + 0.02 * same::<4>(shape, draw).normal(),
];

/// Fills of both averages of each parameter.
const AVERAGES: [[Fill; 2]; 5] = [averages::<0>(), averages::<1>(), averages::<2>(), averages::<3>(), averages::<4>()];

const fn averages<const PARAMETER: usize>() -> [Fill; 2] {
    [
        |shape, draw| 0.1 * same::<PARAMETER>(shape, draw).normal(),
        |shape, draw| 0.01 * (1.0 + same::<PARAMETER>(shape, draw).uniform()),
    ]
}

/// Target that avoids every kink of the loss. If a prediction, between three and five, met its target or a band edge, its last bit
/// would decide its slope. Ranges put predictions inside the band on either side of the target, outside it on either side, and on
/// the other sign.
fn target(_: &Shape, draw: Draw) -> f64 {
    const RANGES: [(f64, f64); 5] = [(5.2, 5.8), (2.6, 2.9), (11.0, 15.0), (0.5, 1.4), (-4.0, -1.0)];
    let (low, high) = RANGES[(draw.bits() % 5) as usize];
    low + (high - low) * draw.uniform()
}

/// Share of a sample in the mean of a GPU, times one to two; equal on all of them.
fn scale_of_loss(shape: &Shape, draw: Draw) -> f64 {
    (HEADS * shape["n"] / shape[GPUS.key]) as f64 * (1.0 + draw.repeating(1).uniform())
}

/// Sample of a feature, counted on its GPU.
fn sample(shape: &Shape, mut draw: Draw) -> f64 {
    let samples = shape["n"] / shape[GPUS.key];
    draw.index %= samples * shape["e"];
    rising(draw, samples * shape["e"], samples)
}

/// Buffers of all GPUs: a row for each, or those of the one.
fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let own = own_buffers(&of_rank(p));
    match p.gpus() {
        1 => own,
        gpus => own.into_iter().map(|buffer| buffer.on_each_rank(gpus)).collect(),
    }
}

/// Buffers of the step of one GPU.
fn own_buffers(p: &Problem) -> Vec<BufferSpec> {
    let (n, r, d, f) = (p["n"], features(p), p["d"], p["f"]);
    let of_samples = |name: &'static str, columns: u64| BufferSpec::scratch(name, Elem::Real, &[n, columns]);
    let mut buffers = vec![
        BufferSpec::input("id", Elem::U32, &[r], any_id),
        BufferSpec::input("group", Elem::U32, &[r], sample),
        BufferSpec::input("weight", Elem::F32, &[r], |_, draw| draw.normal()),
        BufferSpec::input("category", Elem::U32, &[n], |shape, draw| draw.below(shape["v"]) as f64),
        BufferSpec::input("targets", Elem::Real, &[n, HEADS], target),
        BufferSpec::input("dloss", Elem::F32, &[1], scale_of_loss),
    ];
    for ((names, dims), (fill, [m, v])) in NAMES.into_iter().zip(dims(p)).zip(FILLS.into_iter().zip(AVERAGES)) {
        buffers.extend([
            BufferSpec::in_out(names.param, Elem::Real, &dims, fill),
            BufferSpec::in_out(names.m, Elem::F32, &dims, m),
            BufferSpec::in_out(names.v, Elem::F32, &dims, v),
        ]);
    }
    buffers.extend([
        BufferSpec::output("pred", Elem::Real, &[n, HEADS]),
        BufferSpec::output("loss", Elem::F32, &[1]),
        BufferSpec::scratch("hashed", Elem::F32, &[n, d]),
        BufferSpec::scratch("parts", Elem::F32, &[most_parts(n), f.max(HEADS)]),
        BufferSpec::scratch("weight_parts", Elem::F32, &[stages::weight_parts(p)]),
        stages::loss(p, Direction::Fwd).scratch("parts", "loss_parts"),
    ]);
    let widths =
        [("x", d), ("first", f), ("pre", f), ("hidden", f), ("second", HEADS), ("dpred", HEADS), ("dhidden", f)];
    buffers.extend(widths.into_iter().chain([("dpre", f), ("dx", d)]).map(|(name, columns)| of_samples(name, columns)));
    buffers.extend(stages::by_category(p).scratch(stages::BY_CATEGORY));
    for (names, dims) in NAMES.into_iter().zip(dims(p)) {
        buffers.push(BufferSpec::scratch(names.gradient, Elem::Real, &dims));
    }
    // Parameters perform their steps in sequence: the longest determines its length.
    let longest = lengths(p).into_iter().max().expect("five of them");
    buffers.push(BufferSpec::scratch("direction", Elem::F32, &[longest]));
    buffers
}

/// Cost of one GPU. All work at the same time, and ceilings are those of one.
fn cost(p: &Problem) -> Cost {
    let p = &of_rank(p);
    let (n, learned) = (p["n"], lengths(p).iter().sum::<u64>());
    let samples = 12 * features(p) + n * (4 + 4 * HEADS) + 4;
    Cost::new(multiplied(p) * 2 + 14 * learned, samples + 12 * learned, 12 * learned + 4 * n * HEADS + 4)
}

/// Multiply-adds of all GEMMs: each forward GEMM has two backward ones.
fn multiplied(p: &Problem) -> u64 {
    3 * p["n"] * p["f"] * (p["d"] + HEADS)
}

/// Index of the predictions among the checked buffers, after the parameters and averages.
const PRED: usize = 3 * NAMES.len();

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "no features, no predictions and targets of zero: no error and no slope, and steps along the averages alone",
            |_| ["weight", "table", "w2", "b2", "targets"].map(|name| (name, zero as Fill)).into(),
            tolerance::of_zeros,
        ),
        StressInput::new(
            "one category",
            "every sample in the last row of the table: all gradients meet in it, and all others have none",
            |_| vec![("category", |shape, _| (shape["v"] - 1) as f64)],
            tolerance::crowded,
        ),
        StressInput::new(
            "zipf",
            "categories by Zipf's law with exponent 1.05: a few rows of the table are taken by most samples",
            |_| vec![("category", |shape, draw| zipf(shape["v"], draw.uniform()) as f64)],
            tolerance::crowded,
        ),
        StressInput::new(
            "scaled",
            "a loss scaled by 1024: the newest square is nearly all of its average",
            |_| vec![("dloss", |shape, draw| 1024.0 * scale_of_loss(shape, draw))],
            |p, output| tolerance::seeded(p, output, 1024.0),
        ),
    ]
}

/// Operations of a row: its share of the step, which is computed once for all rows.
fn row_cost(p: &Problem, output: usize) -> u64 {
    let rows = match output {
        PRED => p["n"],
        output if output < PRED => p.gpus() * dims(p)[output / 3].iter().rev().skip(1).product::<u64>(),
        _ => p.gpus(),
    };
    multiplied(p).div_ceil(rows)
}

/// Inputs and parameters of a step on the samples of all GPUs, read by buffer index.
fn batch<T: Real>(
    p: &Problem,
    integers: impl Fn(usize) -> Vec<u32>,
    reals: impl Fn(usize) -> Vec<T>,
) -> (Batch<T>, [Parameter<T>; 5]) {
    let batch = Batch {
        ids: integers(ID),
        groups: ranks::of_all(p, integers(GROUP)),
        weights: reals(WEIGHT),
        categories: integers(CATEGORY),
        targets: reals(TARGETS),
        dloss: narrow::<T>(p.gpus() as f64) * reals(DLOSS).remove(0),
    };
    let parameter = |which: usize| {
        // Those of the first GPU: all are equal.
        let first = |mut all: Vec<T>| {
            all.truncate(lengths(p)[which] as usize);
            all
        };
        let [value, m, v] = [0, 1, 2].map(|part| first(reals(LEARNED + 3 * which + part)));
        Parameter { value, m, v }
    };
    (batch, [0, 1, 2, 3, 4].map(parameter))
}

/// All inputs, for the reference.
fn read(p: &Problem, inputs: &Inputs) -> (Batch<f64>, [Parameter<f64>; 5]) {
    let reals = |buffer| inputs.whole(buffer);
    batch(p, |buffer| reals(buffer).into_iter().map(|x| x as u32).collect(), reals)
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (batch, parameters) = read(p, inputs);
    let outputs = Model::new(p).step(&batch, &parameters);
    Box::new(move |output, row, out| {
        // Parameters and averages are those of every GPU.
        let (len, all) = (out.len(), &outputs[output]);
        out.copy_from_slice(&all[row as usize * len % all.len()..][..len]);
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (batch, parameters) = batch(p, |buffer| inputs[buffer].u32().to_vec(), |buffer| inputs[buffer].f32().to_vec());
    for (out, made) in outputs.iter_mut().zip(Model::new(p).step(&batch, &parameters)) {
        out.chunks_mut(made.len()).for_each(|out| out.copy_from_slice(&made));
    }
}
