//! Check of one case outside of any run: prepared, compared with the reference, and checked again at awkward shapes.
//! Shared by `dev` and `tune`.

use parallax_analysis::compare::verdict::Ratio;
use parallax_engine::measure::check::{Expected, WORK, check};
use parallax_engine::plan::runs_as_asked;
use parallax_ir::device::{BackendError, Batch, POISON, Prepared, Profiler};
use parallax_ir::{Case, Inputs, VariantKind};
use parallax_schema::record::Timing;
use parallax_workloads::parse_case;

/// Reason for a case without a right result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Failure before a result.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Wrong result.
    #[error("{case}: {what}")]
    Wrong {
        /// The case.
        case: String,
        /// Error of the result.
        what: String,
    },
}

/// Case with its inputs and reference results, which are the same for every trial.
pub struct CheckedCase {
    /// Requested case; a selection among variants may run another.
    pub case: Case,
    inputs: Inputs,
    expected: Expected,
}

impl CheckedCase {
    /// Creates inputs and reference results.
    pub async fn of(case: Case, seed: u64, work: u64, profiler: &dyn Profiler) -> CheckedCase {
        let inputs = case.problem.inputs(seed);
        let expected = Expected::new(profiler, &case.problem, &inputs, work).await;
        CheckedCase { case, inputs, expected }
    }

    /// Returns the case that runs for it on this device with its present settings.
    ///
    /// # Errors
    /// Reason for which none runs.
    pub fn runs(&self, profiler: &dyn Profiler) -> Result<Case, String> {
        let caps = &profiler.device().caps;
        let case = match self.case.variant_form().map(|variant| &variant.how) {
            Some(VariantKind::Select(select)) => {
                Case { variant: select(&self.case.problem, caps).0, ..self.case.clone() }
            }
            _ => self.case.clone(),
        };
        // No fallback: the time of another variant is meaningless here.
        runs_as_asked(&case, caps)?;
        Ok(case)
    }

    /// Prepares `case`, a variant of this problem, without an execution.
    pub async fn prepare(&self, case: &Case, profiler: &mut dyn Profiler) -> Result<Box<dyn Prepared>, BackendError> {
        profiler.prepare(case, &self.inputs, 1).await
    }

    /// Executes the case on poisoned outputs and checks the result against the reference. Returns a description of the
    /// comparison.
    ///
    /// # Errors
    /// Failed device or wrong result.
    pub async fn check(&self, prepared: &mut dyn Prepared, profiler: &dyn Profiler) -> Result<String, Failure> {
        prepared.poison(POISON).await?;
        prepared.measure(Batch::new(1)).await?;
        let result = check(profiler, prepared, &self.case.problem, &self.expected).await?;
        let what = result.sentence();
        if result.passed { Ok(what) } else { Err(Failure::Wrong { case: self.case.to_string(), what }) }
    }
}

/// Awkward shapes of a case's workload in its dtype and variant, with reference results. Contains those that run on
/// this device with its present settings, or with the settings at their creation.
#[derive(Default)]
pub struct Awkward {
    trials: Vec<CheckedCase>,
}

/// Reference work for one awkward shape. The shapes are small, so it mostly covers every element.
const AWKWARD_WORK: u64 = WORK / 10;

impl Awkward {
    /// Checks a case's variant at every awkward shape that the device can run. Returns their number.
    ///
    /// # Errors
    /// The first failure.
    pub async fn check(&mut self, like: &Case, seed: u64, profiler: &mut dyn Profiler) -> Result<usize, Failure> {
        let mut right = 0;
        for shape in like.problem.form().awkward {
            let (problem, dtype) = (&like.problem, like.problem.dtype.name());
            let text =
                format!("{}/{}/{shape}/{dtype}/{}", problem.workload.name, problem.direction.name(), like.variant);
            let case = parse_case(&text).expect("tests parse all awkward shapes");
            if runs_as_asked(&case, &profiler.device().caps).is_err() {
                continue;
            }
            let known = self.trials.iter().position(|t| t.case.problem.to_string() == case.problem.to_string());
            let index = match known {
                Some(index) => index,
                None => {
                    self.trials.push(CheckedCase::of(case.clone(), seed, AWKWARD_WORK, profiler).await);
                    self.trials.len() - 1
                }
            };
            let trial = &self.trials[index];
            let mut prepared = trial.prepare(&case, profiler).await?;
            trial.check(&mut *prepared, profiler).await?;
            right += 1;
        }
        Ok(right)
    }
}

/// Returns the ratio of two timings on one device, taken side by side.
pub fn ratio(base: &Timing, other: &Timing, launches: usize, profiler: &dyn Profiler) -> Ratio {
    Ratio::side_by_side(base, other, launches, profiler.device().kind, profiler.clock())
}
