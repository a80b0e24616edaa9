//! The form that a workload fills in.
//!
//! A workload is data and pure functions, never an object with state: what problems exist, which buffers they need,
//! what they cost at least, what the right answer is, how far off is still right, and in which ways it can be computed.

use std::fmt;

use super::{
    Axis, BufferSpec, Caps, CaseError, Cost, DType, Dialect, Direction, HostBuffer, Inputs, Probe, Program, Role,
    Shape, form,
};
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A workload at one shape, direction and element type: what there is to compute, whatever the way.
#[derive(Clone)]
pub struct Problem {
    /// The operation.
    pub workload: &'static Workload,
    /// Forward or backward.
    pub direction: Direction,
    /// Extents and options.
    pub shape: Shape,
    /// Element type of the real-valued tensors.
    pub dtype: DType,
}

impl std::ops::Index<&str> for Problem {
    type Output = u64;
    fn index(&self, key: &str) -> &u64 {
        &self.shape[key]
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { workload, direction, shape, dtype } = self;
        f.pad(&format!("{}/{}/{shape}/{}", workload.name, direction.name(), dtype.name()))
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Problem {
    /// A checked problem from its parts.
    pub fn new(
        workload: &'static Workload,
        direction: Direction,
        shape: &str,
        dtype: DType,
    ) -> Result<Problem, CaseError> {
        let parsed = Shape::parse(workload.axes, shape)?;
        (workload.validate)(&parsed).map_err(|why| CaseError::Shape {
            shape: shape.to_owned(),
            why,
            form: form(workload.axes),
        })?;
        Ok(Problem { workload, direction, shape: parsed, dtype })
    }

    /// All buffers, in binding order.
    pub fn buffers(&self) -> Vec<BufferSpec> {
        (self.workload.buffers)(self)
    }

    /// Its inputs from a seed.
    pub fn inputs(&self, seed: u64) -> Inputs {
        Inputs::seeded(&self.shape, self.dtype, self.buffers(), seed)
    }

    /// Its inputs, the first elements over and over: see [`Inputs::repeated`].
    pub fn repeated_inputs(&self, seed: u64) -> Inputs {
        Inputs::repeated(&self.shape, self.dtype, self.buffers(), seed)
    }

    /// Bytes of one set of the buffers that are wanted.
    pub fn bytes(&self, wanted: impl Fn(&BufferSpec) -> bool) -> Bytes {
        Bytes(self.buffers().iter().filter(|b| wanted(b)).map(|b| b.bytes(self.dtype).0).sum())
    }

    /// Positions, in the buffer list, of the outputs.
    pub fn outputs(&self) -> Vec<usize> {
        let is_output = |role: &Role| matches!(role, Role::Output { .. });
        self.buffers().iter().enumerate().filter(|(_, b)| is_output(&b.role)).map(|(i, _)| i).collect()
    }
}

/// An operation with a definition. The file stem names it everywhere; the registry supplies it.
pub struct Workload {
    /// The file stem, set by the registry.
    pub name: &'static str,
    /// What the engine finds out about a device by it; empty for most.
    pub probes: &'static [Probe],
    /// One line for people.
    pub about: &'static str,
    /// Extents and options of a shape, in the order in which they are printed.
    pub axes: &'static [Axis],
    /// Directions that are defined.
    pub directions: &'static [Direction],
    /// Element types that are defined (a device may support fewer).
    pub dtypes: &'static [DType],
    /// What its speed is told in.
    pub rate: Rate,
    /// Shapes to measure, each as the shape part of a case string; asked for the presets that are meant for figures.
    pub shapes: fn(Preset) -> &'static [&'static str],
    /// Small shapes that are awkward for every tile: ones, primes, non-multiples.
    pub awkward: &'static [&'static str],
    /// Rejects shapes for which the operation is undefined, with the reason.
    pub validate: fn(&Shape) -> Result<(), String>,
    /// All buffers, in binding order: the position is the WGSL binding number.
    pub buffers: fn(&Problem) -> Vec<BufferSpec>,
    /// The least work that any way of computing the result must do.
    pub cost: fn(&Problem) -> Cost,
    /// How far an output may be from the reference.
    pub tolerance: fn(&Problem) -> Tolerance,
    /// One row of one output in f64: `reference(problem, inputs, output, row, out)`.
    ///
    /// `output` counts the buffers with role [`Role::Output`]; `row` counts slices of `row_len` elements of it.
    /// The plainest loops that could work; no cleverness shared with any kernel.
    pub reference: fn(&Problem, &Inputs, usize, u64, &mut [f64]),
    /// A plain multi-threaded f32 implementation: host inputs in buffer order, outputs in buffer order.
    pub cpu: fn(&Problem, &[HostBuffer], &mut [Vec<f32>]),
    /// Ways to compute it on a GPU, naive first.
    pub variants: &'static [Variant],
    /// Order in which to fall back when a requested variant cannot run, best first.
    pub fallback: &'static [&'static str],
}

/// What the speed of a workload is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Operations per second: each byte is used many times.
    Flops,
    /// Bytes per second, counting the least that must move.
    Bytes,
}

/// A ready-made choice of shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// A minute on anything.
    #[default]
    Quick,
    /// A few minutes on a GPU.
    Standard,
    /// Everything, for a large GPU.
    Full,
    /// Small shapes that are awkward for every tile: for `verify`, not for figures.
    Awkward,
}

impl Preset {
    /// Every preset with its name.
    pub const ALL: [(&'static str, Preset); 4] = [
        ("quick", Preset::Quick),
        ("standard", Preset::Standard),
        ("full", Preset::Full),
        ("awkward", Preset::Awkward),
    ];

    /// The name used in flags and URL queries.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, p)| *p == self).map(|(name, _)| *name).expect("listed")
    }
}

/// An output element `x` with reference `r` is right when `|x - r| <= abs + rel * |r|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Absolute part, in units of the output.
    pub abs: f64,
    /// Relative part.
    pub rel: f64,
    /// Why these numbers.
    pub reason: &'static str,
}

/// One way to compute a workload.
pub struct Variant {
    /// Last part of the case string.
    pub name: &'static str,
    /// What it does and what it changes against the variant before it.
    pub about: &'static str,
    /// How it is carried out.
    pub how: How,
}

/// How a variant is carried out.
pub enum How {
    /// Launches of kernels from the workload's kernel files.
    Kernel {
        /// Dialects in which it exists.
        dialects: &'static [Dialect],
        /// Why it cannot compute this problem on this device, if so. Size limits are checked by the plan.
        available: fn(&Problem, &Caps) -> Result<(), String>,
        /// The launches, for a device on which it is available.
        program: fn(&Problem, &Caps) -> Program,
    },
    /// Chooses another variant by problem and device, and says why.
    Select(fn(&Problem, &Caps) -> (&'static str, String)),
}

impl Workload {
    /// The shapes of a preset.
    pub fn preset(&self, preset: Preset) -> &'static [&'static str] {
        match preset {
            Preset::Awkward => self.awkward,
            figures => (self.shapes)(figures),
        }
    }

    /// The variant of that name.
    pub fn variant(&self, name: &str) -> Option<&'static Variant> {
        self.variants.iter().find(|v| v.name == name)
    }
}
