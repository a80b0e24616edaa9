//! Gradients of the tables.

use std::sync::OnceLock;

use parallax_ir::parallel::*;
use parallax_ir::stress::{any, sums_of_zeros, wide, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Reference, Rows, StressInput, Tolerance, Variant,
    normal,
};
use parallax_schema::case::{Cost, Direction};

use super::super::embedding::indices::{ENDS, LAST, chosen, most_alike, popular, summed};
use super::super::embedding::stages::SORTED;
use super::super::hash_embedding::by_group;
use super::{INDEX, forward, items, row_bytes, stages};

const DOUT: usize = 1;

pub(super) fn form() -> OpSpec {
    OpSpec {
        direction: Direction::Bwd,
        buffers,
        cost: |p| Cost::new(items(p) * p["d"], items(p) * (4 + row_bytes(p)), p["t"] * p["v"] * row_bytes(p)),
        tolerance: |p, _| summed(p, most_alike(p, p["n"]), 3.47),
        reference: Reference::new(|p, _| p["n"].div_ceil(p["v"]) * (2 + p["d"]), reference),
        host: Some(host),
        variants: vec![
            Variant::kernel(
                "loop",
                "zeros, then a launch for each table with an atomic addition for each element (CUDA: for up to four at once; WGSL: a \
                 compare-and-exchange loop on the bits)",
                stages::each_table_added,
            ),
            Variant::kernel("fused", "the same in one launch for all tables", stages::fused_added),
            Variant::kernel(
                "sorted",
                "indices shifted into one stacked table, sorted, and summed in registers, stretch by stretch: nothing is atomic, and \
                 the result is the same in every run",
                stages::sorted,
            )
            .deterministic(),
        ],
        fallback: &["sorted", "fused", "loop"],
        stress: stress_inputs(),
        nan: OfNan::MIXED,
        ..forward()
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (n, t, v, d) = (p["n"], p["t"], p["v"], p["d"]);
    let mut all = vec![
        BufferSpec::input("index", Elem::U32, &[n, t], chosen),
        BufferSpec::input("dout", Elem::Real, &[n, t * d], normal),
        BufferSpec::output("dtables", Elem::Real, &[t, v, d]),
        BufferSpec::scratch("sums", Elem::F32, &[t, v, d]),
        BufferSpec::scratch("shifted", Elem::U32, &[n, t]),
        stages::segments(p).scratch("parts"),
    ];
    all.extend(stages::sort(p).scratch(SORTED));
    all
}

/// Tolerance for samples that may all use one row.
fn crowded(p: &Problem, _output: usize) -> Tolerance {
    summed(p, p["n"] as f64, 3.47)
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, applies, fills, tolerance| StressInput::new(name, about, fills, tolerance).applies(applies);
    vec![
        set("zeros", "gradients of zero", any, |_| vec![("dout", zero)], |p, _| sums_of_zeros(p)),
        set("one row", "every sample took the last row of each table", any, |_| vec![("index", LAST)], crowded),
        set("ends", "first and last rows alternate, without others", any, |_| vec![("index", ENDS)], crowded),
        set("zipf", "rows by Zipf's law: a few were taken by most", any, |_| vec![("index", popular)], crowded),
        set(
            "huge",
            "gradients of up to 1e30: sums stay within the element type",
            |p| wide(p) && p["n"] <= 100_000,
            |_| vec![("dout", |_, draw| 1e30 / 3.47 * draw.normal())],
            |p, _| summed(p, most_alike(p, p["n"]), 1e30),
        ),
    ]
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (taken, t, v, d) = (OnceLock::new(), p["t"], p["v"], p["d"]);
    Box::new(move |_, row, out| {
        let (all, first) = taken.get_or_init(|| by_group(t * v, items(p), |i| i % t * v + inputs.at(INDEX, i) as u64));
        out.fill(0.0);
        for item in &all[first[row as usize]..first[row as usize + 1]] {
            for (out, at) in out.iter_mut().zip(u64::from(*item) * d..) {
                *out += inputs.at(DOUT, at);
            }
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (index, dout, d) = (inputs[INDEX].u32(), inputs[DOUT].f32(), p["d"] as usize);
    let (t, v) = (p["t"], p["v"]);
    // Items by row, so that rows can be summed in parallel.
    let (all, first) = by_group(t * v, items(p), |i| i % t * v + u64::from(index[i as usize]));
    outputs[0].par_chunks_mut(d).enumerate().for_each(|(row, out)| {
        out.fill(0.0);
        for item in &all[first[row]..first[row + 1]] {
            for (out, term) in out.iter_mut().zip(&dout[*item as usize * d..][..d]) {
                *out += term;
            }
        }
    });
}
