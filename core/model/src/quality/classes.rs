//! Measures of classes: accuracy, precision, recall, F1 and the confusion matrix.

use super::QualityError;

/// Confusion matrix: counts of items by true and predicted class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}

/// Precision, recall and F1. A quotient with a zero denominator is zero, as in scikit-learn with `zero_division=0`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Share of the predicted items that are right.
    pub precision: f64,
    /// Share of the true items that are found.
    pub recall: f64,
    /// Harmonic mean of both.
    pub f1: f64,
    /// Number of true items.
    pub support: u64,
}

impl Rates {
    /// Returns the rates of counts: right predictions, all predictions, all true items.
    pub fn of_counts(right: u64, predicted: u64, truth: u64) -> Rates {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        Rates {
            precision: share(right, predicted),
            recall: share(right, truth),
            f1: share(2 * right, predicted + truth),
            support: truth,
        }
    }

    /// Returns the mean of rates, each by a weight; zero if all weights are zero.
    pub fn mean(rates: &[Rates], weight: impl Fn(&Rates) -> f64) -> Rates {
        let total: f64 = rates.iter().map(&weight).sum();
        let mean = |of: fn(&Rates) -> f64| match total > 0.0 {
            true => rates.iter().map(|rates| weight(rates) * of(rates)).sum::<f64>() / total,
            false => 0.0,
        };
        Rates {
            precision: mean(|rates| rates.precision),
            recall: mean(|rates| rates.recall),
            f1: mean(|rates| rates.f1),
            support: rates.iter().map(|rates| rates.support).sum(),
        }
    }
}

impl Confusion {
    /// Returns the confusion matrix of classes `0..classes`.
    ///
    /// # Errors
    /// No items, lists of different lengths, or a class that does not exist.
    pub fn new(classes: usize, truth: &[usize], predicted: &[usize]) -> Result<Confusion, QualityError> {
        if truth.len() != predicted.len() {
            return Err(QualityError::Lengths { truth: truth.len(), predicted: predicted.len() });
        }
        if truth.is_empty() {
            return Err(QualityError::Empty);
        }
        let mut counts = vec![0; classes * classes];
        for (item, (truth, predicted)) in truth.iter().zip(predicted).enumerate() {
            if let Some(class) = [*truth, *predicted].into_iter().find(|class| *class >= classes) {
                return Err(QualityError::Class { item, class, classes });
            }
            counts[truth * classes + predicted] += 1;
        }
        Ok(Confusion { classes, counts })
    }

    /// Returns the number of items of class `truth` that are predicted as class `predicted`.
    pub fn count(&self, truth: usize, predicted: usize) -> u64 {
        self.counts[truth * self.classes + predicted]
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the number of items.
    pub fn items(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn right(&self) -> u64 {
        (0..self.classes).map(|class| self.count(class, class)).sum()
    }

    fn support(&self, class: usize) -> u64 {
        (0..self.classes).map(|predicted| self.count(class, predicted)).sum()
    }

    /// Returns the share of items with the right class.
    pub fn accuracy(&self) -> f64 {
        self.right() as f64 / self.items() as f64
    }

    /// Returns the rates of each class.
    pub fn per_class(&self) -> Vec<Rates> {
        let of_class = |class: usize| {
            let predicted = (0..self.classes).map(|truth| self.count(truth, class)).sum();
            Rates::of_counts(self.count(class, class), predicted, self.support(class))
        };
        (0..self.classes).map(of_class).collect()
    }

    /// Returns the mean over classes.
    pub fn macro_average(&self) -> Rates {
        Rates::mean(&self.per_class(), |_| 1.0)
    }

    /// Returns the mean over classes, weighted by their true items.
    pub fn weighted(&self) -> Rates {
        Rates::mean(&self.per_class(), |rates| rates.support as f64)
    }

    /// Returns the rates of all items together. With one class an item, each equals the accuracy.
    pub fn micro(&self) -> Rates {
        Rates::of_counts(self.right(), self.items(), self.items())
    }

    /// Returns the most frequent true class, the first of several, and its share: the accuracy of predicting it always.
    pub fn majority(&self) -> (usize, f64) {
        let most = (0..self.classes).rev().max_by_key(|class| self.support(*class)).unwrap_or(0);
        (most, self.support(most) as f64 / self.items() as f64)
    }
}
