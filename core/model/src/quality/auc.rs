//! Area under the receiver operating characteristic, from ranks.

use super::QualityError;

/// Returns the area under the curve: the probability that a true item has a higher score than another. A tie counts one half.
///
/// # Errors
/// Lists of different lengths, a score that is not a number, or items of one kind alone.
pub fn auc(truth: &[bool], scores: &[f64]) -> Result<f64, QualityError> {
    if truth.len() != scores.len() {
        return Err(QualityError::Lengths { truth: truth.len(), predicted: scores.len() });
    }
    if let Some(item) = scores.iter().position(|score| score.is_nan()) {
        return Err(QualityError::NotANumber(item));
    }
    let positive = truth.iter().filter(|truth| **truth).count() as f64;
    let negative = truth.len() as f64 - positive;
    if positive == 0.0 || negative == 0.0 {
        return Err(QualityError::OneClass(1));
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let mut ranks = 0.0;
    let mut first = 0;
    // Zeros of either sign are one tie.
    for tie in order.chunk_by(|a, b| scores[*a] == scores[*b]) {
        let rank = first as f64 + (tie.len() as f64 + 1.0) / 2.0;
        ranks += rank * tie.iter().filter(|item| truth[**item]).count() as f64;
        first += tie.len();
    }
    Ok((ranks - positive * (positive + 1.0) / 2.0) / (positive * negative))
}

/// Checks the extents of scores `[items, classes]`.
fn checked(classes: usize, truth: &[usize], scores: &[f64]) -> Result<(), QualityError> {
    if truth.is_empty() {
        return Err(QualityError::Empty);
    }
    if truth.len() * classes != scores.len() {
        return Err(QualityError::Lengths { truth: truth.len(), predicted: scores.len() / classes.max(1) });
    }
    match truth.iter().enumerate().find(|(_, class)| **class >= classes) {
        Some((item, class)) => Err(QualityError::Class { item, class: *class, classes }),
        None => Ok(()),
    }
}

/// Returns the mean over classes of the area of each class against all others. Scores are `[items, classes]`.
///
/// # Errors
/// Those of [`auc`], and a class that no item has.
pub fn auc_macro(classes: usize, truth: &[usize], scores: &[f64]) -> Result<f64, QualityError> {
    checked(classes, truth, scores)?;
    let of_class = |class: usize| {
        let is: Vec<bool> = truth.iter().map(|truth| *truth == class).collect();
        let column: Vec<f64> = scores.chunks_exact(classes).map(|row| row[class]).collect();
        auc(&is, &column).map_err(|error| match error {
            QualityError::OneClass(_) => QualityError::OneClass(class),
            other => other,
        })
    };
    Ok((0..classes).map(of_class).sum::<Result<f64, _>>()? / classes as f64)
}

/// Returns the area of all pairs of item and class together. Scores are `[items, classes]`.
///
/// # Errors
/// Those of [`auc`].
pub fn auc_micro(classes: usize, truth: &[usize], scores: &[f64]) -> Result<f64, QualityError> {
    checked(classes, truth, scores)?;
    let is: Vec<bool> = truth.iter().flat_map(|truth| (0..classes).map(move |class| *truth == class)).collect();
    auc(&is, scores)
}
