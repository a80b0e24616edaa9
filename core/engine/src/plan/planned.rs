//! Outcomes of planning a case: a planned case, or a skip.

use parallax_ir::{Case, Inputs, StressInput};
use parallax_schema::device::Caps;
use parallax_schema::units::Bytes;

/// One planned case.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Case as requested; its string is the key for comparing.
    pub case: Case,
    /// Variant that runs instead of the requested one, with the reason.
    pub actual: Option<Actual>,
    /// Stress inputs of the case; seeded inputs if absent.
    pub stress: Option<&'static StressInput>,
}

/// Variant that actually runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actual {
    /// Name of the variant.
    pub variant: &'static str,
    /// Reason for this variant in place of the requested one.
    pub reason: String,
}

impl Planned {
    /// Returns the case's string, with the name of its stress inputs if any: the key of its record.
    pub fn name(&self) -> String {
        match self.stress {
            Some(stress) => format!("{} [{}]", self.case, stress.name),
            None => self.case.to_string(),
        }
    }

    /// Returns the inputs of the case.
    pub fn inputs(&self, seed: u64) -> Inputs {
        match self.stress {
            Some(stress) => self.case.problem.stress_inputs(seed, stress),
            None => self.case.problem.inputs(seed),
        }
    }

    /// Returns the case for the profiler, with the variant that actually runs.
    pub fn runs(&self) -> Case {
        match &self.actual {
            Some(actual) => Case { variant: actual.variant, ..self.case.clone() },
            None => self.case.clone(),
        }
    }

    /// Returns the device memory of one set of its buffers.
    pub fn memory(&self, caps: &Caps) -> Bytes {
        let case = self.runs();
        match case.whole_program(caps) {
            Some((program, _)) => program.memory(&case.problem, caps.dialect),
            None => case.problem.bytes(|_| true),
        }
    }

    /// Returns the device memory of `sets` sets of its buffers, and of a vendor's library beside them.
    pub fn memory_of(&self, sets: u32, caps: &Caps) -> Bytes {
        let workspace = self.runs().whole_program(caps).map_or(0, |(program, _)| program.workspace().0);
        Bytes(self.memory(caps).0.saturating_mul(sets.into()).saturating_add(workspace))
    }
}

/// Case that will not run.
#[derive(Debug, Clone)]
pub struct Skip {
    /// The case.
    pub case: Case,
    /// Reason for the skip, with the limit and the requirement.
    pub reason: String,
}
