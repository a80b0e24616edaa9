//! Transfer: `k` buffers of `n` elements go from the host to the device or back, `out[i, j] = x[i, j]`.
//!
//! Buffers are adjacent on both sides. The variants copy each buffer separately, copy all at once, or read and write across the
//! link with a kernel. Elements are f32 alone, because no kernel interprets them. Copies of whole large buffers (`link`) give the
//! link's ceiling. Here sizes range from a kilobyte to a gigabyte, which separates the fixed cost of a copy from the cost of its
//! bytes. They also show the benefit of a memory pool: `pooled` and `allocated` differ only in an existing device buffer for
//! `pooled`.
//!
//! Bytes are counted once: writes to the device for an upload, reads from it for a download.

use parallax_ir::{
    Access, Axis, BufferSpec, CopyRange, Elem, OfNan, OpSpec, Place, Problem, Program, Reference, Role, Stage, Variant,
    Workload, indexable, normal, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::Bytes;

use super::copy;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "buffers from the host to the device or back: cost of size, number and kind of memory",
        axes: const {
            &[
                Axis::extent("n", "elements of a buffer"),
                Axis::optional("k", "buffers", 1, 1),
                Axis::word("way", "direction of the copies", &["up", "down"]),
                Axis::word("memory", "memory of the host", &["pinned", "pageable"]),
            ]
        },
        dtypes: &[DType::F32],
        validate: |shape| match shape["k"] {
            k if k > MOST_BUFFERS => Err(format!("each may be a stage of its own: at most {MOST_BUFFERS} buffers")),
            k => indexable(shape["n"] * k),
        },
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            copy::tolerance,
            Reference::new(|p, _| row_len(p), copy::rows),
            OfNan::Kept,
        )
        .headline("n65536,k16,up,pinned")
        .shapes(shapes)
        // The last but one exceeds a single write to a mapping.
        .awkward(&[
            "n1,up,pinned",
            "n1,k3,down,pinned",
            "n3,k7,up,pinned",
            "n7,down,pageable",
            "n257,k5,up,pinned",
            "n1009,k2,up,pageable",
            "n5003,k9,down,pinned",
            "n1048579,up,pinned",
            "n64,k64,down,pinned",
        ])
        .host(copy::host)
        .variants(vec![
            Variant::kernel("separate", "a copy for each buffer, one behind the other", |p, _| separate(p))
                .available(several),
            Variant::kernel(
                "collated",
                "one copy of all, which the host has gathered before: the fixed cost of a copy \
                     occurs once",
                |p, _| collated(p),
            ),
            Variant::kernel(
                "reached",
                "a kernel that reads or writes pinned memory of the host across the link: no copy engine, and nothing to \
                 start but a kernel; WebGPU binds no memory that the host maps",
                reached,
            )
            .only_in(&[Dialect::Cuda])
            .available(reachable),
            Variant::kernel(
                "pooled",
                "all as one into room on the device that is kept from execution to execution, and from there by a copy on the \
                 device, as where a pool hands out buffers",
                |p, _| pooled(p),
            ),
            Variant::kernel(
                "allocated",
                "the same through room that is allocated before and freed behind, each time, in the order of the stream \
                     (cuMemAllocAsync): within a batch the driver keeps freed memory, and returns it when the host waits",
                |p, _| Stage::copy_through(label(p), "x", "out").cost(through(p)).into(),
            )
            .available(allocates),
        ])
        .fallback(&["collated", "separate"])
        .stress(copy::stress_inputs())],
    }
}

/// Largest number of buffers. Each may be a stage, and plans and traces list them all.
const MOST_BUFFERS: u64 = 1024;

/// Shapes of a preset: from a kilobyte to a gigabyte in one piece; and 4 MiB in 16 pieces and in 256.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n256,up,pinned",
            "n16384,up,pinned",
            "n1048576,up,pinned",
            "n16777216,up,pinned",
            "n16777216,up,pageable",
            "n65536,k16,up,pinned",
            "n4096,k256,up,pinned",
            "n256,down,pinned",
            "n16384,down,pinned",
            "n1048576,down,pinned",
            "n16777216,down,pinned",
            "n16777216,down,pageable",
            "n65536,k16,down,pinned",
        ],
        _ => &[
            "n256,up,pinned",
            "n256,up,pageable",
            "n4096,up,pinned",
            "n16384,up,pinned",
            "n16384,up,pageable",
            "n65536,up,pinned",
            "n1048576,up,pinned",
            "n1048576,up,pageable",
            "n16777216,up,pinned",
            "n16777216,up,pageable",
            "n268435456,up,pinned",
            "n268435456,up,pageable",
            "n65536,k16,up,pinned",
            "n65536,k16,up,pageable",
            "n4096,k256,up,pinned",
            "n4096,k256,up,pageable",
            "n256,down,pinned",
            "n256,down,pageable",
            "n4096,down,pinned",
            "n16384,down,pinned",
            "n16384,down,pageable",
            "n65536,down,pinned",
            "n1048576,down,pinned",
            "n1048576,down,pageable",
            "n16777216,down,pinned",
            "n16777216,down,pageable",
            "n268435456,down,pinned",
            "n268435456,down,pageable",
            "n65536,k16,down,pinned",
            "n65536,k16,down,pageable",
            "n4096,k256,down,pinned",
            "n4096,k256,down,pageable",
        ],
    }
}

/// Number of elements of all buffers.
fn elements(p: &Problem) -> u64 {
    p["n"] * p["k"]
}

/// Row length for checks: all buffers are cut into the longest rows of equal length, as in `copy`.
fn row_len(p: &Problem) -> u64 {
    const MOST: u64 = 1 << 20;
    1 << elements(p).trailing_zeros().min(MOST.trailing_zeros())
}

fn is_upload(p: &Problem) -> bool {
    p.shape.has("up")
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let dims = [p["k"], p["n"]];
    let host = if p.shape.has("pinned") { Place::HostPinned } else { Place::HostPageable };
    let [from, to] = if is_upload(p) { [host, Place::Device] } else { [Place::Device, host] };
    let out = BufferSpec { role: Role::Output { row_len: row_len(p) }, ..BufferSpec::output("out", Elem::Real, &dims) };
    // Intermediate buffer of `pooled`.
    let room = BufferSpec::scratch("room", Elem::Real, &dims);
    vec![BufferSpec::input("x", Elem::Real, &dims, normal).at(from), out.at(to), room]
}

/// Bytes of `elements` elements.
fn bytes(elements: u64) -> u64 {
    4 * elements
}

/// Cost of a transfer of `elements` elements.
fn crossing(p: &Problem, elements: u64) -> Cost {
    match is_upload(p) {
        true => Cost::new(0, 0, bytes(elements)),
        false => Cost::new(0, bytes(elements), 0),
    }
}

fn cost(p: &Problem) -> Cost {
    crossing(p, elements(p))
}

fn several(p: &Problem, _caps: &Caps) -> Result<(), String> {
    match p["k"] {
        1 => Err("there is one buffer: its own copy is that of all".to_owned()),
        _ => Ok(()),
    }
}

fn reachable(p: &Problem, _caps: &Caps) -> Result<(), String> {
    match p.shape.has("pinned") {
        true => Ok(()),
        false => Err("kernels reach pinned memory of the host, not pageable".to_owned()),
    }
}

fn allocates(_p: &Problem, caps: &Caps) -> Result<(), String> {
    match caps.dialect {
        Dialect::Wgsl => {
            Err("WebGPU makes and destroys buffers on the host's own time, outside of command buffers: its \
                              cost has no place between two timestamps"
                .to_owned())
        }
        _ => Ok(()),
    }
}

fn label(p: &Problem) -> &'static str {
    if is_upload(p) { "upload" } else { "download" }
}

fn separate(p: &Problem) -> Program {
    let one = |i: u64| {
        let first = Bytes(bytes(i * p["n"]));
        let part = CopyRange { from: first, to: first, bytes: Bytes(bytes(p["n"])) };
        Stage::copy_range(format!("{} {i}", label(p)), ["x", "out"], part).cost(crossing(p, p["n"]))
    };
    Program { stages: (0..p["k"]).map(one).collect() }
}

fn collated(p: &Problem) -> Program {
    Stage::copy(label(p), "x", "out").cost(cost(p)).into()
}

/// Cost of all bytes over the link, and of a copy on the device.
fn through(p: &Problem) -> Cost {
    let (Cost { read, written, .. }, bytes) = (cost(p), bytes(elements(p)));
    Cost::new(0, read.0 + bytes, written.0 + bytes)
}

fn pooled(p: &Problem) -> Program {
    let aside = Cost::new(0, bytes(elements(p)), bytes(elements(p)));
    let [first, second] = match is_upload(p) {
        true => [(label(p), cost(p)), ("to its place", aside)],
        false => [("from its place", aside), (label(p), cost(p))],
    };
    let stages =
        vec![Stage::copy(first.0, "x", "room").cost(first.1), Stage::copy(second.0, "room", "out").cost(second.1)];
    Program { stages }
}

/// Most workgroups that read or write across the link, which saturates long before the device.
const GROUPS: u64 = 256;
/// Threads of a workgroup, and accesses of 16 bytes that each makes at a time: see `copy`.
const THREADS: u64 = 256;
const AT_ONCE: u64 = 4;

fn reached(p: &Problem, _caps: &Caps) -> Program {
    let vectors = bytes(elements(p)).div_ceil(16);
    let groups = GROUPS.min(vectors.div_ceil(THREADS * AT_ONCE));
    let consts = [("N", elements(p)), ("THREADS", THREADS), ("VECTORS", vectors), ("STRIDE", groups * THREADS)];
    Stage::kernel(label(p), "copy/stride", "copy_stride")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .args([("x", Access::Read), ("out", Access::Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(groups))
        .cost(cost(p))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::StageOp;
    use parallax_schema::testing::caps;

    #[test]
    fn separate_copies_take_every_byte_once_in_order() {
        let case = parse_case("transfer/fwd/n5003,k9,down,pinned/f32/separate").expect("valid");
        let stages = case.program(&caps()).expect("copies").stages;
        let mut end = 0;
        for stage in &stages {
            let StageOp::CopyRange(part) = stage.work else { panic!("{stage:?}") };
            assert_eq!((part.from, part.to), (Bytes(end), Bytes(end)));
            end += part.bytes.0;
        }
        assert_eq!((stages.len(), end), (9, 4 * 9 * 5003));
        let total: u64 = stages.iter().map(|stage| stage.cost.moved().0).sum();
        assert_eq!(total, case.problem.cost().moved().0);
    }
}
