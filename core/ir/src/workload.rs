//! Workloads, and problems: a workload at one shape, direction and element type.

use std::fmt;

use parallax_schema::case::{CaseError, Cost, DType, Direction, named};
use parallax_schema::units::Bytes;

use super::{Axis, BufferSpec, Inputs, OpSpec, Probe, Scaling, Shape, StressInput, form, times};

/// Exclusive upper bound of a buffer's bytes. Sums of a few buffers stay within 64 bits.
const MOST_BYTES: u64 = 1 << 60;

/// Workload at one shape, direction and element type, independent of the variant.
#[derive(Clone)]
pub struct Problem {
    /// Workload.
    pub workload: &'static Workload,
    /// Direction.
    pub direction: Direction,
    /// Extents and options.
    pub shape: Shape,
    /// Element type of the real-valued tensors.
    pub dtype: DType,
}

impl std::ops::Index<&str> for Problem {
    type Output = u64;

    #[inline]
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
    /// Returns a checked problem from its parts.
    pub fn new(
        workload: &'static Workload,
        direction: Direction,
        shape: &str,
        dtype: DType,
    ) -> Result<Problem, CaseError> {
        named("direction", direction.name(), workload.forms.iter().map(|f| (f.direction.name(), ())))?;
        let parsed = Shape::parse(workload.axes, shape)?;
        let bad = |why| CaseError::Shape { shape: shape.to_owned(), why, form: form(workload.axes) };
        (workload.validate)(&parsed).map_err(bad)?;
        let problem = Problem { workload, direction, shape: parsed, dtype };
        if let Some(spec) = problem.buffers().iter().find(|b| b.bytes(dtype).0 >= MOST_BYTES) {
            return Err(bad(format!(
                "buffer `{}` of {} elements cannot be counted in 64 bits",
                spec.name,
                times(&spec.dims)
            )));
        }
        Ok(problem)
    }

    /// Returns the specification of its direction.
    ///
    /// # Panics
    /// Direction that the workload does not have, which [`Problem::new`] refuses.
    pub fn form(&self) -> &'static OpSpec {
        self.workload.form(self.direction).expect("a problem is of a direction that its workload has")
    }

    /// Returns all buffers, in binding order.
    pub fn buffers(&self) -> Vec<BufferSpec> {
        (self.form().buffers)(self)
    }

    /// Least cost of any way to compute it.
    pub fn cost(&self) -> Cost {
        (self.form().cost)(self)
    }

    /// Returns its inputs from a seed.
    pub fn inputs(&self, seed: u64) -> Inputs {
        Inputs::seeded(&self.shape, self.dtype, self.buffers(), seed)
    }

    /// Returns its inputs from a seed, with those of a stress input in their place.
    pub fn stress_inputs(&self, seed: u64, stress: &'static StressInput) -> Inputs {
        self.inputs(seed).with_stress(self, stress)
    }

    /// Returns its periodic inputs: see [`Inputs::repeated`].
    pub fn repeated_inputs(&self, seed: u64) -> Inputs {
        Inputs::repeated(&self.shape, self.dtype, self.buffers(), seed)
    }

    /// Bytes of one set of the wanted buffers.
    pub fn bytes(&self, wanted: impl Fn(&BufferSpec) -> bool) -> Bytes {
        Bytes(self.buffers().iter().filter(|b| wanted(b)).map(|b| b.bytes(self.dtype).0).sum())
    }

    /// Cost of `flops` operations, with each input read once and each output written once.
    pub fn each_once(&self, flops: u64) -> Cost {
        let bytes = |role: fn(&BufferSpec) -> bool| self.bytes(role).0;
        Cost::new(flops, bytes(|b| b.role.fill().is_some()), bytes(|b| b.role.row_len().is_some()))
    }

    /// Positions, in the buffer list, of checked buffers: outputs, changed inputs, and outputs of the set-up.
    pub fn outputs(&self) -> Vec<usize> {
        self.buffers().iter().enumerate().filter(|(_, b)| b.role.row_len().is_some()).map(|(i, _)| i).collect()
    }
}

/// Operation with a definition. The file stem is its name everywhere; the registry supplies it.
pub struct Workload {
    /// File stem, set by the registry.
    pub name: &'static str,
    /// Probes of the device by this workload; empty for most workloads.
    pub probes: &'static [Probe],
    /// One-line description for readers.
    pub about: &'static str,
    /// Extents and options of a shape, in print order.
    pub axes: &'static [Axis],
    /// Defined element types (a device may support fewer).
    pub dtypes: &'static [DType],
    /// Returns the reason why the operation is undefined for a shape, as an error.
    pub validate: fn(&Shape) -> Result<(), String>,
    /// Directions, each with its own specification.
    pub forms: Vec<OpSpec>,
}

impl Workload {
    /// Returns the specification of a direction, if the operation has it.
    pub fn form(&self, direction: Direction) -> Option<&OpSpec> {
        self.forms.iter().find(|f| f.direction == direction)
    }

    /// Returns the axis along which a table shows its times, and that table, if any.
    pub fn scaling(&self) -> Option<(&'static Axis, &'static Scaling)> {
        self.axes.iter().find_map(|axis| Some((axis, axis.scaling?)))
    }
}
