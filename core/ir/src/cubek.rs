//! Ready-made kernels of CubeK, the library of CubeCL kernels, with launches that CubeK chooses.
//!
//! The launch of our own kernels is known when a program is planned. CubeK instead inspects the problem and the device. It
//! chooses tiles, threads and workgroups: its *blueprint*. CubeK is a part of the compilers' program ([`super::Translator`]). A
//! page loads that program beside the device, and not beside the planner. A plan therefore leaves the launch of such a stage
//! open. The owner of the device completes it by [`settled`]. A problem that CubeK cannot compute becomes a skip with CubeK's
//! reason.

use parallax_schema::case::{CUBEK_VARIANT, DType};
use parallax_schema::device::{Caps, CudaCaps, Dialect};
use serde::{Deserialize, Serialize};

use super::{
    Authoring, CudaLaunch, KernelSources, Problem, Program, Stage, StageOp, Untranslated, Variant, cube_available,
    translated,
};

/// Launch chosen by CubeK.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// Number of workgroups.
    pub grid: [u32; 3],
    /// Threads in one workgroup.
    pub workgroup: [u32; 3],
    /// Workgroup memory, in bytes.
    pub shared_bytes: u32,
    /// Blueprint of the launch, for the record.
    pub blueprint: String,
}

impl Variant {
    /// Returns a variant with a kernel of CubeK.
    pub fn cubek(about: &'static str, program: fn(&Problem, &Caps) -> Program) -> Variant {
        Variant::kernel(CUBEK_VARIANT, about, program).available(cube_available)
    }
}

impl Stage {
    /// Returns a stage whose launch CubeK chooses. The device properties that CubeK reads are constants of the stage.
    pub fn cubek(name: &'static str, caps: &Caps) -> Stage {
        Stage::cube(name).change(|kernel| kernel.authoring = Authoring::CubeK).consts(&device(caps))
    }
}

/// Device properties that CubeK reads, as constants.
fn device(caps: &Caps) -> [(&'static str, u32); 12] {
    let (narrow, wide) = caps.subgroup.unwrap_or((0, 0));
    let shared = match caps.dialect {
        Dialect::Cuda => caps.cuda.unwrap_or(CudaCaps::NONE).max_block_shared_bytes,
        _ => caps.shared_bytes,
    };
    let ([x, y, z], [across, down, deep]) = (caps.max_workgroup, caps.max_grid);
    let (major, minor) = caps.compute_capability.unwrap_or((0, 0));
    [
        ("DEVICE_SUBGROUP_MIN", narrow),
        ("DEVICE_SUBGROUP_MAX", wide),
        ("DEVICE_SHARED", shared),
        ("DEVICE_THREADS", caps.max_invocations),
        ("DEVICE_THREADS_X", x),
        ("DEVICE_THREADS_Y", y),
        ("DEVICE_THREADS_Z", z),
        ("DEVICE_GRID_X", across),
        ("DEVICE_GRID_Y", down),
        ("DEVICE_GRID_Z", deep),
        ("DEVICE_UNITS", caps.compute_units.unwrap_or(0)),
        ("DEVICE_COMPUTE_CAPABILITY", 10 * major + minor),
    ]
}

/// Returns a program with the launches that its plan left open, and their blueprints.
///
/// # Errors
/// Errors of [`translated`].
pub fn settled(
    texts: &KernelSources,
    mut program: Program,
    dtype: DType,
    dialect: Dialect,
) -> Result<(Program, Vec<String>), Untranslated> {
    let mut blueprints = Vec::new();
    for stage in &mut program.stages {
        let StageOp::Kernel(kernel) = &mut stage.work else { continue };
        if kernel.authoring != Authoring::CubeK {
            continue;
        }
        let Some(chosen) = translated(texts, kernel, dtype, dialect)?.launch else {
            return Err(Untranslated::Failed(format!("no launch was chosen for {}", kernel.entry)));
        };
        (kernel.grid, kernel.workgroup) = (chosen.grid, chosen.workgroup);
        match dialect {
            // As in [`Stage::cube_shared`].
            Dialect::Cuda => {
                kernel.cuda = CudaLaunch { dynamic_shared_bytes: chosen.shared_bytes, ..CudaLaunch::default() };
            }
            _ => kernel.shared_bytes = chosen.shared_bytes,
        }
        blueprints.push(format!("{}: {}", stage.label, chosen.blueprint));
    }
    Ok((program, blueprints))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Recipe, Translated, Translator};
    use super::*;
    use parallax_schema::testing::{HOPPER, caps};

    /// Launches one workgroup per row, and refuses zero rows.
    struct Rows;

    impl Translator for Rows {
        fn translate(&self, recipe: &Recipe) -> Result<Translated, Untranslated> {
            let value = |name| recipe.consts.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
            let Some(super::super::Value::U32(rows @ 1..)) = value("ROWS") else {
                return Err(Untranslated::Refused("there are no rows".to_owned()));
            };
            let blueprint = "a workgroup for each row".to_owned();
            let launch = Chosen { grid: [rows, 1, 1], workgroup: [64, 1, 1], shared_bytes: 256, blueprint };
            Ok(Translated { text: String::new(), steps: Vec::new(), launch: Some(launch) })
        }
    }

    fn settle(rows: u32, dialect: Dialect) -> Result<(Program, Vec<String>), Untranslated> {
        let stage = Stage::cubek("rows", &Caps { dialect, cuda: Some(HOPPER), ..caps() }).consts(&[("ROWS", rows)]);
        let texts = KernelSources::embedded(&[]).translated_by(Arc::new(Rows));
        settled(&texts, Program { stages: vec![Stage::fill("zeros", "out", 0), stage] }, DType::F32, dialect)
    }

    #[test]
    fn a_launch_is_settled_by_whoever_chooses_it() {
        let (program, blueprints) = settle(5, Dialect::Wgsl).expect("a launch");
        let kernel = program.kernels().next().expect("a kernel");
        assert_eq!((kernel.grid, kernel.workgroup, kernel.shared_bytes), ([5, 1, 1], [64, 1, 1], 256));
        assert_eq!(blueprints, ["rows: a workgroup for each row"]);
        let again = Recipe::new(kernel, DType::F32, Dialect::Wgsl);
        assert_eq!(again.workgroup, [1; 3], "a settled launch comes from its recipe");
        let (program, _) = settle(5, Dialect::Cuda).expect("a launch");
        let kernel = program.kernels().next().expect("a kernel");
        assert_eq!((kernel.shared_bytes, kernel.cuda.dynamic_shared_bytes), (0, 256), "dynamic in CUDA");
    }

    #[test]
    fn a_refusal_is_told_as_one() {
        assert_eq!(settle(0, Dialect::Wgsl), Err(Untranslated::Refused("there are no rows".to_owned())));
    }

    #[test]
    fn a_device_is_told_by_constants() {
        let known = device(&Caps { dialect: Dialect::Cuda, cuda: Some(HOPPER), ..caps() });
        assert!(known.contains(&("DEVICE_SHARED", HOPPER.max_block_shared_bytes)), "{known:?}");
        let known = device(&Caps { shared_bytes: 4096, ..caps() });
        assert!(known.contains(&("DEVICE_SHARED", 4096)), "{known:?}");
    }
}
