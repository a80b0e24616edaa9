//! One case tried out, outside of any run: prepared, checked against the reference, and checked again at awkward shapes.
//! What `dev` and `tune` share.

use parallax_core::compare::verdict::{Ratio, VerdictInputs, resolution_on};
use parallax_core::device::{BackendError, Batch, POISON, Prepared, Profiler};
use parallax_core::measure::check::{Expected, WORK, check};
use parallax_core::plan::runs_as_asked;
use parallax_core::record::Timing;
use parallax_core::suite::{Case, Inputs, VariantKind};

/// Why a case gave no right result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It did not get as far as a result.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// It did.
    #[error("{case}: {what}")]
    Wrong {
        /// The case.
        case: String,
        /// What is wrong with its result.
        what: String,
    },
}

/// A case with its inputs and right results, which stay the same however often it is tried.
pub struct CheckedCase {
    /// What was asked for; a selection among variants may run another.
    pub case: Case,
    inputs: Inputs,
    expected: Expected,
}

impl CheckedCase {
    /// Make inputs and reference results.
    pub async fn of(case: Case, seed: u64, work: u64, profiler: &dyn Profiler) -> CheckedCase {
        let inputs = case.problem.inputs(seed);
        let expected = Expected::of(profiler, &case.problem, &inputs, work).await;
        CheckedCase { case, inputs, expected }
    }

    /// What runs for it on this device as it is set now.
    ///
    /// # Errors
    /// The reason why nothing can.
    pub fn runs(&self, profiler: &dyn Profiler) -> Result<Case, String> {
        let caps = &profiler.device().caps;
        let case = match self.case.variant_form().map(|variant| &variant.how) {
            Some(VariantKind::Select(select)) => {
                Case { variant: select(&self.case.problem, caps).0, ..self.case.clone() }
            }
            _ => self.case.clone(),
        };
        // No fallback: another variant's time would say nothing about this one.
        runs_as_asked(&case, caps)?;
        Ok(case)
    }

    /// Prepare `case`, which is a way to compute this problem, without running it.
    pub async fn prepare(&self, case: &Case, profiler: &mut dyn Profiler) -> Result<Box<dyn Prepared>, BackendError> {
        profiler.prepare(case, &self.inputs, 1).await
    }

    /// Run it on spoiled outputs and hold the result against the reference; says what was compared.
    ///
    /// # Errors
    /// When the device fails or the result is wrong.
    pub async fn check(&self, prepared: &mut dyn Prepared, profiler: &dyn Profiler) -> Result<String, Failure> {
        prepared.poison(POISON).await?;
        prepared.measure(Batch::of(1)).await?;
        let result = check(profiler, prepared, &self.case.problem, &self.expected).await?;
        let what = result.sentence();
        if result.passed { Ok(what) } else { Err(Failure::Wrong { case: self.case.to_string(), what }) }
    }
}

/// The awkward shapes of a case's workload in its element type and variant, with right results; of those that run on this
/// device as it is set now, or as it was when they were made.
#[derive(Default)]
pub struct Awkward {
    trials: Vec<CheckedCase>,
}

/// Reference work for one awkward shape: they are small, so mostly for every element.
const AWKWARD_WORK: u64 = WORK / 10;

impl Awkward {
    /// Check a case's variant at every awkward shape that the device can run; says at how many.
    ///
    /// # Errors
    /// The first failure.
    pub async fn check(&mut self, like: &Case, seed: u64, profiler: &mut dyn Profiler) -> Result<usize, Failure> {
        let mut right = 0;
        for shape in like.problem.form().awkward {
            let (problem, dtype) = (&like.problem, like.problem.dtype.name());
            let text =
                format!("{}/{}/{shape}/{dtype}/{}", problem.workload.name, problem.direction.name(), like.variant);
            let case: Case = text.parse().expect("tests hold awkward shapes to the form");
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

/// One timing against another of the same device, taken side by side.
pub fn ratio(base: &Timing, other: &Timing, launches: usize, profiler: &dyn Profiler) -> Ratio {
    let (kind, jitter) = (profiler.device().kind, profiler.clock().launch_jitter.0);
    let launch = jitter * launches as f64 / base.summary.median.0;
    let reference_spread = kind.is_emulated().then_some(0.0);
    let grounds = VerdictInputs { asked: resolution_on(kind), drift: 0.0, launch, reference_spread };
    Ratio::of(base, other, grounds)
}
