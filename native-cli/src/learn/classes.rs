//! Classes of labelled rows, and quality of predicted ones.

use std::collections::BTreeSet;

use anyhow::Context;
use parallax_model::data::{DataError, MOST_CLASSES};
use parallax_model::quality::{Confusion, QualityError, auc_macro, auc_micro};
use parallax_schema::record::Score;

use super::evaluation::{Quality, short};
use super::scoring::{Answers, Measure, measured};

/// Returns the classes of labels, in order of their names.
///
/// # Errors
/// A single class, or too many.
pub fn classes(data: &str, labels: &[String]) -> anyhow::Result<Vec<String>> {
    let classes: BTreeSet<&String> = labels.iter().collect();
    match classes.len() {
        2..=MOST_CLASSES => Ok(classes.into_iter().cloned().collect()),
        count => Err(DataError::Classes(count)).with_context(|| data.to_owned()),
    }
}

/// Returns the class of each label.
///
/// # Errors
/// Label that is no class.
pub fn targets(data: &str, labels: &[String], classes: &[String]) -> anyhow::Result<Vec<usize>> {
    let class = |label: &String| {
        let known = || format!("{data}: the model has no label `{label}`; its labels are {}", classes.join(", "));
        classes.iter().position(|class| class == label).with_context(known)
    };
    labels.iter().map(class).collect()
}

/// Area under a curve, of classes, targets and probabilities by row.
type Area = fn(usize, &[usize], &[f64]) -> Result<f64, QualityError>;

/// Returns the quality of the answers about rows of classes.
///
/// # Errors
/// No rows.
pub fn quality(names: &[String], targets: &[usize], answers: &Answers, seed: u64) -> anyhow::Result<Quality> {
    let scores = scores(names.len(), targets, answers, seed);
    Ok(Quality { scores, lines: about_classes(names, targets, answers)? })
}

/// Returns the scores of quality, each with its bootstrap interval. A measure without a value is left out.
fn scores(classes: usize, targets: &[usize], answers: &Answers, seed: u64) -> Vec<Score> {
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
    measured(targets.len(), seed, measures.map(|(name, measure)| (name.to_owned(), measure)))
}

/// Returns lines about the classes: the baseline, precision, recall and F1 of each class, and the confusion matrix of few classes.
///
/// # Errors
/// No rows.
fn about_classes(names: &[String], targets: &[usize], answers: &Answers) -> Result<Vec<String>, QualityError> {
    let k = names.len();
    let matrix = Confusion::new(k, targets, &answers.predicted)?;
    let (most, share) = matrix.majority();
    let constant: Vec<f64> = (0..targets.len() * k).map(|at| f64::from(u8::from(at % k == most))).collect();
    let area = |of: Result<f64, QualityError>| of.map_or("none".to_owned(), |area| format!("{area:.4}"));
    let mut lines = vec![format!(
        "baseline `{}` always: accuracy {share:.4}, AUC macro {}, AUC micro {}",
        names[most],
        area(auc_macro(k, targets, &constant)),
        area(auc_micro(k, targets, &constant)),
    )];
    lines.push(format!("{:>20} {:>9} {:>7} {:>7} {:>6}", "class", "precision", "recall", "F1", "items"));
    for (name, rates) in names.iter().zip(matrix.per_class()) {
        let (precision, recall, f1, items) = (rates.precision, rates.recall, rates.f1, rates.support);
        lines.push(format!("{:>20} {precision:>9.4} {recall:>7.4} {f1:>7.4} {items:>6}", short(name)));
    }
    if k <= 12 {
        lines.push("confusion matrix, a row per true class:".to_owned());
        for (truth, name) in names.iter().enumerate() {
            let counts = (0..k).map(|predicted| format!("{:>5}", matrix.count(truth, predicted))).collect::<String>();
            lines.push(format!("{:>20} {counts}", short(name)));
        }
    }
    Ok(lines)
}
