//! Gather from several tables: sample `s` uses a row of each of `t` tables, and `out[s, k·d ..]` is row `index[s, k]` of table `k`.
//! Backward, each row of each table gets the sum of the gradients of its samples.
//!
//! The variants are those of models with tables: one launch per table, one launch for all, or indices shifted into one stacked
//! table. The last is then one plain gather.
//!
//! Operations: none forward, one addition per element of the gradients backward. Bytes: the indices, every used row once, and the
//! result.

use parallax_ir::parallel::*;
use parallax_ir::stress::{subnormal, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, OfNan, OpSpec, Precondition, Problem, Reference, StressInput, Variant,
    Workload, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};

use super::embedding::indices::{CHOICE, ENDS, LAST, chosen, different, moved};

mod backward;
mod stages;

const INDEX: usize = 0;
const TABLES: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "a row of each of many tables, side by side",
        axes: const {
            &[
                Axis::extent("n", "samples").items(),
                Axis::extent("t", "tables"),
                Axis::extent("v", "rows a table"),
                Axis::extent("d", "row length"),
                CHOICE,
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| {
            let (t, v, d) = (shape["t"], shape["v"], shape["d"]);
            [shape["n"] * t * d, t * v * d].into_iter().try_for_each(indexable)
        },
        forms: vec![forward(), backward::form()],
    }
}

const AWKWARD: &[&str] = &[
    "n1,t1,v1,d1",
    "n3,t2,v7,d5,zipf",
    "n67,t3,v13,d12",
    "n33,t2,v101,d8,zipf",
    "n101,t3,v5,d36",
    "n211,t4,v67,d4,zipf",
    "n13,t2,v33,d130",
];

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            let (n, t, d) = (p["n"], p["t"], p["d"]);
            vec![
                BufferSpec::input("index", Elem::U32, &[n, t], chosen),
                BufferSpec::input("tables", Elem::Real, &[t, p["v"], d], normal),
                BufferSpec::output("out", Elem::Real, &[n, t * d]),
                BufferSpec::scratch("shifted", Elem::U32, &[n, t]),
            ]
        },
        |p| Cost::new(0, 4 * items(p) + taken_bytes(p), items(p) * row_bytes(p)),
        moved,
        Reference::new(
            |p, _| p["t"] * p["d"],
            |p, inputs| {
                Box::new(move |_, sample, out| {
                    let (t, v, d) = (p["t"], p["v"], p["d"]);
                    for (table, out) in out.chunks_mut(d as usize).enumerate() {
                        let row = table as u64 * v + inputs.at(INDEX, sample * t + table as u64) as u64;
                        for (out, at) in out.iter_mut().zip(row * d..) {
                            *out = inputs.at(TABLES, at);
                        }
                    }
                })
            },
        ),
        OfNan::MIXED,
    )
    .headline("n8192,t8,v5000,d32")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("loop", "a launch for each table, which fills its columns of the result", stages::each_table),
        Variant::kernel(
            "flatten",
            "indices shifted into one stacked table by a stage of its own, and one plain gather",
            stages::flattened,
        ),
        Variant::kernel("fused", "one launch that knows which table an index is of", stages::fused),
    ])
    .fallback(&["fused", "flatten", "loop"])
    .preconditions(vec![Precondition::Below { buffer: "index", bound: |p| p["v"] }])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => {
            &["n8192,t8,v5000,d32", "n65536,t16,v5000,d32", "n65536,t16,v5000,d32,zipf", "n65536,t26,v100000,d64"]
        }
        _ => &[
            "n8192,t8,v5000,d32",
            "n65536,t16,v5000,d32",
            "n65536,t16,v5000,d32,zipf",
            "n65536,t26,v100000,d64",
            "n65536,t26,v100000,d64,zipf",
            "n65536,t16,v1000000,d64",
        ],
    }
}

/// Number of items: one per sample and table.
fn items(p: &Problem) -> u64 {
    p["n"] * p["t"]
}

fn row_bytes(p: &Problem) -> u64 {
    p["d"] * Elem::Real.storage(p.dtype).bytes()
}

/// Bytes of the used rows, on average.
fn taken_bytes(p: &Problem) -> u64 {
    p["t"] * different(p, p["n"]) * row_bytes(p)
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, moved);
    vec![
        set("zeros", "tables of zeros", |_| vec![("tables", zero)]),
        set("one row", "every sample takes the last row of each table", |_| vec![("index", LAST)]),
        set("ends", "first and last rows alternate, without others", |_| vec![("index", ENDS)]),
        set("subnormal", "numbers too small to be normal: themselves, or zero where the device flushes them", |p| {
            vec![("tables", subnormal(p))]
        }),
    ]
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (index, tables) = (inputs[INDEX].u32(), inputs[TABLES].f32());
    let (t, v, d) = (p["t"] as usize, p["v"] as usize, p["d"] as usize);
    outputs[0].par_chunks_mut(d).zip(index).enumerate().for_each(|(item, (out, row))| {
        out.copy_from_slice(&tables[(item % t * v + *row as usize) * d..][..d]);
    });
}
