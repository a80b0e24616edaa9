//! Answers of a network, their speed, and their agreement with the processor's.

use parallax_learn::{PASSES, Passes, REQUESTS};
use parallax_model::examples::Examples;
use parallax_model::network::Network;
use parallax_model::quality::bootstrap;
use parallax_schema::case::DType;
use parallax_schema::record::stats::quantile;
use parallax_schema::record::{Better, CheckResult, Score, of_networks};

/// Resamples of an interval.
pub const ROUNDS: usize = 1000;

/// Answers of a network.
pub struct Answers {
    /// Logits, row by row.
    pub logits: Vec<f32>,
    /// Probabilities, row by row; empty if the network has none.
    pub probabilities: Vec<f64>,
    /// Class with the largest logit of each row, the first of several.
    pub predicted: Vec<usize>,
}

impl Answers {
    /// Returns the answers of a network with their predictions.
    pub fn new(answers: &parallax_learn::Answers, classes: usize) -> Answers {
        let largest = |row: &[f32]| (0..classes).rev().max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0);
        Answers {
            predicted: answers.logits.chunks_exact(classes).map(largest).collect(),
            logits: answers.logits.clone(),
            probabilities: answers.probabilities.iter().copied().map(f64::from).collect(),
        }
    }

    /// Returns the answers of some rows.
    pub fn some(&self, rows: &[usize]) -> Answers {
        let classes = self.logits.len() / self.predicted.len().max(1);
        let part = |row: &usize| row * classes..(row + 1) * classes;
        Answers {
            logits: rows.iter().flat_map(|row| &self.logits[part(row)]).copied().collect(),
            probabilities: rows.iter().filter_map(|row| self.probabilities.get(part(row))).flatten().copied().collect(),
            predicted: rows.iter().map(|row| self.predicted[*row]).collect(),
        }
    }
}

/// Network with items to answer.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The network.
    pub network: &'a dyn Network,
    /// The items.
    pub items: &'a dyn Examples,
}

/// Returns the scores of speed, on the host clock, from inputs in memory to answers in memory. `rate` has the name of the rate and the
/// count of a pass.
///
/// They are the rate in batches, with the slowest and the fastest pass, and the latency of one request.
pub fn speed((rate, count): (&str, usize), passes: &Passes, seed: u64) -> Vec<Score> {
    let mut rates: Vec<f64> = passes.passes.iter().map(|time| count as f64 / time.secs()).collect();
    rates.sort_by(f64::total_cmp);
    let times: Vec<f64> = passes.requests.iter().map(|time| time.0 / 1e6).collect();
    let latency = |share: f64, of: &[usize]| {
        let mut chosen: Vec<f64> = of.iter().map(|request| times[*request]).collect();
        chosen.sort_by(f64::total_cmp);
        quantile(&chosen, share)
    };
    let all: Vec<usize> = (0..REQUESTS).collect();
    let mut scores =
        vec![score(rate, rates[PASSES / 2], (rates[0], rates[PASSES - 1]), Better::Higher, count * PASSES)];
    for (name, share) in [(of_networks::LATENCY_P50, 0.5), (of_networks::LATENCY_P95, 0.95)] {
        if let Some(interval) = bootstrap(REQUESTS, ROUNDS, seed, |of| Some(latency(share, of))) {
            scores.push(score(name, latency(share, &all), interval, Better::Lower, REQUESTS));
        }
    }
    scores
}

/// Measure of some of the items; none where it has no value.
pub type Measure<'a> = Box<dyn Fn(&[usize]) -> Option<f64> + 'a>;

/// Returns the scores of measures over `items` items, each with its bootstrap interval. A measure without a value is left out.
pub fn measured<'a>(items: usize, seed: u64, measures: impl IntoIterator<Item = (String, Measure<'a>)>) -> Vec<Score> {
    let all: Vec<usize> = (0..items).collect();
    let score = |(name, measure): (String, Measure<'_>)| {
        let value = measure(&all)?;
        let interval = bootstrap(items, ROUNDS, seed, &measure)?;
        Some(self::score(&name, value, interval, Better::Higher, items))
    };
    measures.into_iter().filter_map(score).collect()
}

fn score(name: &str, value: f64, (low, high): (f64, f64), better: Better, items: usize) -> Score {
    Score { name: name.to_owned(), value, low, high, better, items: items as u64 }
}

/// Largest difference of a logit, over the largest logit or one.
///
/// In f32 a logit is a chain of a few sums of at most some thousand terms in any order: 2¹⁴ roundings. In f16 and bf16 sums stay in f32,
/// and the arrays between stages are rounded. The deepest network has 16 of them, whose roundings may add up.
fn tolerance(dtype: DType) -> f64 {
    let roundings = match dtype {
        DType::F32 => 16384.0,
        DType::F16 | DType::BF16 => 16.0,
    };
    roundings * dtype.unit_roundoff()
}

/// Agreement of answers with those of the processor in f32.
pub struct Agreement {
    /// Comparison of the logits.
    pub check: CheckResult,
    /// Share of equal predictions, and the largest difference of a logit.
    pub scores: Vec<Score>,
    /// Rows with another prediction.
    pub parted: Vec<usize>,
}

/// Compares answers in an element type with those of the processor in f32.
pub fn agreement(ours: &Answers, processor: &Answers, dtype: DType) -> Agreement {
    let size = processor.logits.iter().fold(1.0f64, |size, logit| size.max(f64::from(*logit).abs()));
    let differences = ours.logits.iter().zip(&processor.logits).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    // A difference that is no number counts as infinite.
    let worst = differences.fold(0.0, |worst, d| if d.is_nan() { f64::INFINITY } else { f64::max(worst, d) });
    let bound = tolerance(dtype) * size;
    let rows = ours.predicted.len();
    let parted: Vec<usize> = (0..rows).filter(|row| ours.predicted[*row] != processor.predicted[*row]).collect();
    let share = (rows - parted.len()) as f64 / rows as f64;
    let elements = ours.logits.len() as u64;
    let check = CheckResult {
        errors: None,
        passed: worst <= bound,
        compared: elements,
        elements,
        worst_error: worst.min(f64::MAX),
        bound,
        worst_ratio: (worst / bound).min(f64::MAX),
        mismatch: None,
        repeatable: None,
        loops_end_after: None,
    };
    let scores = vec![
        score(of_networks::EQUAL, share, (share, share), Better::Higher, rows),
        score(
            of_networks::LOGIT_DIFFERENCE,
            check.worst_error,
            (check.worst_error, check.worst_error),
            Better::Lower,
            rows,
        ),
    ];
    Agreement { check, scores, parted }
}
