//! Link: `out[i] = x[i]`, with one array in pinned host memory and the other on the device.
//!
//! There is no arithmetic, so its speed is that of the link between host and device. This is the ceiling of all transfers to and
//! from the host. It is a probe for that ceiling and belongs to no preset. Only the places of the arrays differ from `copy`. A copy
//! stage needs no kernel source, so this is a separate workload.

use parallax_ir::{
    Axis, BufferSpec, Finds, OfNan, OpSpec, Place, Probe, Problem, Program, Reference, Stage, Variant, Workload,
};
use parallax_schema::case::{DType, Direction, Rate};

use super::copy;

/// Definition of the workload.
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
        about: "copies from and to the host: rate of the link",
        axes: const {
            &[Axis::extent("n", "elements"), Axis::word("way", "direction of the copies", &["upload", "download"])]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |_| Ok(()),
        forms: vec![
            OpSpec::new(
                Direction::Fwd,
                Rate::Bytes,
                buffers,
                copy::cost,
                copy::tolerance,
                Reference::new(copy::row_cost, copy::rows),
                OfNan::Kept,
            )
            // Halves end in the middle of a word; the last exceeds a single write to a mapping.
            .awkward(&[
                "n1,upload",
                "n1,download",
                "n3,upload",
                "n7,download",
                "n1009,upload",
                "n1048579,upload",
                "n5003,download",
            ])
            .host(copy::host)
            .variants(vec![Variant::kernel("copy", "one copy of all elements", |p, _| program(p))])
            .fallback(&["copy"])
            .stress(copy::stress_inputs()),
        ],
    }
}

/// Buffers of a copy, one of them in pinned host memory.
fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let places = match p.shape.has("upload") {
        true => [Place::HostPinned, Place::Device],
        false => [Place::Device, Place::HostPinned],
    };
    copy::buffers(p).into_iter().zip(places).map(|(buffer, place)| buffer.at(place)).collect()
}

fn program(p: &Problem) -> Program {
    let way = if p.shape.has("upload") { "upload" } else { "download" };
    Stage::copy(way, "x", "out").cost(copy::cost(p)).into()
}
