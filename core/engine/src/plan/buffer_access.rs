//! Access of a device to a program's buffers in device and host memory.

use parallax_ir::{Access, BufferSpec, Place, Problem, Stage, StageOp};
use parallax_schema::device::{Caps, Dialect};

/// Whether the device can access the buffers of all these stages, those of a set-up included, at their places.
///
/// # Errors
/// The first inaccessible buffer, and the reason.
pub fn check_access<'a>(
    problem: &Problem,
    stages: impl Iterator<Item = &'a Stage> + Clone,
    caps: &Caps,
) -> Result<(), String> {
    let buffers = problem.buffers();
    for stage in stages.clone() {
        let of = |arg: &parallax_ir::Arg| buffers.iter().find(|b| b.name == arg.buffer);
        of_stage(stage, &stage.args.iter().filter_map(of).collect::<Vec<_>>(), caps)?;
    }
    match caps.dialect {
        Dialect::Wgsl => {
            buffers.iter().filter(|b| b.place.is_host()).try_for_each(|buffer| mapped(buffer, stages.clone()))
        }
        Dialect::Cuda | Dialect::Vendor | Dialect::Cpu => Ok(()),
    }
}

/// Checks one stage and the buffers that it uses.
fn of_stage(stage: &Stage, touched: &[&BufferSpec], caps: &Caps) -> Result<(), String> {
    let label = &stage.label;
    if let Some(buffer) = touched.iter().find(|b| b.place == Place::EachRank && b.ranks() > u64::from(caps.ranks)) {
        let (name, needed, limit) = (buffer.name, buffer.ranks(), caps.ranks);
        return Err(format!("not run: `{name}` of {label} lies on {needed} devices, the limit is {limit}"));
    }
    let Some(buffer) = touched.iter().find(|b| b.place.is_host()) else { return Ok(()) };
    let name = buffer.name;
    match (caps.dialect, buffer.place) {
        (Dialect::Cuda, _) => {}
        (Dialect::Wgsl, Place::HostPinned) => {}
        (Dialect::Wgsl, _) => {
            return Err(format!(
                "not run: {label} uses `{name}` in pageable host memory, which reaches a WebGPU device by \
                 queue.writeBuffer only: that is no command of a command buffer, so it has no place between two timestamps"
            ));
        }
        (Dialect::Vendor | Dialect::Cpu, _) => {
            return Err(format!(
                "not run: {label} uses `{name}` in host memory, from where this target copies nothing"
            ));
        }
    }
    match stage.work {
        StageOp::Copy | StageOp::CopyRange(_) | StageOp::CopyThrough if touched.iter().all(|b| b.place.is_host()) => {
            Err(format!("not run: {label} copies from host memory to host memory"))
        }
        StageOp::Copy | StageOp::CopyRange(_) | StageOp::CopyThrough => Ok(()),
        // The device reaches pinned memory by itself.
        StageOp::Kernel(_) if caps.dialect == Dialect::Cuda && buffer.place == Place::HostPinned => Ok(()),
        StageOp::Kernel(_) if caps.dialect == Dialect::Wgsl => {
            Err(format!("not run: {label} would bind `{name}`, which the host maps: WebGPU only copies from and to it"))
        }
        _ => Err(format!("not run: {label} cannot reach `{name}`, which lies in host memory")),
    }
}

/// Whether a buffer mapped by the host is used in one direction only. WebGPU maps a buffer for writing and copies from it, or
/// maps it for reading and copies to it.
fn mapped<'a>(buffer: &BufferSpec, stages: impl Iterator<Item = &'a Stage>) -> Result<(), String> {
    let (mut from, mut to) = (None, None);
    for stage in stages {
        for arg in stage.args.iter().filter(|arg| arg.buffer == buffer.name) {
            let end = match arg.access {
                Access::Read => &mut from,
                Access::Write => &mut to,
            };
            end.get_or_insert(&stage.label);
        }
    }
    let name = buffer.name;
    let one_way = "WebGPU maps a buffer for writing or for reading, never for both";
    match (from, to) {
        (Some(from), Some(to)) => {
            Err(format!("not run: {from} copies from `{name}` in host memory and {to} to it: {one_way}"))
        }
        (None, Some(to)) if buffer.role.fill().is_some() => {
            Err(format!("not run: the host writes `{name}` and {to} copies to it: {one_way}"))
        }
        (Some(from), None) if buffer.role.fill().is_none() => {
            Err(format!("not run: {from} copies from `{name}` in host memory, which nothing fills"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Kernel;
    use parallax_schema::testing::caps;
    use parallax_workloads::parse_case;

    /// Returns the refusal of a problem. Its pieces lie in host memory; `a`, `even` and `out0` on the device.
    fn refusal(memory: &str, dialect: Dialect, stages: &[Stage]) -> Option<String> {
        let case = parse_case(&format!("upload_compute/fwd/n8,k1,c2,{memory}/f32/serial")).expect("valid");
        check_access(&case.problem, stages.iter(), &Caps { dialect, ..caps() }).err()
    }

    fn upload() -> Stage {
        Stage::copy("upload", "piece0", "even")
    }

    #[test]
    fn host_memory_is_used_as_the_target_can() {
        let bound = Stage::kernel("fma", "fma/scalar", "fma_scalar").args([("b", "piece0", Access::Read)]);
        assert!(matches!(bound.work, StageOp::Kernel(Kernel { .. })));
        let (wgsl, cuda) = (Dialect::Wgsl, Dialect::Cuda);
        for (memory, dialect, stages, said) in [
            ("pinned", wgsl, vec![upload()], None),
            ("pinned", cuda, vec![upload()], None),
            ("pageable", cuda, vec![upload()], None),
            ("pageable", wgsl, vec![upload()], Some("no place between two timestamps")),
            ("pinned", cuda, vec![bound.clone()], None),
            ("pinned", wgsl, vec![bound], Some("would bind `piece0`, which the host maps")),
            ("pinned", wgsl, vec![Stage::copy("swap", "piece0", "piece1")], Some("from host memory to host memory")),
            ("pinned", wgsl, vec![Stage::fill("zeros", "piece0", 0)], Some("zeros cannot reach `piece0`")),
            ("pinned", Dialect::Cpu, vec![upload()], Some("from where this target copies nothing")),
        ] {
            let found = refusal(memory, dialect, &stages);
            assert_eq!(found.is_some(), said.is_some(), "{memory} {dialect:?}: {found:?}");
            assert!(said.is_none_or(|said| found.as_ref().is_some_and(|f| f.contains(said))), "{found:?}");
        }
    }

    #[test]
    fn a_buffer_that_the_host_maps_goes_one_way() {
        let back = Stage::copy("download", "even", "piece0");
        let both = refusal("pinned", Dialect::Wgsl, &[upload(), back.clone()]).expect("both ways");
        assert!(both.contains("upload copies from `piece0` in host memory and download to it"), "{both}");
        let filled = refusal("pinned", Dialect::Wgsl, std::slice::from_ref(&back)).expect("the host fills it");
        assert!(filled.contains("the host writes `piece0` and download copies to it"), "{filled}");
        assert_eq!(refusal("pinned", Dialect::Cuda, &[upload(), back]), None);
    }
}
