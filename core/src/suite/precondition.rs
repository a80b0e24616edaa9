//! What the contents of inputs must keep. Kernels index with them and check nothing.

use std::collections::HashMap;

use super::{Inputs, Problem};

/// One condition on one input, as data.
#[derive(Clone, Copy)]
pub enum Precondition {
    /// Every element is below a bound.
    Below {
        /// The input.
        buffer: &'static str,
        /// The bound.
        bound: fn(&Problem) -> u64,
    },
    /// No element is below the one before it.
    Ascending {
        /// The input.
        buffer: &'static str,
        /// The problems that ask for it.
        when: fn(&Problem) -> bool,
    },
    /// No two elements are alike.
    Distinct {
        /// The input.
        buffer: &'static str,
        /// The problems that ask for it.
        when: fn(&Problem) -> bool,
    },
}

/// An input that breaks a precondition.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("input `{buffer}`[{index}] is {value}, and must be {must}")]
pub struct Broken {
    /// The input.
    pub buffer: &'static str,
    /// Position of the first element that breaks it.
    pub index: u64,
    /// What it is.
    pub value: f64,
    /// What it must be.
    pub must: String,
}

impl Precondition {
    /// The input that keeps it.
    pub fn buffer(self) -> &'static str {
        let (Precondition::Below { buffer, .. }
        | Precondition::Ascending { buffer, .. }
        | Precondition::Distinct { buffer, .. }) = self;
        buffer
    }

    fn holds(self, problem: &Problem, inputs: &Inputs) -> Result<(), Broken> {
        let buffer = self.buffer();
        let specs = problem.buffers();
        // A buffer that only some shapes have keeps nothing where it is not.
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
                let mut last = f64::NEG_INFINITY;
                for (index, value) in values {
                    if value < last {
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
    /// Whether inputs keep every precondition of the form.
    ///
    /// # Errors
    /// The first element that breaks one.
    pub fn accepts(&self, inputs: &Inputs) -> Result<(), Broken> {
        self.form().preconditions.iter().try_for_each(|condition| condition.holds(self, inputs))
    }
}
