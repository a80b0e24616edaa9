//! Registry of all workloads, found by the build script.

use parallax_ir::{Case, Finds, Problem, Scale, VariantKind, Workload};
use parallax_schema::case::{CPU_VARIANT, DType, of_cubecl};
use parallax_schema::device::Dialect;

/// Function of a workload file that returns its specification.
use crate::ops;

type Make = fn() -> Workload;

include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// Returns all workloads, in name order.
pub fn all() -> &'static [Workload] {
    static ALL: std::sync::OnceLock<Vec<Workload>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| TABLE.iter().map(|(name, make)| Workload { name, ..make() }).collect())
}

/// Returns the names of all workloads, in the same order, without building the workloads.
pub fn names() -> &'static [&'static str] {
    NAMES
}

/// Returns the workload with this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    all().iter().find(|w| w.name == name)
}

/// Returns the cases that probe a property of a device, for one element type: all variants of all workloads with such a probe.
/// Empty if no workload has one, if the element type does not exist, or if this device needs no such probe.
pub fn probes(finds: Finds, scale: Scale, dtype: DType, dialect: Dialect) -> Vec<Case> {
    let mut cases = Vec::new();
    for workload in all().iter().filter(|w| w.dtypes.contains(&dtype)) {
        for probe in workload.probes.iter().filter(|p| p.finds == finds) {
            let Some(shape) = (probe.shape)(scale) else { continue };
            let problem = Problem::new(workload, workload.forms[0].direction, &shape, dtype)
                .unwrap_or_else(|e| panic!("the probe {}/{shape}: {e}", workload.name));
            let variants = &workload.forms[0].variants;
            let of_its_own = variants.iter().filter(|v| matches!(v.how, VariantKind::Kernel { .. })).map(|v| v.name);
            // A ceiling must not depend on the presence of CubeCL's compilers.
            let of_its_own = of_its_own.filter(|v| !of_cubecl(v));
            let variants: Vec<&'static str> = match dialect {
                Dialect::Cpu => vec![CPU_VARIANT],
                _ => of_its_own.filter(|v| probe.variants.is_empty() || probe.variants.contains(v)).collect(),
            };
            cases.extend(variants.into_iter().map(|variant| Case { problem: problem.clone(), variant }));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ceiling_has_a_probe_on_every_kind_of_device() {
        for (emulated, dialect) in
            [(false, Dialect::Wgsl), (true, Dialect::Wgsl), (false, Dialect::Cuda), (true, Dialect::Cpu)]
        {
            let scale = Scale { working_set: 1 << 20, ..Scale::usual(emulated) };
            for finds in [Finds::Bandwidth, Finds::Arithmetic, Finds::Dispatch, Finds::Speed] {
                assert!(!probes(finds, scale, DType::F32, dialect).is_empty(), "{finds:?} {dialect:?} {emulated}");
            }
            for finds in [Finds::Upload, Finds::Download] {
                let all = probes(finds, scale, DType::F32, dialect);
                let moved = |case: &Case| (case.problem.crossing().up.0 > 0, case.problem.crossing().down.0 > 0);
                let wanted = (finds == Finds::Upload, finds == Finds::Download);
                assert!(!all.is_empty() && all.iter().all(|case| moved(case) == wanted), "{finds:?} {dialect:?}");
            }
            assert_eq!(probes(Finds::Matrix, scale, DType::F32, dialect).is_empty(), emulated);
        }
        let speed = probes(Finds::Speed, Scale::usual(false), DType::F32, Dialect::Cuda);
        assert_eq!(speed.len(), 1, "one kernel is the thermometer: {speed:?}");
    }
}
