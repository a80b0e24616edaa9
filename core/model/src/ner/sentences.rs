//! Windows of tokens with their tags: inputs of a tagger, and entities from its answers.

use std::ops::Range;

use parallax_ir::{Draw, splitmix64};
use parallax_schema::case::Storage;
use parallax_schema::record::of_networks;

use super::tokens::{PADDING, POSITION, Token, UNKNOWN, features, tokens};
use super::{FEATURES, LENGTH, TABLES};
use crate::data::Note;
use crate::examples::Examples;
use crate::layers::Arrays;
use crate::network::{LOSS_WEIGHTS, TARGETS};
use crate::quality::{Entity, entities_of_tags};

/// Share of the features that a training step leaves out. The others then learn to do without them, as with unknown words.
const LEFT_OUT: f64 = 0.3;
/// Tag of a token without an entity.
const OUTSIDE: u32 = 0;

/// Notes as windows of tokens.
#[derive(Debug, Clone)]
pub struct Sentences {
    /// Tags: `O`, then `B-TYPE` and `I-TYPE` of each type.
    tags: Vec<String>,
    notes: Vec<Vec<Token>>,
    windows: Vec<Window>,
    misaligned: usize,
}

#[derive(Debug, Clone)]
struct Window {
    note: usize,
    tokens: Range<usize>,
    /// Rows of the features, `[LENGTH, TABLES]`.
    features: Vec<u32>,
    tags: Vec<u32>,
}

impl Sentences {
    /// Returns the windows of notes, for tables of `rows` rows. `types` are those of the model; entities of others get no tag.
    pub fn new(notes: &[&Note], types: &[String], rows: usize) -> Sentences {
        let of_type = |label: &String| [format!("B-{label}"), format!("I-{label}")];
        let tags = std::iter::once("O".to_owned()).chain(types.iter().flat_map(of_type)).collect();
        let mut all = Sentences { tags, notes: Vec::new(), windows: Vec::new(), misaligned: 0 };
        for (note, index) in notes.iter().zip(0..) {
            let tokens = tokens(&note.text);
            let (tags, misaligned) = tags_of(&tokens, &note.entities, types);
            all.misaligned += misaligned;
            for range in ranges(&tokens) {
                let mut rows_of: Vec<u32> = Vec::with_capacity(LENGTH * TABLES);
                for (at, position) in range.clone().zip(1..) {
                    let mut row = features(&tokens, at, rows);
                    row[POSITION] = position;
                    rows_of.extend(row);
                }
                rows_of.resize(LENGTH * TABLES, PADDING);
                let mut of_window = tags[range.clone()].to_vec();
                of_window.resize(LENGTH, OUTSIDE);
                all.windows.push(Window { note: index, tokens: range, features: rows_of, tags: of_window });
            }
            all.notes.push(tokens);
        }
        all
    }

    /// Number of entities that begin or end within a token. Their tags have other ends than they.
    pub fn misaligned(&self) -> usize {
        self.misaligned
    }

    /// Number of notes.
    pub fn notes(&self) -> usize {
        self.notes.len()
    }

    /// Returns whether a token has each row of each table of `rows` rows, `[TABLES, rows]`. Padding and left-out features count.
    pub fn seen(&self, rows: usize) -> Vec<bool> {
        let mut seen = vec![false; TABLES * rows];
        for table in seen.chunks_exact_mut(rows) {
            [PADDING, UNKNOWN].into_iter().for_each(|row| table[row as usize] = true);
        }
        for token in self.windows.iter().flat_map(|window| window.features.chunks_exact(TABLES)) {
            token.iter().enumerate().for_each(|(table, row)| seen[table * rows + *row as usize] = true);
        }
        seen
    }

    /// Returns the rows of logits of all windows that are of tokens.
    pub fn of_tokens(&self) -> Vec<usize> {
        let windows = self.windows.iter().enumerate();
        windows.flat_map(|(at, window)| at * LENGTH..at * LENGTH + window.tokens.len()).collect()
    }

    /// Returns the true tags of all rows that are of tokens.
    pub fn truth(&self) -> Vec<usize> {
        let tags = self.windows.iter().flat_map(|window| &window.tags[..window.tokens.len()]);
        tags.map(|tag| *tag as usize).collect()
    }

    /// Returns the entities of each note by the tags of all rows that are of tokens. Adjacent windows of a note are one list of tags.
    pub fn entities(&self, predicted: &[usize]) -> Vec<Vec<Entity>> {
        let mut tags: Vec<Vec<&str>> = vec![Vec::new(); self.notes.len()];
        let mut rows = predicted.iter();
        for window in &self.windows {
            tags[window.note].extend(rows.by_ref().take(window.tokens.len()).map(|tag| &*self.tags[*tag]));
        }
        let in_characters = |(tags, tokens): (Vec<&str>, &Vec<Token>)| {
            let of_tokens = entities_of_tags(&tags).expect("tags of this model");
            let span = |e: Entity| Entity { start: tokens[e.start].start, end: tokens[e.end - 1].end, label: e.label };
            of_tokens.into_iter().map(span).collect()
        };
        tags.into_iter().zip(&self.notes).map(in_characters).collect()
    }
}

/// Returns the tag of each token, and the number of entities with an end within a token.
fn tags_of(tokens: &[Token], entities: &[Entity], types: &[String]) -> (Vec<u32>, usize) {
    let (mut tags, mut misaligned) = (vec![OUTSIDE; tokens.len()], 0);
    for entity in entities {
        let Some(which) = types.iter().position(|label| *label == entity.label) else { continue };
        let of_entity: Vec<usize> =
            (0..tokens.len()).filter(|at| tokens[*at].start < entity.end && tokens[*at].end > entity.start).collect();
        let aligned = of_entity.first().is_some_and(|at| tokens[*at].start == entity.start)
            && of_entity.last().is_some_and(|at| tokens[*at].end == entity.end);
        misaligned += usize::from(!aligned);
        for at in &of_entity {
            tags[*at] = 2 * which as u32 + if Some(at) == of_entity.first() { 1 } else { 2 };
        }
    }
    (tags, misaligned)
}

/// Returns the windows of a note's tokens: each ends after the last full stop of its second half, or is full.
fn ranges(tokens: &[Token]) -> Vec<Range<usize>> {
    let (mut all, mut first) = (Vec::new(), 0);
    while first < tokens.len() {
        let most = (first + LENGTH).min(tokens.len());
        let stop = |at: &usize| matches!(&*tokens[*at].text, "." | ";" | "!" | "?");
        let end = match most == tokens.len() {
            true => most,
            false => (first + LENGTH / 2..most).rfind(stop).map_or(most, |at| at + 1),
        };
        all.push(first..end);
        first = end;
    }
    all
}

impl Examples for Sentences {
    fn len(&self) -> usize {
        self.windows.len()
    }

    fn input(&self) -> (&'static str, Storage) {
        (FEATURES, Storage::U32)
    }

    fn inputs(&self, items: &[usize], arrays: &mut Arrays) {
        let features: Vec<u32> = items.iter().flat_map(|item| &self.windows[*item].features).copied().collect();
        arrays.set_u32(FEATURES, &features);
    }

    fn batch(&self, items: &[usize], seed: u64, arrays: &mut Arrays) {
        let mut rows: Vec<u32> = items.iter().flat_map(|item| &self.windows[*item].features).copied().collect();
        let stream = splitmix64(seed);
        for (token, index) in rows.chunks_exact_mut(TABLES).zip(0..) {
            for (row, place) in token[..POSITION].iter_mut().zip(0..) {
                let draw = Draw::new(stream, index * TABLES as u64 + place);
                if *row != PADDING && draw.uniform() < LEFT_OUT {
                    *row = UNKNOWN;
                }
            }
        }
        arrays.set_u32(FEATURES, &rows);
        arrays.set_u32(TARGETS, &items.iter().flat_map(|item| &self.windows[*item].tags).copied().collect::<Vec<_>>());
        let tokens: usize = items.iter().map(|item| self.windows[*item].tokens.len()).sum();
        // The mean of all rows is then the mean of the tokens.
        let weight = (items.len() * LENGTH) as f32 / tokens as f32;
        let of_window = |item: &usize| {
            let count = self.windows[*item].tokens.len();
            (0..LENGTH).map(move |at| if at < count { weight } else { 0.0 })
        };
        arrays.set_f32(LOSS_WEIGHTS, &items.iter().flat_map(of_window).collect::<Vec<_>>());
    }

    fn bytes(&self) -> usize {
        4 * LENGTH * TABLES
    }

    fn rate(&self) -> (&'static str, usize) {
        (of_networks::TOKENS, self.windows.iter().map(|window| window.tokens.len()).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str, entities: &[(usize, usize, &str)]) -> Note {
        let entity = |(start, end, label): &(usize, usize, &str)| Entity {
            start: *start,
            end: *end,
            label: (*label).to_owned(),
        };
        Note { text: text.to_owned(), entities: entities.iter().map(entity).collect(), held_out: None }
    }

    fn sentences(notes: &[Note]) -> Sentences {
        Sentences::new(&notes.iter().collect::<Vec<_>>(), &["DOSE".to_owned(), "DRUG".to_owned()], 64)
    }

    #[test]
    fn true_tags_give_the_entities_back() {
        let long = "Wert µ 12 mg. ".repeat(20);
        let notes = [
            note("é: naproxen 250 mg", &[(3, 11, "DRUG"), (12, 18, "DOSE")]),
            note("", &[]),
            note(&long, &[(7, 12, "DOSE"), (21, 26, "DOSE"), (273, 278, "DOSE")]),
        ];
        let all = sentences(&notes);
        assert_eq!((all.notes(), all.misaligned(), all.len()), (3, 0, 5));
        let tags = all.truth();
        assert_eq!(tags.len(), all.of_tokens().len());
        for (found, note) in all.entities(&tags).into_iter().zip(&notes) {
            assert_eq!(found, note.entities);
        }
    }

    #[test]
    fn an_entity_over_the_end_of_a_window_is_one() {
        let text = "word ".repeat(40);
        let notes = [note(&text, &[(5 * 30, 5 * 35 - 1, "DRUG")])];
        let all = sentences(&notes);
        assert_eq!(all.windows.iter().map(|w| w.tokens.len()).collect::<Vec<_>>(), [32, 8]);
        assert_eq!(all.entities(&all.truth())[0], notes[0].entities);
    }

    #[test]
    fn ends_within_a_token_are_counted() {
        let all = sentences(&[note("prediabetes", &[(3, 11, "DRUG")]), note(" a", &[(0, 1, "DRUG")])]);
        assert_eq!((all.misaligned(), all.entities(&[3, 0])[0].len()), (2, 1));
    }

    #[test]
    fn padding_has_no_weight_and_the_weights_have_mean_one() {
        let all = sentences(&[note("a b c", &[]), note("d", &[])]);
        let mut arrays = Arrays::default();
        all.batch(&[0, 1], 7, &mut arrays);
        let weights = arrays.f32(LOSS_WEIGHTS);
        assert_eq!(weights.iter().filter(|weight| **weight > 0.0).count(), 4);
        assert_eq!(weights.iter().sum::<f32>(), 64.0);
    }
}
