//! Taggers of entities: notes, their training, and their evaluation.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use parallax_model::data::{DataError, Lines, MOST_CLASSES, Note, Offsets, Weights, notes};
use parallax_model::examples::{Examples, split};
use parallax_model::layers::Arrays;
use parallax_model::ner::{HEADS, LENGTH, Sentences, TABLES, Tagger, fill_unseen};
use parallax_model::network::Network;
use parallax_model::quality::Entity;
use parallax_schema::record::Run;

use super::entities::Found;
use super::evaluation::{Evaluation, EvaluationOptions, Quality, knows, names};
use super::executor::Executor;
use super::files::{File, kept, read};
use super::scoring::Asked;
use super::task::{Extents, Given, Kind, Prepared, Task, about};

/// Shipped notes, with their shipped weights.
const SHIPPED: [(&str, &[u8]); 1] = [("notes", include_bytes!("../../data/notes.jsonl"))];
const WEIGHTS: &[u8] = include_bytes!("../../data/notes.safetensors");

/// Default extents: rows of a table of embeddings, width of a token, hidden width.
const ROWS: usize = 1024;
const WIDTH: usize = 64;
const HIDDEN: usize = 128;
/// Largest number of types: each has two tags, and one tag is of no type.
const MOST_TYPES: usize = (MOST_CLASSES - 1) / 2;

/// Notes of a file.
pub struct Ner {
    file: File,
    notes: Vec<Note>,
}

impl Ner {
    /// Reads the shipped notes, or lines of JSON with entities.
    ///
    /// # Errors
    /// File that cannot be read, or a line with an error, unless lenient.
    pub fn read(given: Given<'_>) -> anyhow::Result<Ner> {
        let file = read(given.data.unwrap_or("notes"), &SHIPPED, "notes are notes")?;
        let lines = if given.lenient { Lines::Lenient } else { Lines::Strict };
        let offsets = if given.bytes { Offsets::Bytes } else { Offsets::Characters };
        if !matches!(&*file.format, "jsonl" | "ndjson") {
            bail!("{}: write texts with entities as .jsonl", file.name);
        }
        let notes = kept(&file.name, notes(&file.bytes, offsets, lines))?;
        Ok(Ner { file, notes })
    }

    /// Returns the types, in order of their names.
    fn types(&self) -> anyhow::Result<Vec<String>> {
        let types: BTreeSet<&String> = self.notes.iter().flat_map(|note| &note.entities).map(|e| &e.label).collect();
        match types.len() {
            0 => bail!("{}: no note has an entity", self.file.name),
            1..=MOST_TYPES => Ok(types.into_iter().cloned().collect()),
            count => Err(DataError::Classes(count)).with_context(|| self.file.name.clone()),
        }
    }

    /// Returns the training part and the held-out part: by the notes' own words, or else a fifth by the seed.
    fn parts(&self, seed: u64) -> (Vec<&Note>, Vec<&Note>) {
        if self.notes.iter().any(|note| note.held_out.is_some()) {
            return self.notes.iter().partition(|note| note.held_out != Some(true));
        }
        let (training, held_out) = split(self.notes.len(), seed);
        let some = |of: Vec<usize>| of.into_iter().map(|at| &self.notes[at]).collect();
        (some(training), some(held_out))
    }

    /// Returns the notes that weights are evaluated on, and words about them.
    fn part(&self, weights: &Weights) -> anyhow::Result<(Vec<&Note>, String)> {
        let marked = self.notes.iter().any(|note| note.held_out == Some(true));
        if !marked && !knows(weights, &self.file.hash) {
            return Ok((self.notes.iter().collect(), format!("all {} notes", self.notes.len())));
        }
        let seed: u64 = weights.about("seed")?;
        let part = self.parts(seed).1;
        let which = if marked { "marked `test`".to_owned() } else { format!("seed {seed}") };
        let words = format!("{} held-out notes, {which}", part.len());
        Ok((part, words))
    }

    fn check_types(&self, types: &[String]) -> anyhow::Result<()> {
        let known = |entity: &&Entity| !types.contains(&entity.label);
        match self.notes.iter().flat_map(|note| &note.entities).find(known) {
            Some(entity) => bail!(
                "{}: the model has no type `{}`; its types are {}",
                self.file.name,
                entity.label.escape_debug(),
                types.join(", ")
            ),
            None => Ok(()),
        }
    }
}

/// Checks that the suite has layers of a width.
fn check_width(width: usize) -> anyhow::Result<()> {
    // A token is as wide as its tables together, and as its heads.
    if width == 0 || !width.is_multiple_of(TABLES) || !width.is_multiple_of(HEADS) {
        bail!("the width of a token is {width}; write a multiple of {TABLES}");
    }
    Ok(())
}

impl Task for Ner {
    fn defaults(&self) -> (u32, u32) {
        (400, 16)
    }

    fn shipped_weights(&self) -> Option<&'static [u8]> {
        self.file.shipped.then_some(WEIGHTS)
    }

    fn prepare(&self, extents: Extents, seed: u64, _executor: &mut Executor) -> anyhow::Result<Prepared> {
        let types = self.types()?;
        let (width, hidden) = (extents.width.unwrap_or(WIDTH), extents.hidden.unwrap_or(HIDDEN));
        check_width(width)?;
        let (training, held_out) = self.parts(seed);
        if held_out.is_empty() || training.is_empty() {
            bail!("{}: {} notes are too few; a fifth is held out", self.file.name, self.notes.len());
        }
        let items = Sentences::new(&training, &types, ROWS);
        if items.is_empty() {
            bail!("{}: no note of the training part has a word", self.file.name);
        }
        let model = Tagger { rows: ROWS, width, hidden, tags: 1 + 2 * types.len() };
        let more = [
            ("types", serde_json::to_string(&types)?),
            ("rows", ROWS.to_string()),
            ("width", width.to_string()),
            ("hidden", hidden.to_string()),
        ];
        let about = about(Kind::Ner, &self.file.hash, more);
        let seen = items.seen(ROWS);
        let finish = Box::new(move |weights: &mut Weights| fill_unseen(weights, &seen));
        Ok(Prepared { network: Box::new(model), items: Box::new(items), about, finish })
    }

    fn evaluate(
        &self,
        weights: &Weights,
        options: &EvaluationOptions<'_>,
        executor: &mut Executor,
    ) -> anyhow::Result<(Run, Vec<String>)> {
        let types = names(weights, "types", 1)?;
        let (rows, width, hidden) = (weights.about("rows")?, weights.about("width")?, weights.about("hidden")?);
        check_width(width)?;
        let model = Tagger { rows, width, hidden, tags: 1 + 2 * types.len() };
        // Before any product of extents: a damaged number has no tensor of its size.
        (&model as &dyn Network).load(weights, &mut Arrays::default())?;
        if rows <= LENGTH {
            bail!("the weights have tables of {rows} rows; {LENGTH} positions need more");
        }
        self.check_types(&types)?;
        let (part, words) = self.part(weights)?;
        let sentences = Sentences::new(&part, &types, rows);
        if sentences.is_empty() {
            bail!("{}: no note has a word", self.file.name);
        }
        let evaluation = Evaluation {
            kind: Kind::Ner,
            asked: Asked { network: &model, items: &sentences },
            weights,
            data: &self.file.name,
            items: words,
            variant: "encoder",
            extents: vec![("s", LENGTH), ("d", width), ("f", hidden), ("c", model.tags)],
            options,
            rows: Some(sentences.of_tokens()),
        };
        let truth: Vec<&[Entity]> = part.iter().map(|note| &note.entities[..]).collect();
        evaluation.run(executor, |answers| {
            let found = Found::new(&types, &truth, &sentences.entities(&answers.predicted));
            let mut lines = found.lines();
            if sentences.misaligned() > 0 {
                lines.push(format!(
                    "{} entities begin or end within a token: no strict match is possible",
                    sentences.misaligned()
                ));
            }
            Ok(Quality { scores: found.scores(options.seed), lines })
        })
    }
}
