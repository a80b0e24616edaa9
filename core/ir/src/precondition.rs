//! Preconditions on the contents of inputs. Kernels use the contents as indices without a check.

use std::collections::HashMap;

use super::{Inputs, Problem};

/// Condition on one input, as data.
#[derive(Clone, Copy)]
pub enum Precondition {
    /// Every element is below a bound.
    Below {
        /// Input.
        buffer: &'static str,
        /// Exclusive bound.
        bound: fn(&Problem) -> u64,
    },
    /// Every element is at least the preceding one. On a group of GPUs this holds within the row of each.
    Ascending {
        /// Input.
        buffer: &'static str,
        /// Problems to which it applies.
        when: fn(&Problem) -> bool,
    },
    /// All elements are different.
    Distinct {
        /// Input.
        buffer: &'static str,
        /// Problems to which it applies.
        when: fn(&Problem) -> bool,
    },
}

/// Violation of a precondition.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("input `{buffer}`[{index}] is {value}, and must be {must}")]
pub struct Broken {
    /// Input.
    pub buffer: &'static str,
    /// Position of the first element that violates it.
    pub index: u64,
    /// Value of the element.
    pub value: f64,
    /// Required value.
    pub must: String,
}

impl Precondition {
    /// Returns the input to which it applies.
    pub fn buffer(self) -> &'static str {
        let (Precondition::Below { buffer, .. }
        | Precondition::Ascending { buffer, .. }
        | Precondition::Distinct { buffer, .. }) = self;
        buffer
    }

    fn holds(self, problem: &Problem, inputs: &Inputs) -> Result<(), Broken> {
        let buffer = self.buffer();
        let specs = problem.buffers();
        // A precondition has no effect for shapes without its buffer.
        let Some(position) = specs.iter().position(|b| b.name == buffer) else { return Ok(()) };
        let values = (0..specs[position].len).map(|i| (i, inputs.at(position, i)));
        let broken = |(index, value): (u64, f64), must| Broken { buffer, index, value, must };
        match self {
            Precondition::Below { bound, .. } => {
                let bound = bound(problem);
                let mut values = values;
                let above = values.find(|(_, value)| *value >= bound as f64);
                above.map_or(Ok(()), |at| Err(broken(at, format!("below {bound}"))))
            }
            Precondition::Ascending { when, .. } if when(problem) => {
                let row = specs[position].len / specs[position].ranks();
                let mut last = f64::NEG_INFINITY;
                for (index, value) in values {
                    if value < last && !index.is_multiple_of(row) {
                        return Err(broken((index, value), format!("no less than {last} before it")));
                    }
                    last = value;
                }
                Ok(())
            }
            Precondition::Distinct { when, .. } if when(problem) => {
                let mut known = HashMap::new();
                for (index, value) in values {
                    if let Some(before) = known.insert(value.to_bits(), index) {
                        return Err(broken((index, value), format!("another than element {before}")));
                    }
                }
                Ok(())
            }
            Precondition::Ascending { .. } | Precondition::Distinct { .. } => Ok(()),
        }
    }
}

impl Problem {
    /// Checks whether inputs satisfy every precondition of the specification.
    ///
    /// # Errors
    /// First element that violates one.
    pub fn accepts(&self, inputs: &Inputs) -> Result<(), Broken> {
        self.form().preconditions.iter().try_for_each(|condition| condition.holds(self, inputs))
    }
}
