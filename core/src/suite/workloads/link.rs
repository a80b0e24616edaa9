//! Link: `out[i] = x[i]`, where one of the two lies in pinned host memory and the other on the device.
//!
//! Nothing is computed, so its speed is that of the link between host and device: the ceiling of everything that comes from
//! the host or goes back to it. It is a probe for that ceiling and belongs to no preset. All but where the two lie is as in
//! `copy`: a copy stage needs no kernel text, so this is a workload of its own.

use super::copy;
use crate::suite::{
    Axis, BufferSpec, DType, Direction, Finds, HostFn, OfNan, OpSpec, Place, Probe, Problem, Program, Rate, Reference,
    RowsFn, Stage, Variant, Workload,
};

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
        forms: vec![OpSpec {
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
            cost: copy::cost,
            tolerance: copy::tolerance,
            reference: Reference { row_cost: copy::row_cost, rows: RowsFn::of(copy::rows) },
            setup: None,
            host: Some(HostFn::of(copy::host)),
            variants: vec![Variant::kernel("copy", "one copy of all elements", |p, _| program(p))],
            fallback: &["copy"],
            preconditions: Vec::new(),
            hard: copy::hard_sets(),
            nan: OfNan::Kept,
            only: None,
        }],
    }
}

/// Those of a copy, one of them in pinned host memory.
fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let places = match p.shape.has("upload") {
        true => [Place::HostPinned, Place::Device],
        false => [Place::Device, Place::HostPinned],
    };
    copy::buffers(p).into_iter().zip(places).map(|(buffer, place)| buffer.at(place)).collect()
}

fn program(p: &Problem) -> Program {
    let way = if p.shape.has("upload") { "upload" } else { "download" };
    Stage::copy(way, "x", "out").costing(copy::cost(p)).into()
}
