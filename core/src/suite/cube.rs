//! Kernels that are written once in Rust with CubeCL, and translated to a kernel source of the wanted dialect.
//!
//! CubeCL's compilers need a newer Rust than the other crates and are no part of this crate. A program with compilers passes a
//! [`Translator`] to its backends in [`super::KernelSources`], and its devices declare it ([`Caps::cube`]). Translated kernels
//! are launched, measured and checked like any other kernel, on the same buffers and by the same clock. CubeCL's own clients and
//! runtimes are not used.

use serde::{Deserialize, Serialize};

use super::{
    CUDA_HALVES, Caps, Chosen, CudaLaunch, DType, Dialect, Kernel, KernelSources, Problem, Program, Rows2d, Stage,
    Value, Variant, spread,
};
use crate::units::Nanos;

/// Authoring of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// Kernel source of this project in the device's dialect.
    #[default]
    Own,
    /// Rust, with CubeCL.
    Cube,
    /// Rust, from CubeK, which also chooses the launch.
    CubeK,
}

/// Translator of kernels written in Rust.
pub trait Translator: Send + Sync {
    /// Returns the source of a kernel. Its entry point has the kernel's name, and its buffers are in the order of the stage's
    /// arguments.
    ///
    /// # Errors
    /// Unknown kernel; the compiler's error, with its message; or a refusal by the planner of the launch.
    fn translate(&self, recipe: &Recipe) -> Result<Translated, Untranslated>;
}

/// Reason why a kernel has no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Untranslated {
    /// Failure: a mistake of this project or of the compilers.
    #[error("{0}")]
    Failed(String),
    /// Refusal by the planner of the launch, for this problem on this device.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for Untranslated {
    fn from(why: String) -> Untranslated {
        Untranslated::Failed(why)
    }
}

/// Everything that determines the source of a CubeCL kernel. It travels as JSON if the compilers are in another program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Kernel name.
    pub name: String,
    /// Named constants; of two with the same name, the later one holds.
    pub consts: Vec<(String, Value)>,
    /// Threads in one workgroup; one if the translator chooses the launch.
    pub workgroup: [u32; 3],
    /// Element type.
    pub elem: DType,
    /// Target dialect.
    pub dialect: Dialect,
}

impl Recipe {
    /// Returns the recipe of a kernel in a case of element type `dtype`.
    pub fn of(kernel: &Kernel, dtype: DType, dialect: Dialect) -> Recipe {
        Recipe {
            name: kernel.entry.to_owned(),
            consts: kernel.consts.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            workgroup: if kernel.source == Source::CubeK { [1; 3] } else { kernel.workgroup },
            elem: kernel.elem.unwrap_or(dtype),
            dialect,
        }
    }
}

/// Translated kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Translated {
    /// Kernel source.
    pub text: String,
    /// Steps of the translation, in order, with their times.
    pub steps: Vec<(String, Nanos)>,
    /// Launch, if the translator chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Chosen>,
}

/// Returns the translation of a kernel in a case of element type `dtype`, for a dialect.
///
/// # Errors
/// Missing translator, or its error.
pub fn translated(
    texts: &KernelSources,
    kernel: &Kernel,
    dtype: DType,
    dialect: Dialect,
) -> Result<Translated, Untranslated> {
    let missing = || Untranslated::Failed(texts.untranslated().unwrap_or(NO_COMPILERS).to_owned());
    texts.translator().ok_or_else(missing)?.translate(&Recipe::of(kernel, dtype, dialect))
}

const NO_COMPILERS: &str = "kernels in CubeCL need its compilers, which this program was built without";

/// Threads of a workgroup for work without rows.
const ELEMENT_THREADS: u64 = 256;

/// Name of the variants written in CubeCL.
pub const CUBE_VARIANT: &str = "cube";

impl Variant {
    /// Returns a variant with kernels in CubeCL, for every problem. The plan checks size limits.
    pub fn cube(about: &'static str, program: fn(&Problem, &Caps) -> Program) -> Variant {
        Variant::kernel(CUBE_VARIANT, about, program).available(cube_available)
    }
}

/// Checks whether the device's program can translate kernels of a problem.
///
/// # Errors
/// Reason why it cannot.
pub fn cube_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    if !caps.cube {
        return Err(caps.no_cube.as_deref().unwrap_or(NO_COMPILERS).to_owned());
    }
    let halves = caps.cuda.is_some_and(|cuda| cuda.half_headers);
    if caps.dialect == Dialect::Cuda && p.dtype != DType::F32 && !halves {
        return Err(format!("CubeCL includes {CUDA_HALVES} for 16-bit floats, and no CUDA toolkit with it was found"));
    }
    Ok(())
}

impl Stage {
    /// Returns a launch of a CubeCL kernel, with one thread by default. Source and entry point have the kernel's name.
    pub fn cube(name: &'static str) -> Stage {
        Stage::kernel(name, name, name).change(|kernel| kernel.source = Source::Cube)
    }

    /// Returns a launch with one thread for each of `count` items.
    pub fn cube_over(name: &'static str, count: u64) -> Stage {
        Stage::cube(name)
            .consts(&[("COUNT", count as u32)])
            .threads([ELEMENT_THREADS as u32, 1, 1])
            .grid(spread(count.div_ceil(ELEMENT_THREADS)))
    }

    /// Returns a launch with one workgroup per row of a matrix. It has about half as many threads as a row has pieces of `width`
    /// elements.
    pub fn cube_rows(name: &'static str, of: Rows2d, width: u64, caps: &Caps) -> Stage {
        let pieces = of.columns / width;
        let threads = pieces.div_ceil(2).next_power_of_two().clamp(32, ELEMENT_THREADS);
        let consts = [("ROWS", of.rows), ("PIECES", pieces), ("WIDTH", width)];
        Stage::cube(name)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([threads as u32, 1, 1])
            .grid(spread(of.rows))
            .cube_shared(4 * threads as u32, caps)
    }

    /// Sets the workgroup memory of a CubeCL kernel: static in WGSL, dynamic in CUDA.
    pub fn cube_shared(self, bytes: u32, caps: &Caps) -> Stage {
        match caps.dialect {
            Dialect::Cuda => self.cuda(CudaLaunch { dynamic_shared_bytes: bytes, ..CudaLaunch::default() }),
            _ => self.shared(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Case;
    use super::*;
    use crate::testing::mock::caps;

    #[test]
    fn a_recipe_and_what_becomes_of_it_survive_the_way_to_another_program() {
        let stage = Stage::cube_over("cube_copy", 9).consts(&[("WIDTH", 4)]).consts(&[("WORDS", true)]);
        let program: Program = stage.consts(&[("EPS", 1e-5f32)]).into();
        let recipe = Recipe::of(program.kernels().next().expect("a kernel"), DType::F16, Dialect::Wgsl);
        let back: Recipe = serde_json::from_str(&serde_json::to_string(&recipe).expect("JSON")).expect("a recipe");
        assert_eq!(back, recipe);
        assert_eq!((back.name.as_str(), back.workgroup, back.elem), ("cube_copy", [256, 1, 1], DType::F16));
        let launch = Chosen { grid: [3, 2, 1], workgroup: [32, 4, 1], shared_bytes: 8, blueprint: "tiles".to_owned() };
        let translated =
            |launch| Translated { text: "fn".to_owned(), steps: vec![("emit".to_owned(), Nanos(1.5))], launch };
        for made in [
            Ok(translated(None)),
            Ok(translated(Some(launch))),
            Err(Untranslated::Refused("too deep".to_owned())),
            Err(Untranslated::Failed("no such".to_owned())),
        ] {
            let sent = serde_json::to_string(&made).expect("JSON");
            let back: Result<Translated, Untranslated> = serde_json::from_str(&sent).expect("it");
            assert_eq!(back, made);
        }
    }

    #[test]
    fn without_compilers_a_skip_says_why() {
        let problem = "copy/fwd/n8/f32/cube".parse::<Case>().expect("valid").problem;
        let mut caps = caps();
        assert_eq!(cube_available(&problem, &caps), Err(NO_COMPILERS.to_owned()));
        caps.no_cube = Some("they did not load".to_owned());
        assert_eq!(cube_available(&problem, &caps), Err("they did not load".to_owned()));
        caps.cube = true;
        assert_eq!(cube_available(&problem, &caps), Ok(()));
    }
}
