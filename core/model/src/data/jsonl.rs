//! Lines of JSON: texts with a label, and texts with entities.

use serde::Deserialize;

use super::{Collector, DataError, Items, Lines};
use crate::quality::{Entity, entities_of_tags};

/// Text with its label.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Labelled {
    /// The text.
    pub text: String,
    /// Its class.
    pub label: String,
}

/// Text with its entities, in characters of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The text. Tokens of a token list are joined by spaces.
    pub text: String,
    /// True entities, in order.
    pub entities: Vec<Entity>,
}

/// Reads each line that is not blank.
fn each<T>(bytes: &[u8], lines: Lines, item: impl Fn(&str) -> Result<T, String>) -> Result<Items<Vec<T>>, DataError> {
    let mut all = Collector::new(lines);
    for (bytes, line) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => all.add(line, item(text))?,
            Err(_) => all.add(line, Err("it is not in UTF-8".to_owned()))?,
        }
    }
    all.finish()
}

/// Returns the message of a parser without its position: a line of the file is line 1 of the parser.
fn without_line(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let cut = message.find(" at line ").unwrap_or(message.len());
    format!("{} (column {})", &message[..cut], error.column())
}

/// Reads texts with labels: `{"text": "…", "label": "…"}` on each line.
///
/// # Errors
/// Line with an error, unless lenient.
pub fn labelled(bytes: &[u8], lines: Lines) -> Result<Items<Vec<Labelled>>, DataError> {
    each(bytes, lines, |text| {
        let item: Labelled = serde_json::from_str(text).map_err(|error| without_line(&error))?;
        if item.label.is_empty() { Err("the label is empty".to_owned()) } else { Ok(item) }
    })
}

#[derive(Deserialize)]
struct Span {
    start: usize,
    end: usize,
    label: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Spans { text: String, entities: Vec<Span> },
    Tags { tokens: Vec<String>, tags: Vec<String> },
}

/// Reads texts with entities. A line is `{"text", "entities": [{"start", "end", "label"}]}` in characters, or `{"tokens", "tags"}`
/// with BIO tags.
///
/// # Errors
/// Line with an error, unless lenient.
pub fn notes(bytes: &[u8], lines: Lines) -> Result<Items<Vec<Note>>, DataError> {
    each(bytes, lines, |text| {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| without_line(&error))?;
        let wanted = "write text and entities with start, end and label, or tokens and tags";
        match serde_json::from_str(text).map_err(|_| wanted.to_owned())? {
            Line::Spans { text, entities } => of_spans(text, entities),
            Line::Tags { tokens, tags } => of_tags(&tokens, &tags),
        }
    })
}

fn of_spans(text: String, spans: Vec<Span>) -> Result<Note, String> {
    let length = text.chars().count();
    let mut entities = Vec::new();
    for Span { start, end, label } in spans {
        if start >= end || end > length {
            return Err(format!("entity {start}..{end} is not within the {length} characters of the text"));
        }
        if label.is_empty() {
            return Err(format!("entity {start}..{end} has an empty label"));
        }
        entities.push(Entity { start, end, label });
    }
    entities.sort_unstable();
    Ok(Note { text, entities })
}

fn of_tags(tokens: &[String], tags: &[String]) -> Result<Note, String> {
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
    Ok(Note { text: tokens.join(" "), entities: of_tokens.into_iter().map(in_characters).collect() })
}
