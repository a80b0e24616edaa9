//! Scores of a classifier: quality with intervals, speed, and agreement with the processor.

use std::time::Instant;

use parallax_model::classifier::{Classifier, INPUT, LOGITS, PROBABILITIES};
use parallax_model::layers::Arrays;
use parallax_model::quality::{Confusion, QualityError, auc_macro, auc_micro, bootstrap};
use parallax_schema::record::stats::quantile;
use parallax_schema::record::{Better, CheckResult, Score};

use super::machine::Machine;
use super::training::Part;

/// Rows of a batch.
const BATCH: usize = 64;
/// Resamples of an interval.
const ROUNDS: usize = 1000;
/// Passes over all rows for the speed.
const PASSES: usize = 5;
/// Single requests for the latency.
const REQUESTS: usize = 100;

/// Answers of a model.
pub struct Answers {
    /// Logits, row by row.
    pub logits: Vec<f32>,
    /// Probabilities, row by row.
    pub probabilities: Vec<f64>,
    /// Class with the largest logit of each row, the first of several.
    pub predicted: Vec<usize>,
}

/// Returns the answers for all rows, batch by batch. The last batch is filled with zeros.
///
/// # Errors
/// Error of the device.
pub fn answers(
    model: Classifier,
    values: &[f32],
    arrays: &mut Arrays,
    machine: &mut Machine,
) -> anyhow::Result<Answers> {
    let Classifier { features, classes, .. } = model;
    let rows = values.len() / features;
    let layers = model.forward(BATCH);
    let (mut logits, mut probabilities) = (Vec::new(), Vec::new());
    for batch in values.chunks(BATCH * features) {
        let mut batch = batch.to_vec();
        batch.resize(BATCH * features, 0.0);
        arrays.set_f32(INPUT, &batch);
        machine.run(&layers, arrays)?;
        logits.extend(arrays.f32(LOGITS));
        probabilities.extend(arrays.f32(PROBABILITIES).into_iter().map(f64::from));
    }
    logits.truncate(rows * classes);
    probabilities.truncate(rows * classes);
    let largest = |row: &[f32]| (0..classes).rev().max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0);
    let predicted = logits.chunks_exact(classes).map(largest).collect();
    Ok(Answers { logits, probabilities, predicted })
}

/// Area under a curve, of classes, targets and probabilities by row.
type Area = fn(usize, &[usize], &[f64]) -> Result<f64, QualityError>;
/// Measure of some of the rows.
type Measure<'a> = Box<dyn Fn(&[usize]) -> Option<f64> + 'a>;

/// Returns the scores of quality, each with its bootstrap interval. A measure without a value is left out.
pub fn quality(classes: usize, targets: &[usize], answers: &Answers, seed: u64) -> Vec<Score> {
    let matrix = |rows: &[usize]| {
        let [truth, predicted] =
            [targets, &answers.predicted].map(|of| rows.iter().map(|row| of[*row]).collect::<Vec<_>>());
        Confusion::new(classes, &truth, &predicted).ok()
    };
    let area = |rows: &[usize], of: Area| {
        let truth: Vec<usize> = rows.iter().map(|row| targets[*row]).collect();
        let row = |row: &usize| &answers.probabilities[row * classes..][..classes];
        of(classes, &truth, &rows.iter().flat_map(row).copied().collect::<Vec<_>>()).ok()
    };
    let measures: [(&str, Measure<'_>); 7] = [
        ("accuracy", Box::new(|rows| Some(matrix(rows)?.accuracy()))),
        ("AUC macro", Box::new(|rows| area(rows, auc_macro))),
        ("AUC micro", Box::new(|rows| area(rows, auc_micro))),
        ("F1 macro", Box::new(|rows| Some(matrix(rows)?.macro_average().f1))),
        ("F1 weighted", Box::new(|rows| Some(matrix(rows)?.weighted().f1))),
        ("precision macro", Box::new(|rows| Some(matrix(rows)?.macro_average().precision))),
        ("recall macro", Box::new(|rows| Some(matrix(rows)?.macro_average().recall))),
    ];
    let all: Vec<usize> = (0..targets.len()).collect();
    let score = |(name, measure): (&str, Measure<'_>)| {
        let value = measure(&all)?;
        let (low, high) = bootstrap(targets.len(), ROUNDS, seed, &measure)?;
        Some(self::score(name, value, (low, high), Better::Higher, targets.len()))
    };
    measures.into_iter().filter_map(score).collect()
}

fn score(name: &str, value: f64, (low, high): (f64, f64), better: Better, items: usize) -> Score {
    Score { name: name.to_owned(), value, low, high, better, items: items as u64 }
}

/// Returns the scores of speed, on the host clock, from rows in memory to answers in memory.
///
/// They are samples per second in batches, with the slowest and the fastest pass, and the latency of one request.
///
/// # Errors
/// Error of the device.
pub fn speed(
    model: Classifier,
    values: &[f32],
    arrays: &mut Arrays,
    machine: &mut Machine,
    seed: u64,
) -> anyhow::Result<Vec<Score>> {
    let rows = values.len() / model.features;
    let mut rates = Vec::new();
    for _ in 0..PASSES {
        let began = Instant::now();
        answers(model, values, arrays, machine)?;
        rates.push(rows as f64 / began.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    let layers = model.forward(1);
    let mut times = Vec::new();
    // The first request prepares the cases.
    for request in 0..=REQUESTS {
        arrays.set_f32(INPUT, &values[request % rows * model.features..][..model.features]);
        let began = Instant::now();
        machine.run(&layers, arrays)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.remove(0);
    let latency = |share: f64, of: &[usize]| {
        let mut chosen: Vec<f64> = of.iter().map(|request| times[*request]).collect();
        chosen.sort_by(f64::total_cmp);
        quantile(&chosen, share)
    };
    let all: Vec<usize> = (0..REQUESTS).collect();
    let mut scores =
        vec![score("samples/s", rates[PASSES / 2], (rates[0], rates[PASSES - 1]), Better::Higher, rows * PASSES)];
    for (name, share) in [("latency p50, ms", 0.5), ("latency p95, ms", 0.95)] {
        if let Some(interval) = bootstrap(REQUESTS, ROUNDS, seed, |of| Some(latency(share, of))) {
            scores.push(score(name, latency(share, &all), interval, Better::Lower, REQUESTS));
        }
    }
    Ok(scores)
}

/// Largest difference of a logit, over the largest logit or one. A logit is a chain of two sums in f32 of at most some thousand terms
/// in any order, and 2⁻¹⁰ is 2¹⁴ roundings.
const TOLERANCE: f64 = 1.0 / 1024.0;

/// Agreement of answers with those of the processor in f32.
pub struct Agreement {
    /// Comparison of the logits.
    pub check: CheckResult,
    /// Share of equal predictions, and the largest difference of a logit.
    pub scores: Vec<Score>,
    /// Rows with another prediction.
    pub parted: Vec<usize>,
}

/// Compares answers with those of the processor.
pub fn agreement(ours: &Answers, processor: &Answers) -> Agreement {
    let size = processor.logits.iter().fold(1.0f64, |size, logit| size.max(f64::from(*logit).abs()));
    let differences = ours.logits.iter().zip(&processor.logits).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    // A difference that is no number counts as infinite.
    let worst = differences.fold(0.0, |worst, d| if d.is_nan() { f64::INFINITY } else { f64::max(worst, d) });
    let bound = TOLERANCE * size;
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
        score("equal predictions", share, (share, share), Better::Higher, rows),
        score("logit difference", check.worst_error, (check.worst_error, check.worst_error), Better::Lower, rows),
    ];
    Agreement { check, scores, parted }
}

/// Returns lines about the classes: the baseline, precision, recall and F1 of each class, and the confusion matrix of few classes.
///
/// # Errors
/// No rows.
pub fn about_classes(names: &[String], part: &Part, answers: &Answers) -> Result<Vec<String>, QualityError> {
    let k = names.len();
    let matrix = Confusion::new(k, &part.targets, &answers.predicted)?;
    let (most, share) = matrix.majority();
    let constant: Vec<f64> = (0..part.targets.len() * k).map(|at| f64::from(u8::from(at % k == most))).collect();
    let area = |of: Result<f64, QualityError>| of.map_or("none".to_owned(), |area| format!("{area:.4}"));
    let mut lines = vec![format!(
        "baseline `{}` always: accuracy {share:.4}, AUC macro {}, AUC micro {}",
        names[most],
        area(auc_macro(k, &part.targets, &constant)),
        area(auc_micro(k, &part.targets, &constant)),
    )];
    let shown = |name: &str| parallax_report::escape(&name.chars().take(20).collect::<String>()).into_owned();
    lines.push(format!("{:>20} {:>9} {:>7} {:>7} {:>6}", "class", "precision", "recall", "F1", "items"));
    for (name, rates) in names.iter().zip(matrix.per_class()) {
        let (precision, recall, f1, items) = (rates.precision, rates.recall, rates.f1, rates.support);
        lines.push(format!("{:>20} {precision:>9.4} {recall:>7.4} {f1:>7.4} {items:>6}", shown(name)));
    }
    if k <= 12 {
        lines.push("confusion matrix, a row per true class:".to_owned());
        for (truth, name) in names.iter().enumerate() {
            let counts = (0..k).map(|predicted| format!("{:>5}", matrix.count(truth, predicted))).collect::<String>();
            lines.push(format!("{:>20} {counts}", shown(name)));
        }
    }
    Ok(lines)
}
