//! Specification of one direction of a workload.
//!
//! A specification is data and pure functions without state. It gives the problems, their buffers, their least cost and the right
//! result. It also gives the tolerance of the result and the variants.

use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::{BufferSpec, Collective, HostCode, Precondition, Problem, Program, ReferenceCode, StressInput, Tunable};

/// Specification of one direction of a workload, complete in itself.
pub struct OpSpec {
    /// Function of the operation that is computed.
    pub direction: Direction,
    /// Unit of its speed.
    pub rate: Rate,
    /// Shape that represents all others: the preset `quick`. An execution takes at most 50 ms on a phone's GPU. Probes have none,
    /// because every run measures them as ceilings.
    pub headline: Option<&'static str>,
    /// Shapes to measure, each as the shape part of a case string. Called only for presets that are measured.
    pub shapes: fn(Preset) -> &'static [&'static str],
    /// Small edge shapes for every tile: ones, primes, non-multiples.
    pub awkward: &'static [&'static str],
    /// Shapes with a buffer beyond 4 GiB and more than 2³¹ elements, if the kernels support them.
    pub huge: &'static [&'static str],
    /// All buffers, in binding order: the position is the WGSL binding number.
    pub buffers: fn(&Problem) -> Vec<BufferSpec>,
    /// Least cost of any method that computes the result. Operations are counted by the field's rule; see [`Variant::fewer`].
    pub cost: fn(&Problem) -> Cost,
    /// Tolerance of an output against the reference. The index counts outputs.
    pub tolerance: fn(&Problem, usize) -> Tolerance,
    /// Definition of the right result.
    pub reference: Reference,
    /// Multi-threaded f32 implementation. Without one, the target `cpu` runs the reference.
    pub host: Option<HostCode>,
    /// Exchange between GPUs that an execution is; `None` for work of one device.
    pub exchange: Option<Collective>,
    /// Stages that run once for each set of buffers after the upload. They are not timed. Their outputs (role
    /// [`super::Role::Setup`]) are checked. A backward pass runs its forward pass here.
    pub setup: Option<fn(&Problem, &Caps) -> Program>,
    /// Variants for a GPU, naive first.
    pub variants: Vec<Variant>,
    /// Variants that replace one that cannot run, best first.
    pub fallback: &'static [&'static str],
    /// Preconditions on the contents of inputs.
    pub preconditions: Vec<Precondition>,
    /// Stress inputs beside the seeded ones.
    pub stress: Vec<StressInput>,
    /// Statement about NaN among the inputs.
    pub nan: OfNan,
    /// Dialects to which it is restricted, with the reason; every dialect if `None`.
    pub only: Option<(&'static [Dialect], &'static str)>,
}

/// Statement of a specification about NaN among its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfNan {
    /// A result is NaN where the reference is NaN, and nowhere else. One of the stress inputs has NaN among its inputs.
    Kept,
    /// No statement, with the reason.
    Unsaid(&'static str),
}

impl OfNan {
    /// For specifications without floats.
    pub const WHOLE_NUMBERS: OfNan = OfNan::Unsaid("inputs are whole numbers");
    /// For specifications whose variants multiply different elements by zero.
    pub const MIXED: OfNan = OfNan::Unsaid(
        "variants multiply different elements by zero (padding of tiles, weights of masked or dropped elements); with NaN the product is NaN",
    );
    /// For specifications in which one NaN reaches the whole result, so that no elements differ.
    pub const EVERYWHERE: OfNan = OfNan::Unsaid("one NaN reaches all of a result by its sums: no element differs");
}

/// Reference result in f64, by the plainest loops. It shares no optimization with any kernel.
#[derive(Clone, Copy)]
pub struct Reference {
    /// Multiply-adds of one row of an output. A check of a large problem takes as many rows as its time allows. If rows share
    /// state, the count includes this row's share of computing it.
    pub row_cost: fn(&Problem, usize) -> u64,
    /// Function that computes rows for given inputs.
    pub rows: ReferenceCode,
}

impl Reference {
    /// Returns a reference with this cost of a row and this function for the rows.
    pub fn new(row_cost: fn(&Problem, usize) -> u64, rows: ReferenceCode) -> Reference {
        Reference { row_cost, rows }
    }
}

/// Error bound: an output element `x` with reference `r` is right if `|x - r| <= abs + rel * |r|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Absolute part, in units of the output.
    pub abs: f64,
    /// Relative part.
    pub rel: f64,
    /// Argument for these numbers.
    pub reason: &'static str,
}

/// Variant: one way to compute a workload.
pub struct Variant {
    /// Last part of the case string.
    pub name: &'static str,
    /// Description, with the difference from the preceding variant.
    pub about: &'static str,
    /// Tunables; empty for most variants.
    pub tunables: &'static [Tunable],
    /// Factor by which its operations may fall below [`OpSpec::cost`], which counts by the field's rule. The bound for its times
    /// is lower by the same factor.
    pub fewer: fn(&Problem) -> f64,
    /// Stress inputs on which it may be wrong; empty for most variants.
    pub not_on: &'static [NotOn],
    /// Whether each execution on the same inputs is declared to leave the same bits. `verify --repeat` checks it.
    pub deterministic: bool,
    /// Implementation.
    pub how: VariantKind,
}

/// Stress inputs on which a variant is not run.
#[derive(Debug, Clone, Copy)]
pub struct NotOn {
    /// Names of the stress inputs.
    pub sets: &'static [&'static str],
    /// Reason why the variant is not right on them.
    pub reason: &'static str,
}

/// Implementation of a variant.
pub enum VariantKind {
    /// Kernel launches from the workload's kernel files.
    Kernel {
        /// Dialects in which it exists.
        dialects: &'static [Dialect],
        /// Reason why it cannot compute this problem on this device, if any. The plan checks size limits.
        available: fn(&Problem, &Caps) -> Result<(), String>,
        /// Launches for a device on which it is available.
        program: fn(&Problem, &Caps) -> Program,
    },
    /// Selects another variant by problem and device, with a reason.
    Select(fn(&Problem, &Caps) -> (&'static str, String)),
}

impl Variant {
    /// Returns a variant with kernels in WGSL and CUDA, for every problem. The plan checks size limits.
    pub fn kernel(name: &'static str, about: &'static str, program: fn(&Problem, &Caps) -> Program) -> Variant {
        let dialects = &[Dialect::Wgsl, Dialect::Cuda];
        let how = VariantKind::Kernel { dialects, available: |_, _| Ok(()), program };
        Variant { name, about, tunables: &[], fewer: |_| 1.0, not_on: &[], deterministic: false, how }
    }

    /// Returns a variant that selects among the others, with a reason.
    pub fn select(
        name: &'static str,
        about: &'static str,
        select: fn(&Problem, &Caps) -> (&'static str, String),
    ) -> Variant {
        Variant {
            name,
            about,
            tunables: &[],
            fewer: |_| 1.0,
            not_on: &[],
            deterministic: false,
            how: VariantKind::Select(select),
        }
    }

    /// Restricts the kernels to these dialects. It has no effect on a selection.
    pub fn only_in(mut self, only: &'static [Dialect]) -> Variant {
        if let VariantKind::Kernel { dialects, .. } = &mut self.how {
            *dialects = only;
        }
        self
    }

    /// Sets the condition on problem and device. It has no effect on a selection, which expresses it by its choice.
    pub fn available(mut self, when: fn(&Problem, &Caps) -> Result<(), String>) -> Variant {
        if let VariantKind::Kernel { available, .. } = &mut self.how {
            *available = when;
        }
        self
    }

    /// Sets the factor of an algorithm that needs fewer operations than are counted.
    pub fn by_fewer(self, fewer: fn(&Problem) -> f64) -> Variant {
        Variant { fewer, ..self }
    }

    /// Excludes stress inputs on which a library's own limits make the result wrong.
    pub fn not_on(self, not_on: &'static [NotOn]) -> Variant {
        Variant { not_on, ..self }
    }

    /// Declares that each execution on the same inputs leaves the same bits.
    pub fn deterministic(self) -> Variant {
        Variant { deterministic: true, ..self }
    }

    /// Sets the tunables.
    pub fn tunables(self, tunables: &'static [Tunable]) -> Variant {
        Variant { tunables, ..self }
    }
}

impl OpSpec {
    /// Returns a specification without shapes, host code, set-up, variants and stress inputs. The methods below add them.
    pub fn new(
        direction: Direction,
        rate: Rate,
        buffers: fn(&Problem) -> Vec<BufferSpec>,
        cost: fn(&Problem) -> Cost,
        tolerance: fn(&Problem, usize) -> Tolerance,
        reference: Reference,
        nan: OfNan,
    ) -> OpSpec {
        OpSpec {
            direction,
            rate,
            headline: None,
            shapes: |_| &[],
            awkward: &[],
            huge: &[],
            buffers,
            cost,
            tolerance,
            reference,
            host: None,
            exchange: None,
            setup: None,
            variants: Vec::new(),
            fallback: &[],
            preconditions: Vec::new(),
            stress: Vec::new(),
            nan,
            only: None,
        }
    }

    /// Sets the shape of the preset `quick`.
    pub fn headline(self, headline: &'static str) -> OpSpec {
        OpSpec { headline: Some(headline), ..self }
    }

    /// Sets the shapes to measure.
    pub fn shapes(self, shapes: fn(Preset) -> &'static [&'static str]) -> OpSpec {
        OpSpec { shapes, ..self }
    }

    /// Sets the edge shapes.
    pub fn awkward(self, awkward: &'static [&'static str]) -> OpSpec {
        OpSpec { awkward, ..self }
    }

    /// Sets the shapes with a buffer beyond 4 GiB.
    pub fn huge(self, huge: &'static [&'static str]) -> OpSpec {
        OpSpec { huge, ..self }
    }

    /// Sets the f32 implementation for the host.
    pub fn host(self, host: HostCode) -> OpSpec {
        OpSpec { host: Some(host), ..self }
    }

    /// Declares that an execution is this exchange between GPUs.
    pub fn exchange(self, exchange: Collective) -> OpSpec {
        OpSpec { exchange: Some(exchange), ..self }
    }

    /// Sets the stages of the set-up.
    pub fn setup(self, setup: fn(&Problem, &Caps) -> Program) -> OpSpec {
        OpSpec { setup: Some(setup), ..self }
    }

    /// Sets the variants, naive first.
    pub fn variants(self, variants: Vec<Variant>) -> OpSpec {
        OpSpec { variants, ..self }
    }

    /// Sets the variants that replace one that cannot run, best first.
    pub fn fallback(self, fallback: &'static [&'static str]) -> OpSpec {
        OpSpec { fallback, ..self }
    }

    /// Sets the preconditions on the contents of inputs.
    pub fn preconditions(self, preconditions: Vec<Precondition>) -> OpSpec {
        OpSpec { preconditions, ..self }
    }

    /// Sets the stress inputs.
    pub fn stress(self, stress: Vec<StressInput>) -> OpSpec {
        OpSpec { stress, ..self }
    }

    /// Restricts it to these dialects, with the reason.
    pub fn only_in(self, dialects: &'static [Dialect], reason: &'static str) -> OpSpec {
        OpSpec { only: Some((dialects, reason)), ..self }
    }

    /// Returns the shapes of a preset.
    pub fn preset(&self, preset: Preset) -> &[&'static str] {
        match preset {
            Preset::Quick => self.headline.as_slice(),
            Preset::Awkward => self.awkward,
            Preset::Huge => self.huge,
            figures => (self.shapes)(figures),
        }
    }

    /// Returns the variant with this name.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|v| v.name == name)
    }
}
