//! Gather of table rows: `out[i, :] = table[index[i], :]`. Backward, each row of the table gets the sum of the gradients of its
//! items: `dtable[r, :] = Σ dout[i, :]` over all `i` with `index[i] = r`.
//!
//! Operations: none forward, one addition per element of the gradients backward. Bytes: the indices, every used row once, and the
//! result. The number of distinct rows is an expected value.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{subnormal, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, Fill, HostBuffer, OfNan, OpSpec, Precondition, Problem, Program, Reference, Stage,
    StressInput, Variant, Workload, by_pieces, indexable, normal, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use self::indices::{CHOICE, ENDS, LAST, chosen, different, moved};
use self::stages::{AT_ONCE, Taken};

mod backward;
pub(super) mod indices;
pub(super) mod stages;

const INDEX: usize = 0;
const TABLE: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "rows of a table, taken by their numbers",
        axes: const {
            &[
                Axis::extent("n", "items").items(),
                Axis::extent("v", "table rows"),
                Axis::extent("d", "row length"),
                CHOICE,
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| [shape["n"] * shape["d"], shape["v"] * shape["d"]].into_iter().try_for_each(indexable),
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            vec![
                BufferSpec::input("index", Elem::U32, &[p["n"]], chosen),
                BufferSpec::input("table", Elem::Real, &[p["v"], p["d"]], normal),
                BufferSpec::output("out", Elem::Real, &[p["n"], p["d"]]),
            ]
        },
        |p| Cost::new(0, 4 * p["n"] + different(p, p["n"]) * row_bytes(p), p["n"] * row_bytes(p)),
        moved,
        Reference::new(
            |p, _| p["d"],
            |p, inputs| {
                Box::new(move |_, item, out| {
                    let row = inputs.at(INDEX, item) as u64;
                    for (out, at) in out.iter_mut().zip(row * p["d"]..) {
                        *out = inputs.at(TABLE, at);
                    }
                })
            },
        ),
        OfNan::MIXED,
    )
    .headline("n65536,v100000,d128")
    .shapes(shapes)
    .awkward(&[
        "n1,v1,d1",
        "n3,v7,d5,zipf",
        "n257,v1,d12",
        "n100,v33,d8,zipf",
        "n67,v1009,d130",
        "n1009,v101,d4,zipf",
        "n401,v13,d36",
    ])
    .huge(&["n33554432,v1000,d68"])
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one element per thread, which looks up its item's row", naive),
        Variant::kernel("rows", "pieces of up to sixteen bytes, several under way in each thread", rows)
            .tunables(&[AT_ONCE]),
        Variant::cube("one source in CubeCL: a piece of up to sixteen bytes per thread", cube),
    ])
    .fallback(&["rows", "naive"])
    .preconditions(vec![Precondition::Below { buffer: "index", bound: |p| p["v"] }])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n65536,v1000,d128",
            "n65536,v100000,d128",
            "n262144,v100000,d128",
            "n262144,v100000,d128,zipf",
            "n1048576,v1000000,d64",
        ],
        _ => &[
            "n8192,v100000,d128",
            "n65536,v1000,d128",
            "n65536,v100000,d128",
            "n262144,v100000,d128",
            "n262144,v100000,d128,zipf",
            "n1048576,v100000,d128",
            "n1048576,v1000000,d64",
            "n1048576,v10000000,d64",
            "n1048576,v10000000,d64,zipf",
        ],
    }
}

/// Bytes of a row of the table.
fn row_bytes(p: &Problem) -> u64 {
    p["d"] * Elem::Real.storage(p.dtype).bytes()
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, moved);
    vec![
        set("zeros", "a table of zeros", |_| vec![("table", zero)]),
        set("one row", "every item takes the last row", |_| vec![("index", LAST)]),
        set("ends", "the first and the last row alternate, without others", |_| vec![("index", ENDS)]),
        set("huge", "up to the largest numbers of the element type", |p| vec![("table", huge(p))]),
        set("subnormal", "numbers too small to be normal: themselves, or zero where the device flushes them", |p| {
            vec![("table", subnormal(p))]
        }),
    ]
}

fn huge(p: &Problem) -> Fill {
    match p.dtype {
        DType::F16 => |_, draw| 65_504.0 * (2.0 * draw.uniform() - 1.0),
        DType::F32 | DType::BF16 => |_, draw| 3e38 * (2.0 * draw.uniform() - 1.0),
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (index, table, d) = (inputs[INDEX].u32(), inputs[TABLE].f32(), p["d"] as usize);
    outputs[0]
        .par_chunks_mut(d)
        .zip(index)
        .for_each(|(out, row)| out.copy_from_slice(&table[*row as usize * d..][..d]));
}

fn naive(p: &Problem, _: &Caps) -> Program {
    by_pieces(p["n"] * p["d"], 1, "embedding/naive", "embedding_naive")
        .consts(&[("COLUMNS", p["d"] as u32)])
        .args([("index", Read), ("table", Read), ("out", Write)])
        .cost(p.cost())
        .into()
}

fn cube(p: &Problem, caps: &Caps) -> Program {
    let width = width(p["d"], p.dtype, caps);
    let pieces = p["d"] / width;
    Stage::cube_over("cube_embedding", p["n"] * pieces)
        .consts(&[("PIECES", pieces as u32), ("WIDTH", width as u32)])
        .args([("index", Read), ("table", Read), ("out", Write)])
        .cost(p.cost())
        .into()
}

fn rows(p: &Problem, caps: &Caps) -> Program {
    let taken = Taken::of_one(p["n"], p["v"], p["d"], p.dtype);
    taken.gather(caps, p.tuned(caps, "rows", &AT_ONCE), different(p, p["n"]), ["index", "table", "out"]).into()
}
