//! Texts with entities, as lines of JSON.

use serde::Deserialize;

use super::jsonl::{each, without_line};
use super::{DataError, Items, Lines};
use crate::quality::{Entity, entities_of_tags};

/// Text with its entities, in characters of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The text. Tokens of a token list are joined by spaces.
    pub text: String,
    /// True entities, in order. They do not overlap.
    pub entities: Vec<Entity>,
    /// Whether the line says that it is held out; none if it says nothing.
    pub held_out: Option<bool>,
}

/// Unit of the offsets of entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offsets {
    /// Unicode characters: scalar values, as in Python.
    #[default]
    Characters,
    /// Bytes of the text in UTF-8.
    Bytes,
}

#[derive(Deserialize)]
struct Span {
    start: usize,
    end: usize,
    label: String,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Split {
    Train,
    Test,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Spans { text: String, entities: Vec<Span>, split: Option<Split> },
    Tags { tokens: Vec<String>, tags: Vec<String>, split: Option<Split> },
}

/// Reads texts with entities. A line is `{"text", "entities": [{"start", "end", "label"}]}`, or `{"tokens", "tags"}` with BIO tags.
/// Both may have `"split"`, `"train"` or `"test"`.
///
/// # Errors
/// Line with an error, unless lenient.
pub fn notes(bytes: &[u8], offsets: Offsets, lines: Lines) -> Result<Items<Vec<Note>>, DataError> {
    each(bytes, lines, |text| {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| without_line(&error))?;
        let wanted = "write text and entities with start, end and label, or tokens and tags; split is train or test";
        match serde_json::from_str(text).map_err(|_| wanted.to_owned())? {
            Line::Spans { text, entities, split } => of_spans(text, entities, offsets, split),
            Line::Tags { tokens, tags, split } => of_tags(&tokens, &tags, split),
        }
    })
}

fn of_spans(text: String, spans: Vec<Span>, offsets: Offsets, split: Option<Split>) -> Result<Note, String> {
    // Character at each position, and the position after the last.
    let positions: Vec<usize> = match offsets {
        Offsets::Characters => (0..=text.chars().count()).collect(),
        Offsets::Bytes => text.char_indices().map(|(at, _)| at).chain([text.len()]).collect(),
    };
    let (length, unit) = match offsets {
        Offsets::Characters => (positions.len() - 1, "characters"),
        Offsets::Bytes => (text.len(), "bytes"),
    };
    let mut entities = Vec::new();
    for Span { start, end, label } in spans {
        if start >= end || end > length {
            return Err(format!("entity {start}..{end} is not within the {length} {unit} of the text"));
        }
        if label.is_empty() {
            return Err(format!("entity {start}..{end} has an empty label"));
        }
        let character = |at: usize| {
            let within =
                format!("entity {start}..{end} begins or ends within a character: are its offsets characters?");
            positions.binary_search(&at).map_err(|_| within)
        };
        entities.push(Entity { start: character(start)?, end: character(end)?, label });
    }
    note(text, entities, split)
}

fn of_tags(tokens: &[String], tags: &[String], split: Option<Split>) -> Result<Note, String> {
    if tokens.len() != tags.len() {
        return Err(format!("there are {} tokens, and {} tags", tokens.len(), tags.len()));
    }
    if let Some(at) = tokens.iter().position(String::is_empty) {
        return Err(format!("token {at} is empty"));
    }
    let mut starts = Vec::new();
    let mut at = 0;
    for token in tokens {
        let length = token.chars().count();
        starts.push((at, at + length));
        at += length + 1;
    }
    let of_tokens = entities_of_tags(tags).map_err(|error| error.to_string())?;
    let in_characters =
        |entity: Entity| Entity { start: starts[entity.start].0, end: starts[entity.end - 1].1, label: entity.label };
    note(tokens.join(" "), of_tokens.into_iter().map(in_characters).collect(), split)
}

/// Returns a note, with its entities in order.
fn note(text: String, mut entities: Vec<Entity>, split: Option<Split>) -> Result<Note, String> {
    entities.sort_unstable();
    if let Some(pair) = entities.windows(2).find(|pair| pair[1].start < pair[0].end) {
        return Err(format!(
            "entities {}..{} and {}..{} overlap, in characters; a token has one tag",
            pair[0].start, pair[0].end, pair[1].start, pair[1].end
        ));
    }
    let held_out = split.map(|split| matches!(split, Split::Test));
    Ok(Note { text, entities, held_out })
}
