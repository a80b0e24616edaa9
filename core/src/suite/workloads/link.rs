//! Link: `out[i] = x[i]`, where one of the two lies in pinned host memory and the other on the device.
//!
//! Nothing is computed, so its speed is that of the link between host and device: the ceiling of everything that comes from
//! the host or goes back to it. It is a probe for that ceiling and belongs to no preset. Bytes are counted as for `copy`: once
//! read, once written.

use crate::suite::hard::{any, exact, subnormal, zero};
use crate::suite::{
    Axis, BufferSpec, Cost, DType, Direction, Draw, Elem, Finds, Form, Hard, Inputs, Place, Probe, Problem, Program,
    Rate, Reference, Role, Shape, Stage, Tolerance, Variant, Workload,
};
use rayon::prelude::*;

const X: usize = 0;

/// The form.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[
            Probe { finds: Finds::Upload, shape: |s| Some(format!("n{},upload", s.working_set / 4)), variants: &[] },
            Probe {
                finds: Finds::Download,
                shape: |s| Some(format!("n{},download", s.working_set / 4)),
                variants: &[],
            },
        ],
        about: "copies from and to the host: how fast the link is",
        axes: const { &[Axis::extent("n", "elements"), Axis::word("way", "which way they go", &["upload", "download"])] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |_| Ok(()),
        forms: vec![Form {
            direction: Direction::Fwd,
            rate: Rate::Bytes,
            headline: None,
            shapes: |_| &[],
            // Halves end in the middle of a word; the last is more than is written to a mapping at a time.
            awkward: &[
                "n1,upload",
                "n1,download",
                "n3,upload",
                "n7,download",
                "n1009,upload",
                "n1048579,upload",
                "n5003,download",
            ],
            huge: &[],
            buffers,
            cost,
            tolerance: |_, _| Tolerance {
                abs: 2f64.powi(-150),
                rel: 0.0,
                reason: "a copy is exact: the bound is half the smallest difference between two f32 numbers",
            },
            reference: Reference {
                row_cost: |p, _| row_len(p),
                rows: |_, inputs| Box::new(move |_, row, out| reference(inputs, row, out)),
            },
            setup: None,
            host: Some(|_, inputs, outputs| {
                const PIECE: usize = 1 << 16;
                let pieces = inputs[X].f32().par_chunks(PIECE);
                outputs[0].par_chunks_mut(PIECE).zip(pieces).for_each(|(to, from)| to.copy_from_slice(from));
            }),
            variants: vec![Variant::kernel("copy", "one copy of all elements", |p, _| program(p))],
            fallback: &["copy"],
            preconditions: Vec::new(),
            hard: vec![
                Hard { name: "zeros", about: "all zero", applies: any, fills: |_| vec![("x", zero)], tolerance: exact },
                Hard {
                    name: "subnormal",
                    about: "numbers too small to be normal: moved like any other, not flushed",
                    applies: any,
                    fills: |p| vec![("x", subnormal(p))],
                    tolerance: exact,
                },
            ],
            only: None,
        }],
    }
}

/// Elements compared at a time, if the length allows.
const ROW: u64 = 1 << 20;

/// The array has one extent; for checking, it is cut into the longest rows that are all alike.
fn row_len(p: &Problem) -> u64 {
    1 << p["n"].trailing_zeros().min(ROW.trailing_zeros())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let n = p["n"];
    let (from, to) = match p.shape.has("upload") {
        true => (Place::HostPinned, Place::Device),
        false => (Place::Device, Place::HostPinned),
    };
    let role = Role::Output { row_len: row_len(p) };
    let out = BufferSpec { role, ..BufferSpec::output("out", Elem::Real, &[n]) };
    vec![BufferSpec::input("x", Elem::Real, &[n], |_: &Shape, draw: Draw| draw.normal()).at(from), out.at(to)]
}

fn cost(p: &Problem) -> Cost {
    let bytes = p["n"] * Elem::Real.storage(p.dtype).bytes();
    Cost::new(0, bytes, bytes)
}

fn reference(inputs: &Inputs, row: u64, out: &mut [f64]) {
    let first = row * out.len() as u64;
    for (i, slot) in out.iter_mut().enumerate() {
        *slot = inputs.at(X, first + i as u64);
    }
}

fn program(p: &Problem) -> Program {
    let way = if p.shape.has("upload") { "upload" } else { "download" };
    Stage::copy(way, "x", "out").costing(cost(p)).into()
}
