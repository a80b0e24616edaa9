//! The form that a workload fills in for each of its directions.
//!
//! A form is data and pure functions, never an object with state: what problems exist, which buffers they need, what
//! they cost at least, what the right answer is, how far off is still right, and in which ways it can be computed.

use super::{
    BufferSpec, Caps, Cost, Dialect, Direction, HostFn, Precondition, Problem, Program, RowsFn, StressInput, Tunable,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One direction of a workload, whole in itself.
pub struct OpSpec {
    /// Which function of the operation is computed.
    pub direction: Direction,
    /// What its speed is told in.
    pub rate: Rate,
    /// The shape that stands for all others: the preset `quick`. At most 50 ms an execution on a phone's GPU. Probes, which
    /// every run measures as ceilings anyway, have none.
    pub headline: Option<&'static str>,
    /// Shapes to measure, each as the shape part of a case string; asked for the presets that are meant for figures.
    pub shapes: fn(Preset) -> &'static [&'static str],
    /// Small shapes that are awkward for every tile: ones, primes, non-multiples.
    pub awkward: &'static [&'static str],
    /// Shapes with a buffer beyond 4 GiB and more than 2³¹ elements, where the kernels take such.
    pub huge: &'static [&'static str],
    /// All buffers, in binding order: the position is the WGSL binding number.
    pub buffers: fn(&Problem) -> Vec<BufferSpec>,
    /// The least work that a way of computing the result must do, with operations counted by the field's rule; see [`Variant::fewer`].
    pub cost: fn(&Problem) -> Cost,
    /// How far an output, counted among the outputs, may be from the reference.
    pub tolerance: fn(&Problem, usize) -> Tolerance,
    /// The right answer.
    pub reference: Reference,
    /// A plain multi-threaded f32 implementation. Without one the target `cpu` computes with the reference itself.
    pub host: Option<HostFn>,
    /// Stages that run once for each set of buffers after the upload: untimed, and what they write (role
    /// [`super::Role::Setup`]) is checked. A backward pass has its forward pass here.
    pub setup: Option<fn(&Problem, &Caps) -> Program>,
    /// Ways to compute it on a GPU, naive first.
    pub variants: Vec<Variant>,
    /// Order in which to fall back when a requested variant cannot run, best first.
    pub fallback: &'static [&'static str],
    /// What the contents of inputs must keep.
    pub preconditions: Vec<Precondition>,
    /// Hard inputs beside the seeded ones.
    pub hard: Vec<StressInput>,
    /// What it says of NaN among its inputs.
    pub nan: OfNan,
    /// The only dialects in which it exists, with the reason; every dialect where absent.
    pub only: Option<(&'static [Dialect], &'static str)>,
}

/// What a form says of NaN among its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfNan {
    /// A result is NaN where the reference is, and nowhere else: one of the hard sets has NaN among its inputs.
    Kept,
    /// Nothing, with the reason.
    Unsaid(&'static str),
}

impl OfNan {
    /// Of forms without floats.
    pub const WHOLE_NUMBERS: OfNan = OfNan::Unsaid("inputs are whole numbers");
    /// Of forms whose variants multiply zeros with different elements.
    pub const MIXED: OfNan = OfNan::Unsaid(
        "variants multiply different elements by zero (padding of tiles, weights of what is not seen or dropped), which NaN turns into NaN",
    );
    /// Of forms in which one NaN reaches all of a result, so that there is nothing to tell apart.
    pub const EVERYWHERE: OfNan =
        OfNan::Unsaid("one NaN reaches all of a result by its sums: nothing is left to tell apart");
}

/// The right answer in f64: the plainest loops that could work, no cleverness shared with any kernel.
#[derive(Clone, Copy)]
pub struct Reference {
    /// Multiply-adds of one row of an output, so that a check of a large problem takes as many rows as its time allows.
    /// Where rows share state, with this row's share of making it.
    pub row_cost: fn(&Problem, usize) -> u64,
    /// What computes rows of these inputs.
    pub rows: RowsFn,
}

/// What the speed of a workload is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// Operations per second: each byte is used many times.
    Flops,
    /// The same of operations on integers, which no measured ceiling of arithmetic holds: those are of floats.
    Ops,
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
    /// Buffers beyond 4 GiB with more than 2³¹ elements: for `verify` on a device with 80 GB.
    Huge,
}

impl Preset {
    /// Every preset with its name.
    pub const ALL: [(&'static str, Preset); 5] = [
        ("quick", Preset::Quick),
        ("standard", Preset::Standard),
        ("full", Preset::Full),
        ("awkward", Preset::Awkward),
        ("huge", Preset::Huge),
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
    /// What it leaves open; empty for most.
    pub tunables: &'static [Tunable],
    /// How many times fewer operations it may get by with than [`OpSpec::cost`] counts by the field's rule: what a time of its is held
    /// against is by so much lower.
    pub fewer: fn(&Problem) -> f64,
    /// Hard inputs that it does not promise to be right on; empty for most.
    pub not_on: &'static [NotOn],
    /// How it is carried out.
    pub how: VariantKind,
}

/// Hard inputs that a variant is not run on.
#[derive(Debug, Clone, Copy)]
pub struct NotOn {
    /// Names of the sets.
    pub sets: &'static [&'static str],
    /// Why the variant is not right on them.
    pub reason: &'static str,
}

/// How a variant is carried out.
pub enum VariantKind {
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

impl Variant {
    /// Kernels in WGSL and in CUDA, for every problem; size limits are checked by the plan.
    pub fn kernel(name: &'static str, about: &'static str, program: fn(&Problem, &Caps) -> Program) -> Variant {
        let dialects = &[Dialect::Wgsl, Dialect::Cuda];
        let how = VariantKind::Kernel { dialects, available: |_, _| Ok(()), program };
        Variant { name, about, tunables: &[], fewer: |_| 1.0, not_on: &[], how }
    }

    /// A choice among the others, with the reason for it.
    pub fn select(
        name: &'static str,
        about: &'static str,
        select: fn(&Problem, &Caps) -> (&'static str, String),
    ) -> Variant {
        Variant { name, about, tunables: &[], fewer: |_| 1.0, not_on: &[], how: VariantKind::Select(select) }
    }

    /// In these dialects alone; a choice has none of its own.
    pub fn only_in(mut self, only: &'static [Dialect]) -> Variant {
        if let VariantKind::Kernel { dialects, .. } = &mut self.how {
            *dialects = only;
        }
        self
    }

    /// Not for every problem and device; a choice says so by what it chooses.
    pub fn available(mut self, when: fn(&Problem, &Caps) -> Result<(), String>) -> Variant {
        if let VariantKind::Kernel { available, .. } = &mut self.how {
            *available = when;
        }
        self
    }

    /// By an algorithm that needs fewer operations, so many times, than those that count.
    pub fn by_fewer(self, fewer: fn(&Problem) -> f64) -> Variant {
        Variant { fewer, ..self }
    }

    /// Not right on some hard inputs, for reasons that are not ours to mend: a library's own limits.
    pub fn not_on(self, not_on: &'static [NotOn]) -> Variant {
        Variant { not_on, ..self }
    }

    /// With something left open.
    pub fn tunables(self, tunables: &'static [Tunable]) -> Variant {
        Variant { tunables, ..self }
    }
}

impl OpSpec {
    /// The shapes of a preset.
    pub fn preset(&self, preset: Preset) -> &[&'static str] {
        match preset {
            Preset::Quick => self.headline.as_slice(),
            Preset::Awkward => self.awkward,
            Preset::Huge => self.huge,
            figures => (self.shapes)(figures),
        }
    }

    /// The variant of that name.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|v| v.name == name)
    }
}
