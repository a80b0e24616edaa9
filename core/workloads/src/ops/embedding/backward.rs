//! Gradient of the table: sums of the gradients of the items that used each row.

use std::sync::OnceLock;

use parallax_ir::parallel::*;
use parallax_ir::stress::{any, sums_of_zeros, wide, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Precondition, Problem, Program, Reference, Rows, StressInput,
    Tolerance, Variant, normal,
};
use parallax_schema::case::{Cost, Direction};
use parallax_schema::device::Caps;

use super::super::hash_embedding::by_group;
use super::indices::{ENDS, LAST, chosen, most_alike, popular, summed};
use super::stages::{SORTED, Segments, Taken, With, added_to_zeros, by_row};
use super::{INDEX, forward, row_bytes};

const DOUT: usize = 1;

pub(super) fn form() -> OpSpec {
    OpSpec {
        direction: Direction::Bwd,
        huge: &[],
        awkward: &[
            "n1,v1,d1",
            "n3,v7,d5,zipf",
            "n257,v1,d12",
            "n100,v33,d8,zipf",
            "n67,v1009,d130",
            "n1009,v101,d4,zipf",
            "n401,v13,d36",
        ],
        buffers,
        cost: |p| Cost::new(p["n"] * p["d"], p["n"] * (4 + row_bytes(p)), p["v"] * row_bytes(p)),
        tolerance: |p, _| summed(p, most_alike(p, p["n"]), 3.47),
        reference: Reference::new(|p, _| p["n"].div_ceil(p["v"]) * (2 + p["d"]), reference),
        host: Some(host),
        variants: vec![
            Variant::kernel(
                "atomic",
                "zeros, then an atomic addition for each element (CUDA: for up to four at once); WGSL has no floating-point atomics, \
                 so there the addition is a compare-and-exchange loop on the bits. 16-bit types are summed in f32 and rounded",
                atomic,
            ),
            Variant::kernel(
                "sorted",
                "items sorted by their rows, then summed in registers, stretch by stretch: each gradient is read once, nothing is \
                 atomic, and the result is the same in every run",
                sorted,
            )
            .deterministic(),
        ],
        fallback: &["sorted", "atomic"],
        preconditions: vec![Precondition::Below { buffer: "index", bound: |p| p["v"] }],
        stress: stress_inputs(),
        nan: OfNan::MIXED,
        ..forward()
    }
}

fn segments(p: &Problem) -> Segments {
    Segments { items: p["n"], sources: p["n"], rows: p["v"], columns: p["d"], dtype: p.dtype, with: With::default() }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let mut all = vec![
        BufferSpec::input("index", Elem::U32, &[p["n"]], chosen),
        BufferSpec::input("dout", Elem::Real, &[p["n"], p["d"]], normal),
        BufferSpec::output("dtable", Elem::Real, &[p["v"], p["d"]]),
        BufferSpec::scratch("sums", Elem::F32, &[p["v"], p["d"]]),
        segments(p).scratch("parts"),
    ];
    all.extend(by_row(p["n"], p["v"]).scratch(SORTED));
    all
}

fn atomic(p: &Problem, caps: &Caps) -> Program {
    let taken = Taken::of_one(p["n"], p["v"], p["d"], p.dtype);
    let adding = |sums| vec![taken.scatter(caps, ["index", "dout", sums])];
    Program { stages: added_to_zeros(p["v"] * p["d"], p.dtype, caps, ["sums", "dtable"], adding) }
}

fn sorted(p: &Problem, caps: &Caps) -> Program {
    let mut stages = by_row(p["n"], p["v"]).stages(SORTED);
    stages.extend(segments(p).stages(caps, SORTED, ["dout", "dtable", "parts"]));
    Program { stages }
}

/// Tolerance for items that may all use one row.
fn crowded(p: &Problem, _output: usize) -> Tolerance {
    summed(p, p["n"] as f64, 3.47)
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, applies, fills, tolerance| StressInput::new(name, about, fills, tolerance).applies(applies);
    vec![
        set("zeros", "gradients of zero", any, |_| vec![("dout", zero)], |p, _| sums_of_zeros(p)),
        set(
            "one row",
            "every item took the last row: all additions meet in it",
            any,
            |_| vec![("index", LAST)],
            crowded,
        ),
        set("ends", "the first and the last row alternate, without others", any, |_| vec![("index", ENDS)], crowded),
        set("zipf", "rows by Zipf's law: a few were taken by most items", any, |_| vec![("index", popular)], crowded),
        set(
            "huge",
            "gradients of up to 1e30: sums of all items stay within the element type",
            |p| wide(p) && p["n"] <= 100_000,
            |_| vec![("dout", |_, draw| 1e30 / 3.47 * draw.normal())],
            |p, _| summed(p, most_alike(p, p["n"]), 1e30),
        ),
    ]
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let taken = OnceLock::new();
    Box::new(move |_, row, out| {
        let (items, first) = taken.get_or_init(|| by_group(p["v"], p["n"], |i| inputs.at(INDEX, i) as u64));
        out.fill(0.0);
        for item in &items[first[row as usize]..first[row as usize + 1]] {
            for (out, at) in out.iter_mut().zip(u64::from(*item) * p["d"]..) {
                *out += inputs.at(DOUT, at);
            }
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (index, dout, d) = (inputs[INDEX].u32(), inputs[DOUT].f32(), p["d"] as usize);
    // Items by row, so that rows can be summed in parallel.
    let (items, first) = by_group(p["v"], p["n"], |i| u64::from(index[i as usize]));
    outputs[0].par_chunks_mut(d).enumerate().for_each(|(row, out)| {
        out.fill(0.0);
        for item in &items[first[row]..first[row + 1]] {
            for (out, term) in out.iter_mut().zip(&dout[*item as usize * d..][..d]) {
                *out += term;
            }
        }
    });
}
