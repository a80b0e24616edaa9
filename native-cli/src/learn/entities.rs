//! Quality of predicted entities.

use parallax_model::quality::{Counts, Entity, EntityScores, Match, Rates};
use parallax_schema::record::Score;

use super::evaluation::short;
use super::scoring::{Measure, measured};

/// Counts of each note by type.
type Table = Vec<Vec<Counts>>;

/// Rate of the counts of all types.
type RateOf = fn(&[Counts]) -> f64;

/// Both conditions, with their names.
const MATCHES: [(&str, Match); 2] = [("strict", Match::Strict), ("relaxed", Match::Relaxed)];

/// Counts the entities of each note, strictly or relaxed.
fn counted(types: &[String], truth: &[&[Entity]], predicted: &[Vec<Entity>], by: Match) -> Table {
    let of_note = |(truth, predicted): (&&[Entity], &Vec<Entity>)| {
        let scores = EntityScores::new([(*truth, &predicted[..])], by);
        types.iter().map(|label| scores.0.get(label).copied().unwrap_or_default()).collect()
    };
    truth.iter().zip(predicted).map(of_note).collect()
}

/// Sums the counts of some notes, by type.
fn sums(table: &Table, types: usize, notes: &[usize]) -> Vec<Counts> {
    let mut sums = vec![Counts::default(); types];
    for note in notes {
        sums.iter_mut().zip(&table[*note]).for_each(|(sum, counts)| sum.add(counts));
    }
    sums
}

/// Rates over all types together.
fn micro(sums: &[Counts]) -> Rates {
    let mut all = Counts::default();
    sums.iter().for_each(|counts| all.add(counts));
    all.rates()
}

/// Mean of the rates of all types that are true or predicted.
fn macro_average(sums: &[Counts]) -> Rates {
    let there = sums.iter().filter(|counts| counts.truth + counts.predicted > 0);
    Rates::mean(&there.map(Counts::rates).collect::<Vec<_>>(), |_| 1.0)
}

/// Quality of the entities of notes, by note and type.
pub struct Found<'a> {
    types: &'a [String],
    tables: [(&'static str, Table); 2],
}

impl<'a> Found<'a> {
    /// Counts the entities of notes, each with its true and its predicted ones.
    pub fn new(types: &'a [String], truth: &[&[Entity]], predicted: &[Vec<Entity>]) -> Found<'a> {
        Found { types, tables: MATCHES.map(|(name, by)| (name, counted(types, truth, predicted, by))) }
    }

    /// Returns the scores, each with its bootstrap interval over notes: strict and relaxed, micro and macro, and strict F1 of each
    /// type.
    pub fn scores(&self, seed: u64) -> Vec<Score> {
        let count = self.types.len();
        let mut measures: Vec<(String, Measure<'_>)> = Vec::new();
        for (name, table) in &self.tables {
            let rates: [(&str, RateOf); 6] = [
                ("F1 micro", |sums| micro(sums).f1),
                ("precision micro", |sums| micro(sums).precision),
                ("recall micro", |sums| micro(sums).recall),
                ("F1 macro", |sums| macro_average(sums).f1),
                ("precision macro", |sums| macro_average(sums).precision),
                ("recall macro", |sums| macro_average(sums).recall),
            ];
            for (rate, of) in rates {
                measures.push((format!("{name} {rate}"), Box::new(move |notes| Some(of(&sums(table, count, notes))))));
            }
        }
        let strict = &self.tables[0].1;
        for (at, label) in self.types.iter().enumerate() {
            let of_type = move |notes: &[usize]| Some(sums(strict, count, notes)[at].rates().f1);
            measures.push((format!("strict F1 {}", short(label)), Box::new(of_type)));
        }
        measured(strict.len(), seed, measures)
    }

    /// Returns lines about the types: precision, recall and F1 of each, strict and relaxed.
    pub fn lines(&self) -> Vec<String> {
        let all: Vec<usize> = (0..self.tables[0].1.len()).collect();
        let mut lines = Vec::new();
        for (name, table) in &self.tables {
            lines.push(format!("{name:>20} {:>9} {:>7} {:>7} {:>6}", "precision", "recall", "F1", "items"));
            for (label, counts) in self.types.iter().zip(sums(table, self.types.len(), &all)) {
                let Rates { precision, recall, f1, support } = counts.rates();
                lines.push(format!("{:>20} {precision:>9.4} {recall:>7.4} {f1:>7.4} {support:>6}", short(label)));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_all_notes_are_the_scores_of_the_documents() {
        let entity = |start, end, label: &str| Entity { start, end, label: label.to_owned() };
        let types = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let truth = [vec![entity(0, 2, "a"), entity(3, 5, "b")], vec![entity(0, 1, "a")], Vec::new()];
        let predicted = [vec![entity(0, 1, "a"), entity(3, 5, "b")], vec![entity(0, 1, "b")], vec![entity(2, 4, "a")]];
        let truth: Vec<&[Entity]> = truth.iter().map(Vec::as_slice).collect();
        let found = Found::new(&types, &truth, &predicted);
        for ((name, table), (_, by)) in found.tables.iter().zip(MATCHES) {
            let documents = truth.iter().zip(&predicted).map(|(truth, predicted)| (*truth, &predicted[..]));
            let want = EntityScores::new(documents, by);
            let sums = sums(table, 3, &[0, 1, 2]);
            assert_eq!((micro(&sums), macro_average(&sums)), (want.micro(), want.macro_average()), "{name}");
        }
        assert_eq!(found.scores(1).len(), 15);
    }
}
