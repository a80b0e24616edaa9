//! Inputs and reference results of the latest problem.

use std::rc::Rc;

use parallax_ir::Inputs;
use parallax_ir::device::Profiler;

use crate::measure::check::{self, Expected};
use crate::plan::Planned;

/// Inputs and reference results of one problem, shared by its variants, which are measured one after another.
pub struct ProblemReference {
    pub inputs: Inputs,
    pub expected: Expected,
}

/// Reference of the latest problem.
#[derive(Default)]
pub struct ReferenceCache {
    last: Option<(String, Rc<ProblemReference>)>,
}

impl ReferenceCache {
    /// Returns the reference of a case's problem.
    pub async fn of(&mut self, planned: &Planned, seed: u64, profiler: &dyn Profiler) -> Rc<ProblemReference> {
        let set = planned.stress.map_or("", |stress| stress.name);
        let problem = format!("{} [{set}]", planned.case.problem);
        if let Some((known, reference)) = &self.last
            && *known == problem
        {
            return reference.clone();
        }
        let inputs = planned.inputs(seed);
        inputs.keep();
        let expected = Expected::new(profiler, &planned.case.problem, &inputs, check::WORK).await;
        let reference = Rc::new(ProblemReference { inputs, expected });
        self.last = Some((problem, reference.clone()));
        reference
    }
}
