//! Kernels that are written once, in Rust with CubeCL, and become a text in the dialect of whoever asks.
//!
//! CubeCL's compilers need a newer Rust than the rest and are no part of this crate: a program that has them hands its
//! backends a [`Translator`] with their [`super::KernelSources`], and its devices say so ([`Caps::cube`]). What they make is launched,
//! measured and checked like any other text, on the same buffers and by the same clock: CubeCL's own clients and runtimes
//! have no part in it.

use serde::{Deserialize, Serialize};

use super::{
    CUDA_HALVES, Caps, Chosen, CudaLaunch, DType, Dialect, Kernel, KernelSources, Problem, Program, Rows2d, Stage,
    Value, Variant, spread,
};
use crate::units::Nanos;

/// What a kernel is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// A text of ours in the device's dialect.
    #[default]
    Own,
    /// Rust, with CubeCL.
    Cube,
    /// The same, from CubeK, which chooses the launch, too.
    CubeK,
}

/// Makes texts of kernels that are written in Rust.
pub trait Translator: Send + Sync {
    /// The text of a kernel. Its entry point has the kernel's name, and its buffers stand in the order of the stage's arguments.
    ///
    /// # Errors
    /// When there is no such kernel, or the compiler refuses it, with what it said; or when whoever plans its launch will have none.
    fn translate(&self, recipe: &Recipe) -> Result<Translated, Untranslated>;
}

/// Why a kernel has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Untranslated {
    /// It should have one: a mistake, of ours or of the compilers.
    #[error("{0}")]
    Failed(String),
    /// There is none for this problem on this device, as whoever plans the launch says.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for Untranslated {
    fn from(why: String) -> Untranslated {
        Untranslated::Failed(why)
    }
}

/// All that the text of a kernel in CubeCL depends on. The compilers may be in another program than the one that asks: it goes
/// there as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The kernel's name.
    pub name: String,
    /// Named constants; of two with one name the later holds.
    pub consts: Vec<(String, Value)>,
    /// Threads in one workgroup; one where the stage leaves its launch to whoever makes the text.
    pub workgroup: [u32; 3],
    /// The element type.
    pub elem: DType,
    /// What to make of it.
    pub dialect: Dialect,
}

impl Recipe {
    /// That of a kernel of a case of element type `dtype`.
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

/// What became of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Translated {
    /// The text.
    pub text: String,
    /// What was done for it, in order, and how long each took.
    pub steps: Vec<(String, Nanos)>,
    /// Its launch, where that is not the stage's to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Chosen>,
}

/// The text of a kernel of a case of element type `dtype` in a dialect.
///
/// # Errors
/// When nothing here makes such, or it is refused.
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

/// Threads of a workgroup of what has no rows.
const ELEMENT_THREADS: u64 = 256;

/// The name of the variants that are written so.
pub const CUBE_VARIANT: &str = "cube";

impl Variant {
    /// Kernels in CubeCL, for every problem; size limits are checked by the plan.
    pub fn cube(about: &'static str, program: fn(&Problem, &Caps) -> Program) -> Variant {
        Variant::kernel(CUBE_VARIANT, about, program).available(cube_available)
    }
}

/// Whether a device's program can translate kernels of a problem.
///
/// # Errors
/// Why not.
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
    /// A launch of a kernel in CubeCL, of one thread until more is said. Text and entry point have the kernel's name.
    pub fn cube(name: &'static str) -> Stage {
        Stage::kernel(name, name, name).change(|kernel| kernel.source = Source::Cube)
    }

    /// The same with a thread for each of so many things.
    pub fn cube_over(name: &'static str, count: u64) -> Stage {
        Stage::cube(name)
            .consts(&[("COUNT", count as u32)])
            .threads([ELEMENT_THREADS as u32, 1, 1])
            .grid(spread(count.div_ceil(ELEMENT_THREADS)))
    }

    /// The same with a workgroup for each row of a matrix, of about half as many threads as a row has pieces of `width` elements.
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

    /// With the workgroup memory that a kernel in CubeCL takes: static in WGSL, dynamic in CUDA.
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
