//! A workload, and a problem: a workload at one shape, direction and element type.

use std::fmt;

use super::{
    Axis, BufferSpec, CaseError, Cost, DType, Direction, Inputs, OpSpec, Probe, Scaling, Shape, StressInput, form,
    named, times,
};
use crate::units::Bytes;

/// Bytes that no buffer reaches: sums of a few stay within 64 bits.
const MOST_BYTES: u64 = 1 << 60;

/// A workload at one shape, direction and element type: what there is to compute, whatever the way.
#[derive(Clone)]
pub struct Problem {
    /// The operation.
    pub workload: &'static Workload,
    /// Which of its functions.
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

    /// The form of its direction.
    ///
    /// # Panics
    /// When the workload has no such direction, which [`Problem::new`] refuses.
    pub fn form(&self) -> &'static OpSpec {
        self.workload.form(self.direction).expect("a problem is of a direction that its workload has")
    }

    /// All buffers, in binding order.
    pub fn buffers(&self) -> Vec<BufferSpec> {
        (self.form().buffers)(self)
    }

    /// The least work that any way of computing it must do.
    pub fn cost(&self) -> Cost {
        (self.form().cost)(self)
    }

    /// Its inputs from a seed.
    pub fn inputs(&self, seed: u64) -> Inputs {
        Inputs::seeded(&self.shape, self.dtype, self.buffers(), seed)
    }

    /// Its inputs from a seed, with those of a hard set in their place.
    pub fn hard_inputs(&self, seed: u64, hard: &'static StressInput) -> Inputs {
        self.inputs(seed).harder(self, hard)
    }

    /// Its inputs, the first elements over and over: see [`Inputs::repeated`].
    pub fn repeated_inputs(&self, seed: u64) -> Inputs {
        Inputs::repeated(&self.shape, self.dtype, self.buffers(), seed)
    }

    /// Bytes of one set of the buffers that are wanted.
    pub fn bytes(&self, wanted: impl Fn(&BufferSpec) -> bool) -> Bytes {
        Bytes(self.buffers().iter().filter(|b| wanted(b)).map(|b| b.bytes(self.dtype).0).sum())
    }

    /// `flops` operations, where each input is read once, and each output written once.
    pub fn each_once(&self, flops: u64) -> Cost {
        let bytes = |role: fn(&BufferSpec) -> bool| self.bytes(role).0;
        Cost::new(flops, bytes(|b| b.role.fill().is_some()), bytes(|b| b.role.row_len().is_some()))
    }

    /// Positions, in the buffer list, of what is checked: outputs, changed inputs, and what the set-up computes.
    pub fn outputs(&self) -> Vec<usize> {
        self.buffers().iter().enumerate().filter(|(_, b)| b.role.row_len().is_some()).map(|(i, _)| i).collect()
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
    /// Element types that are defined (a device may support fewer).
    pub dtypes: &'static [DType],
    /// Rejects shapes for which the operation is undefined, with the reason.
    pub validate: fn(&Shape) -> Result<(), String>,
    /// Its directions, each a form of its own.
    pub forms: Vec<OpSpec>,
}

impl Workload {
    /// The form of a direction, if the operation has it.
    pub fn form(&self, direction: Direction) -> Option<&OpSpec> {
        self.forms.iter().find(|f| f.direction == direction)
    }

    /// The axis along which its times are told as a table, and that table, if it has one.
    pub fn scaling(&self) -> Option<(&'static Axis, &'static Scaling)> {
        self.axes.iter().find_map(|axis| Some((axis, axis.scaling?)))
    }
}
