//! Measures of entities: spans with a type, of characters or of tokens.

use std::collections::BTreeMap;

use super::{QualityError, Rates};

/// Entity of a document: `start..end` in characters or tokens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity {
    /// First position.
    pub start: usize,
    /// Position after the last.
    pub end: usize,
    /// Type.
    pub label: String,
}

/// Condition for a predicted entity to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Equal type and equal ends.
    Strict,
    /// Equal type and at least one common position.
    Relaxed,
}

/// Counts of the entities of one type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Predicted entities that match a true one.
    pub right: u64,
    /// Predicted entities.
    pub predicted: u64,
    /// True entities that match a predicted one.
    pub found: u64,
    /// True entities.
    pub truth: u64,
}

impl Counts {
    /// Returns precision, recall and F1. A zero denominator gives zero.
    pub fn rates(&self) -> Rates {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let (precision, recall) = (share(self.right, self.predicted), share(self.found, self.truth));
        let sum = precision + recall;
        let f1 = if sum == 0.0 { 0.0 } else { 2.0 * precision * recall / sum };
        Rates { precision, recall, f1, support: self.truth }
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Counts) {
        self.right += other.right;
        self.predicted += other.predicted;
        self.found += other.found;
        self.truth += other.truth;
    }
}

/// Counts of entities by type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityScores(pub BTreeMap<String, Counts>);

impl EntityScores {
    /// Counts the entities of documents, each with its true and its predicted entities. Duplicates count once.
    pub fn new<'e>(documents: impl IntoIterator<Item = (&'e [Entity], &'e [Entity])>, by: Match) -> EntityScores {
        let mut all = EntityScores::default();
        for (truth, predicted) in documents {
            let distinct = |of: &'e [Entity]| {
                let mut of: Vec<&Entity> = of.iter().collect();
                of.sort_unstable();
                of.dedup();
                of
            };
            let (truth, predicted) = (distinct(truth), distinct(predicted));
            for entity in &predicted {
                let counts = all.0.entry(entity.label.clone()).or_default();
                counts.predicted += 1;
                counts.right += u64::from(truth.iter().any(|other| matches(entity, other, by)));
            }
            for entity in &truth {
                let counts = all.0.entry(entity.label.clone()).or_default();
                counts.truth += 1;
                counts.found += u64::from(predicted.iter().any(|other| matches(entity, other, by)));
            }
        }
        all
    }

    /// Returns the rates over all types together.
    pub fn micro(&self) -> Rates {
        let mut sum = Counts::default();
        self.0.values().for_each(|counts| sum.add(counts));
        sum.rates()
    }

    /// Returns the mean of the rates of all types that are true or predicted.
    pub fn macro_average(&self) -> Rates {
        let rates: Vec<Rates> = self.0.values().map(Counts::rates).collect();
        Rates::mean(&rates, |_| 1.0)
    }
}

fn matches(a: &Entity, b: &Entity, by: Match) -> bool {
    match by {
        Match::Strict => a == b,
        Match::Relaxed => a.label == b.label && a.start.max(b.start) < a.end.min(b.end),
    }
}

/// Returns the entities of BIO tags, one tag a token. As in conlleval, `I-TYPE` after `O` or after another type begins an entity.
///
/// # Errors
/// Tag of another form.
pub fn entities_of_tags<T: AsRef<str>>(tags: &[T]) -> Result<Vec<Entity>, QualityError> {
    let mut entities: Vec<Entity> = Vec::new();
    // Whether the previous tag belongs to the last entity.
    let mut open = false;
    for (index, tag) in tags.iter().map(AsRef::as_ref).enumerate() {
        let (begins, label) = match tag.split_once('-') {
            None if tag == "O" => {
                open = false;
                continue;
            }
            Some(("B", label)) if !label.is_empty() => (true, label),
            Some(("I", label)) if !label.is_empty() => (false, label),
            _ => return Err(QualityError::Tag { index, tag: tag.to_owned() }),
        };
        match entities.last_mut().filter(|last| open && !begins && last.label == label) {
            Some(last) => last.end = index + 1,
            None => entities.push(Entity { start: index, end: index + 1, label: label.to_owned() }),
        }
        open = true;
    }
    Ok(entities)
}
