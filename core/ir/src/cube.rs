//! Kernels that are written once in Rust with CubeCL, and translated to a kernel source of the wanted dialect.
//!
//! CubeCL's compilers need a newer Rust than the other crates and are no part of this crate. A program with compilers passes a
//! [`Translator`] to its backends in [`super::KernelSources`], and its devices declare it ([`Caps::cube`]). Translated kernels
//! are launched, measured and checked like any other kernel, on the same buffers and by the same clock. CubeCL's own clients and
//! runtimes are not used.

use parallax_schema::case::{CUBE_VARIANT, DType};
use parallax_schema::device::{CUDA_HALVES, Caps, Dialect, Step};
use parallax_schema::units::Nanos;
use serde::{Deserialize, Serialize};

use super::{Chosen, CudaLaunch, Kernel, KernelSources, Problem, Program, Rows2d, Stage, Value, Variant, spread};

/// Authoring of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authoring {
    /// Kernel source of this project in the device's dialect.
    #[default]
    Handwritten,
    /// Rust, with CubeCL.
    CubeCl,
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
    pub fn new(kernel: &Kernel, dtype: DType, dialect: Dialect) -> Recipe {
        Recipe {
            name: kernel.entry.to_owned(),
            consts: kernel.consts.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            workgroup: if kernel.authoring == Authoring::CubeK { [1; 3] } else { kernel.workgroup },
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

impl Translated {
    /// Returns the steps with their times.
    pub fn timed_steps(&self) -> Vec<Step> {
        self.steps.iter().map(|(name, time)| Step { name: name.clone(), time: *time }).collect()
    }
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
    texts.translator().ok_or_else(missing)?.translate(&Recipe::new(kernel, dtype, dialect))
}

/// Reason for the absence of CubeCL's kernels in a program without its compilers.
pub const NO_COMPILERS: &str = "kernels in CubeCL need its compilers, which this program was built without";

/// Threads of a workgroup for work without rows.
const ELEMENT_THREADS: u64 = 256;

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
        Stage::kernel(name, name, name).change(|kernel| kernel.authoring = Authoring::CubeCl)
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
