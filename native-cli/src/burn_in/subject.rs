//! Case of a burn-in.

use parallax_engine::measure::check::WORK;
use parallax_engine::measure::repeat::OutputDigest;
use parallax_ir::Case;
use parallax_ir::device::{BackendError, Batch, POISON, Prepared, Profiler};
use parallax_schema::record::Repeatable;
use parallax_schema::units::Nanos;

use super::findings::CaseFindings;
use crate::trial::{CheckedCase, Failure};

/// Time of the executions of a round.
const ROUND: Nanos = Nanos(0.25e9);
/// Largest number of executions of a round.
const MOST: f64 = 1e5;
/// Bytes of one read-back, which bounds host memory.
const CHUNK: u64 = 16 << 20;

/// Reason for which a case has no burn-in.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The case does not run on this device.
    #[error("{0}")]
    Cannot(String),
    /// Failed device, or wrong results before the first round.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Results that are right and have no fixed bits.
    #[error("{0}: results differ from execution to execution, as with atomic additions")]
    Unrepeatable(String),
}

/// Prepared case with the digest of its results.
pub struct Subject {
    case: String,
    prepared: Box<dyn Prepared>,
    /// Positions and bytes of the outputs.
    outputs: Vec<(usize, u64)>,
    /// Executions of a round.
    executions: u32,
    /// Digest of the results after a round.
    first: OutputDigest,
}

impl Subject {
    /// Prepares a case, compares its results with the reference, and those of two rounds with each other.
    ///
    /// # Errors
    /// The reason for which it has no burn-in.
    pub async fn new(case: Case, seed: u64, profiler: &mut dyn Profiler) -> Result<Subject, Refused> {
        let checked = CheckedCase::of(case, seed, WORK, profiler).await;
        let case = checked.runs(profiler).map_err(Refused::Cannot)?;
        let mut prepared = checked.prepare(&case, profiler).await.map_err(Failure::from)?;
        checked.check(&mut *prepared, profiler).await?;
        let specs = case.problem.buffers();
        let bytes = |buffer: usize| specs[buffer].len * specs[buffer].elem.storage(case.problem.dtype).bytes();
        let outputs = case.problem.outputs().into_iter().map(|buffer| (buffer, bytes(buffer))).collect();
        let once = prepared.measure(Batch::new(1)).await.map_err(Failure::from)?;
        let executions = (ROUND.0 / once.host.0.max(1.0)).clamp(1.0, MOST) as u32;
        let mut subject =
            Subject { case: case.to_string(), prepared, outputs, executions, first: OutputDigest::default() };
        subject.first = subject.results().await.map_err(Failure::from)?.1;
        let again = subject.results().await.map_err(Failure::from)?.1;
        match subject.first.repeated_by(&again) {
            Repeatable::Bitwise => Ok(subject),
            Repeatable::Differs(_) => Err(Refused::Unrepeatable(subject.case)),
        }
    }

    /// Returns the findings before the first round.
    pub(super) fn begin(&self) -> CaseFindings {
        CaseFindings { case: self.case.clone(), ..CaseFindings::default() }
    }

    /// Executes a round, and adds it to the findings. Returns whether its results differ from those of the first one.
    pub(super) async fn round(&mut self, found: &mut CaseFindings) -> Result<bool, BackendError> {
        let (time, digest) = self.results().await?;
        let differs = self.first.repeated_by(&digest) != Repeatable::Bitwise;
        found.rounds += 1;
        found.executions += u64::from(self.executions);
        found.different += u64::from(differs);
        found.times_ns.push(time.0 / f64::from(self.executions));
        Ok(differs)
    }

    /// Executes a round from poisoned outputs. Returns its time, and the digest of all bits of the results.
    async fn results(&mut self) -> Result<(Nanos, OutputDigest), BackendError> {
        self.prepared.poison(POISON).await?;
        let sample = self.prepared.measure(Batch::new(self.executions)).await?;
        let mut digest = OutputDigest::new(0);
        for (buffer, bytes) in &self.outputs {
            for from in (0..*bytes).step_by(CHUNK as usize) {
                digest.bits(&self.prepared.read_back(*buffer, from..(from + CHUNK).min(*bytes)).await?);
            }
        }
        Ok((sample.time, digest))
    }
}
