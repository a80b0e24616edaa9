//! Passes of a job over all items: logits, and times on the host clock.

use parallax_model::layers::Arrays;
use parallax_model::network::{LOGITS, PROBABILITIES};
use parallax_schema::device::MemoryStats;
use parallax_schema::units::Nanos;

use crate::job::Job;
use crate::machine::{LearnError, Machine};

/// Items of a batch.
pub const BATCH: usize = 64;
/// Passes over all items for the speed.
pub const PASSES: usize = 5;
/// Single requests for the latency.
pub const REQUESTS: usize = 100;
/// Arrays of the answers.
const ANSWERS: [&str; 2] = [LOGITS, PROBABILITIES];

/// Answers of a network for all items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    /// Logits, row by row.
    pub logits: Vec<f32>,
    /// Probabilities, row by row; empty if the network has none.
    pub probabilities: Vec<f32>,
}

/// Answers with their times, from inputs in memory to answers in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Passes {
    /// The answers.
    pub answers: Answers,
    /// Time of each of [`PASSES`] passes over all items in batches.
    pub passes: Vec<Nanos>,
    /// Time of each of [`REQUESTS`] requests of one item.
    pub requests: Vec<Nanos>,
    /// Largest difference of a logit between two passes; zero if all have the same bits.
    pub apart: f64,
    /// Device memory of all cases, and the host's memory where it is known.
    pub memory: MemoryStats,
}

impl Answers {
    /// Returns the largest difference of a logit from other answers; zero for the same bits.
    fn apart(&self, other: &Answers) -> f64 {
        let differing = self.logits.iter().zip(&other.logits).filter(|(a, b)| a.to_bits() != b.to_bits());
        let differences = differing.map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
        // Zeros of two signs have other bits. A difference that is no number counts as infinite.
        differences.map(|by| if by.is_nan() { f64::INFINITY } else { by.max(f64::MIN_POSITIVE) }).fold(0.0, f64::max)
    }
}

/// Returns the answers for all items, batch by batch. The last batch is filled with its last item.
///
/// # Errors
/// Layer that does not run, or answers of another length.
pub async fn answers(machine: &mut Machine, job: &Job) -> Result<Answers, LearnError> {
    let mut arrays = parameters(machine, job)?;
    all_items(machine, job, &mut arrays, async |_| true).await
}

/// Returns the answers and the times of a job. `goes_on` is called with the share of the work that is done, and returns whether to go
/// on. It is called before each batch of the first pass and before each timed part, never within one.
///
/// # Errors
/// Layer that does not run, answers of another length, or a caller that stops.
pub async fn passes(
    machine: &mut Machine,
    job: &Job,
    mut goes_on: impl AsyncFnMut(f64) -> bool,
) -> Result<Passes, LearnError> {
    // The answers are a pass as long as each of the timed ones, and the requests are about one more.
    let parts = (PASSES + 2) as f64;
    let mut arrays = parameters(machine, job)?;
    let answers = all_items(machine, job, &mut arrays, async |share| goes_on(share / parts).await).await?;
    let (mut passes, mut apart) = (Vec::with_capacity(PASSES), 0.0);
    for pass in 0..PASSES {
        unless_stopped(goes_on((pass + 1) as f64 / parts).await)?;
        let began = machine.profiler().now();
        let again = all_items(machine, job, &mut arrays, async |_| true).await?;
        passes.push(machine.profiler().now() - began);
        apart = answers.apart(&again).max(apart);
    }
    unless_stopped(goes_on((PASSES + 1) as f64 / parts).await)?;
    let mut requests = Vec::with_capacity(REQUESTS + 1);
    for request in 0..=REQUESTS {
        job.inputs(&[request % job.items()], &mut arrays);
        let began = machine.profiler().now();
        machine.run_for(&ANSWERS, &job.single, &mut arrays).await?;
        requests.push(machine.profiler().now() - began);
    }
    // The first request prepares the cases.
    requests.remove(0);
    Ok(Passes { answers, passes, requests, apart, memory: machine.memory() })
}

/// Returns the parameters of a job in the element types of its layers.
fn parameters(machine: &mut Machine, job: &Job) -> Result<Arrays, LearnError> {
    let mut arrays = job.parameters.clone();
    machine.convert(&job.batch, &mut arrays)?;
    Ok(arrays)
}

fn unless_stopped(goes_on: bool) -> Result<(), LearnError> {
    if goes_on { Ok(()) } else { Err(LearnError::Stopped) }
}

/// Answers all items. `goes_on` is called before each batch with the share of the items that are answered.
async fn all_items(
    machine: &mut Machine,
    job: &Job,
    arrays: &mut Arrays,
    mut goes_on: impl AsyncFnMut(f64) -> bool,
) -> Result<Answers, LearnError> {
    let mut answers = Answers::default();
    let all: Vec<usize> = (0..job.items()).collect();
    for batch in all.chunks(BATCH) {
        unless_stopped(goes_on(batch[0] as f64 / all.len() as f64).await)?;
        let mut filled = batch.to_vec();
        filled.resize(BATCH, batch[batch.len() - 1]);
        job.inputs(&filled, arrays);
        machine.run_for(&ANSWERS, &job.batch, arrays).await?;
        let (want, kept) = (BATCH * job.logits, batch.len() * job.logits);
        answers.logits.extend(&whole(arrays, LOGITS, want)?[..kept]);
        if arrays.bytes(PROBABILITIES).is_some() {
            answers.probabilities.extend(&whole(arrays, PROBABILITIES, want)?[..kept]);
        }
    }
    Ok(answers)
}

/// Returns an array of `count` floats.
fn whole(arrays: &Arrays, name: &str, count: usize) -> Result<Vec<f32>, LearnError> {
    let values = arrays.f32(name);
    match values.len() == count {
        true => Ok(values),
        false => Err(LearnError::Array { name: name.to_owned(), got: 4 * values.len(), want: 4 * count }),
    }
}
