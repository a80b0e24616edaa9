//! Prefetch: batches of rows come from the host in sequence, and a model's first layers are computed on each.
//!
//! Batch `i` uploads `r/c` rows of an id, a group and a weight. `hash_embedding` sums them into the features `e` of its `g` groups.
//! A layer follows: `out_i = gelu(e·w + bias)`, `[g, f]`, with GELU by the tanh formula as in `gelu`. All `c` batches are in pinned
//! host memory, `r` rows together. The variants differ in the overlap of the next upload with the current computation.
//!
//! Operations: one addition per row, and those of the GEMMs, `2·g·d·f` per batch. Bytes: rows, weights and results once.

use std::sync::OnceLock;

use parallax_ir::parallel::*;
use parallax_ir::stress::{one, zero};
use parallax_ir::{
    Axis, BufferSpec, CopyRange, Draw, Elem, Gemm, HostBuffer, Inputs, OfNan, OpSpec, Place, Precondition, Problem,
    Program, Reference, Rows, Scaling, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::catalog::Sides;
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::Bytes;

use super::gelu::gelu_tanh;
use super::hash_embedding::{any_id, by_group, place};
use super::linear::stages::{GemmKind, Stages};
use crate::SubOp;
use crate::vector;

const ID: usize = 0;
const GROUP: usize = 1;
const WEIGHT: usize = 2;
const W: usize = 3;
const BIAS: usize = 4;

/// Output of each batch. Their number limits that of batches.
const OUTPUTS: [&str; 8] = ["out0", "out1", "out2", "out3", "out4", "out5", "out6", "out7"];
/// Columns of a batch on the host, and its two alternating buffers on the device.
const COLUMNS: [&str; 3] = ["id", "group", "weight"];
const ROOMS: [[&str; 3]; 2] = [["id_even", "group_even", "weight_even"], ["id_odd", "group_odd", "weight_odd"]];

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "batches uploaded, hashed and put through a layer: whether the next one comes meanwhile",
        axes: const {
            &[
                Axis::extent("r", "rows").items().scaling(&SCALING),
                Axis::optional("c", "batches", 1, 8),
                Axis::extent("g", "groups of a batch"),
                Axis::extent("d", "columns of the features"),
                Axis::extent("f", "columns of the result"),
            ]
        },
        dtypes: &[DType::F32],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            |p, _| tolerance(p, usual_rows(p)),
            Reference::new(row_cost, rows),
            OfNan::MIXED,
        )
        .headline("r65536,g1024,d64,f128")
        .shapes(shapes)
        .awkward(&[
            "r1,c1,g1,d1,f1",
            "r14,c2,g13,d5,f3",
            "r771,c3,g83,d64,f36",
            "r2000,c4,g1,d3,f7",
            "r3027,c3,g101,d67,f65",
            "r8,g2,d4,f4",
            "r1024,g16,d64,f128",
        ])
        .host(host)
        .variants(vec![
            Variant::kernel("serial", "a batch is uploaded, then computed on, then the next", |p, caps| {
                program(p, caps, false)
            }),
            Variant::kernel(
                "overlapped",
                "uploads on a queue of their own, into two rooms in turn: while one batch is computed on, the next one comes",
                |p, caps| program(p, caps, true),
            )
            .available(several_queues),
        ])
        .fallback(&["overlapped", "serial"])
        .preconditions(vec![Precondition::Below { buffer: "group", bound: |p| p["g"] }])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (r, c, most) = (shape["r"], shape["c"], OUTPUTS.len() as u64);
    if !r.is_multiple_of(c) || c > most {
        return Err(format!("{r} rows are no {c} batches of as many rows, or these are more than {most}"));
    }
    [("g", "d"), ("g", "f"), ("d", "f")].into_iter().try_for_each(|(a, b)| indexable(shape[a] * shape[b]))
}

/// Series of eight batches of each size, with eight rows per group.
const SERIES: &[&str] = &[
    "r4096,g64,d64,f128",
    "r8192,g128,d64,f128",
    "r16384,g256,d64,f128",
    "r32768,g512,d64,f128",
    "r65536,g1024,d64,f128",
    "r131072,g2048,d64,f128",
    "r262144,g4096,d64,f128",
    "r524288,g8192,d64,f128",
];

/// Scaling series that finds the batch size from which an overlapped upload is faster.
const SCALING: Scaling = Scaling {
    counts: "rows of a batch",
    per: Some("c"),
    shapes: SERIES,
    sides: Sides::Variants { base: "serial", other: "overlapped", doing: "prefetching" },
};

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r4096,g64,d64,f128", "r65536,g1024,d64,f128", "r524288,g8192,d64,f128"],
        _ => SERIES,
    }
}

fn several_queues(_p: &Problem, caps: &Caps) -> Result<(), String> {
    match caps.dialect {
        Dialect::Wgsl => {
            Err("WebGPU has one queue, on which copies and kernels follow each other in the order in which they are \
                              submitted: this would be `serial` under another name"
                .to_owned())
        }
        _ => Ok(()),
    }
}

fn batches(p: &Problem) -> u64 {
    p["c"]
}

/// Rows of a batch.
fn batch_rows(p: &Problem) -> u64 {
    p["r"] / p["c"]
}

fn group_of_row(shape: &Shape, draw: Draw) -> f64 {
    draw.below(shape["g"]) as f64
}

/// Weight scaled so that sums over features of about one are about one.
fn into_layer(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / (shape["d"] as f64).sqrt()
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, g, d, f) = (batch_rows(p), p["g"], p["d"], p["f"]);
    let of_rows = [batches(p), b];
    let host = |spec: BufferSpec| spec.at(Place::HostPinned);
    let room = |[id, group, weight]: [&'static str; 3]| {
        [
            BufferSpec::scratch(id, Elem::U32, &[b]),
            BufferSpec::scratch(group, Elem::U32, &[b]),
            BufferSpec::scratch(weight, Elem::F32, &[b]),
        ]
    };
    let mut buffers = vec![
        host(BufferSpec::input("id", Elem::U32, &of_rows, any_id)),
        host(BufferSpec::input("group", Elem::U32, &of_rows, group_of_row)),
        host(BufferSpec::input("weight", Elem::F32, &of_rows, normal)),
        BufferSpec::input("w", Elem::F32, &[d, f], into_layer),
        BufferSpec::input("bias", Elem::F32, &[f], normal),
    ];
    buffers.extend(OUTPUTS[..batches(p) as usize].iter().map(|name| BufferSpec::output(name, Elem::F32, &[g, f])));
    buffers.extend(ROOMS.into_iter().flat_map(room));
    buffers.push(BufferSpec::scratch("features", Elem::F32, &[g, d]));
    buffers
}

fn layer(p: &Problem) -> Gemm {
    Gemm::new(p["g"], p["f"], p["d"])
}

fn cost(p: &Problem) -> Cost {
    let (b, g, d, f, c) = (batch_rows(p), p["g"], p["d"], p["f"], batches(p));
    Cost::new(c * (b + layer(p).flops()), c * 12 * b + 4 * (d * f + f), c * 4 * g * f)
}

/// Largest number of rows of a group, almost certainly: the mean, with a margin for chance.
fn usual_rows(p: &Problem) -> f64 {
    let mean = batch_rows(p) as f64 / p["g"] as f64;
    (mean + 8.0 * mean.sqrt() + 16.0).min(batch_rows(p) as f64)
}

/// Tolerance for groups of at most `rows` rows.
fn tolerance(p: &Problem, rows: f64) -> Tolerance {
    const U: f64 = 1.0 / (1 << 24) as f64;
    // Weights are at most 3.47 and of random sign, by themselves or by the hash. Their sum exceeds this only with probability
    // e^-32. No weight of the layer is above 3.47/√d, so no part of a sum is above `most`.
    let together = (3.47 * rows).min(8.0 * rows.sqrt());
    let most = 3.47 * together / (p["d"] as f64).sqrt() + 3.47;
    // Roundings of additions: of rows to a feature, and of features, of which at most as many as rows are nonzero.
    let roundings = rows + rows.min(p["d"] as f64) + 4.0;
    Tolerance {
        abs: 1.13 * roundings * U * most + 5e-5,
        rel: 1e-5,
        reason: "each addition of f32, to a feature or to a sum of the layer, is off by u of the partial sum, which is at \
                 most eight times the root of the number of rows but with probability e^-32; zeros are added exactly; GELU's slope \
                 is below 1.13, and its own error that of its tanh",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "weights and biases of zero: GELU of zero everywhere",
            |_| vec![("weight", zero), ("bias", zero)],
            |p, _| tolerance(p, usual_rows(p)),
        ),
        StressInput::new(
            "same index",
            "every row of a batch in one column of one group: all atomics meet in one word",
            |_| vec![("id", zero), ("group", zero)],
            |p, _| tolerance(p, batch_rows(p) as f64),
        ),
        StressInput::new(
            "last group",
            "every row in the last group, with a weight of one: the others have biases alone",
            |_| vec![("group", |shape, _| (shape["g"] - 1) as f64), ("weight", one)],
            |p, _| tolerance(p, batch_rows(p) as f64),
        ),
    ]
}

/// Operations of a row: its share of the sort of the batch by group, its own rows, and its products.
fn row_cost(p: &Problem, _output: usize) -> u64 {
    2 * batch_rows(p).div_ceil(p["g"]) + p["d"] * p["f"]
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (b, d, f) = (batch_rows(p), p["d"], p["f"]);
    let sorted: Vec<OnceLock<(Vec<u32>, Vec<usize>)>> = (0..batches(p)).map(|_| OnceLock::new()).collect();
    Box::new(move |batch, group, out| {
        let before = batch as u64 * b;
        let (rows, first) =
            sorted[batch].get_or_init(|| by_group(p["g"], b, |row| inputs.at(GROUP, before + row) as u64));
        let mut features = vec![0.0; d as usize];
        for row in &rows[first[group as usize]..first[group as usize + 1]] {
            let at = before + u64::from(*row);
            let (column, sign) = place(inputs.at(ID, at) as u32, d as u32);
            features[column as usize] += sign * inputs.at(WEIGHT, at);
        }
        for (out, j) in out.iter_mut().zip(0..) {
            let products = features.iter().zip(0..).map(|(feature, l)| feature * inputs.at(W, l * f + j));
            *out = gelu_tanh(products.sum::<f64>() + inputs.at(BIAS, j));
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (b, d, f) = (batch_rows(p) as usize, p["d"] as usize, p["f"] as usize);
    let (ids, groups, weights) = (inputs[ID].u32(), inputs[GROUP].u32(), inputs[WEIGHT].f32());
    let (w, bias) = (inputs[W].f32(), inputs[BIAS].f32());
    let of_batches = ids.chunks_exact(b).zip(groups.chunks_exact(b)).zip(weights.chunks_exact(b));
    for (out, ((ids, groups), weights)) in outputs.iter_mut().zip(of_batches) {
        let mut features = vec![0f32; p["g"] as usize * d];
        for ((id, group), weight) in ids.iter().zip(groups).zip(weights) {
            let (column, sign) = place(*id, d as u32);
            features[*group as usize * d + column as usize] += sign as f32 * weight;
        }
        out.par_chunks_exact_mut(f).zip(features.par_chunks_exact(d)).for_each(|(out, features)| {
            out.copy_from_slice(bias);
            for (feature, w) in features.iter().zip(w.chunks_exact(f)) {
                vector::add(out, *feature, w);
            }
            vector::replace(out, gelu_tanh);
        });
    }
}

/// Upload stages of a batch into a device buffer.
fn uploads(p: &Problem, batch: u64, room: [&'static str; 3]) -> impl Iterator<Item = Stage> {
    let bytes = 4 * batch_rows(p);
    let range = CopyRange { from: Bytes(batch * bytes), to: Bytes(0), bytes: Bytes(bytes) };
    COLUMNS.into_iter().zip(room).map(move |(column, room)| {
        Stage::copy_range(format!("upload {column} {batch}"), [column, room], range).cost(Cost::new(0, 0, bytes))
    })
}

/// Stages that compute on a batch in a device buffer.
fn computed(p: &Problem, caps: &Caps, batch: u64, [id, group, weight]: [&'static str; 3]) -> Vec<Stage> {
    let shape = format!("r{},g{},d{},unsorted", batch_rows(p), p["g"], p["d"]);
    let names = [("id", id), ("group", group), ("weight", weight), ("out", "features")];
    let mut stages = SubOp::new("hash_embedding", Direction::Fwd, &shape, p.dtype).stages("basic", caps, &names);
    let made = Stages { dtype: p.dtype, caps, kind: GemmKind::Tiles };
    stages.extend(made.with_gelu(layer(p), ["features", "w", OUTPUTS[batch as usize]], "bias", None));
    stages.into_iter().map(|stage| stage.renamed(|name| format!("{name} {batch}"))).collect()
}

/// Program with kernels on queue 0. Overlapped, uploads are on queue 1. They start after the last read of the batch before last
/// from the same buffer.
fn program(p: &Problem, caps: &Caps, overlapped: bool) -> Program {
    let mut stages: Vec<Stage> = Vec::new();
    // The last stage that reads from each buffer.
    let mut left: [Option<usize>; 2] = [None; 2];
    for batch in 0..batches(p) {
        let turn = (batch % 2) as usize;
        let room = ROOMS[turn];
        for upload in uploads(p, batch, room) {
            let after = left[turn].as_slice();
            stages.push(if overlapped { upload.queue(1, after) } else { upload });
        }
        let uploaded = stages.len() - 1;
        for stage in computed(p, caps, batch, room) {
            let reads = stage.args.iter().any(|arg| room.contains(&arg.buffer));
            if reads {
                left[turn] = Some(stages.len());
            }
            let after: &[usize] = if reads { &[uploaded] } else { &[] };
            stages.push(if overlapped { stage.queue(0, after) } else { stage });
        }
    }
    Program { stages }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::{Queues, StageOp};
    use parallax_schema::testing::caps;

    fn stages(variant: &str) -> Vec<Stage> {
        let case = parse_case(&format!("prefetch/fwd/r2048,c4,g64,d64,f128/f32/{variant}")).expect("valid");
        case.program(&Caps { dialect: Dialect::Cuda, ..caps() }).expect("stages").stages
    }

    #[test]
    fn uploads_run_ahead_and_no_room_is_written_while_it_is_read() {
        let overlapped = stages("overlapped");
        // Two queues; `Queues::from_stages` checks that no stage writes a buffer that another queue reads.
        assert_eq!(Queues::from_stages(&overlapped).map(|queues| queues.queues), Ok(2));
        assert_eq!(Queues::from_stages(&stages("serial")).map(|queues| queues.queues), Ok(1));
        // A kernel waits only for its own batch, and the first two batches wait for no stage.
        let copies = |stage: &&Stage| matches!(stage.work, StageOp::CopyRange(_));
        let waits: Vec<usize> = overlapped.iter().filter(copies).map(|stage| stage.after.len()).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn every_row_is_uploaded_once() {
        let mut ends = [0; 3];
        for stage in stages("serial") {
            let StageOp::CopyRange(range) = stage.work else { continue };
            let column = COLUMNS.iter().position(|name| *name == stage.args[0].buffer).expect("a column");
            assert_eq!((range.from, range.to), (Bytes(ends[column]), Bytes(0)));
            ends[column] += range.bytes.0;
        }
        assert_eq!(ends, [4 * 2048; 3]);
    }
}
