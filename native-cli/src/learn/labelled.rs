//! Labelled data of a classifier: shipped tables, CSV, and lines of JSON.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, bail};
use parallax_model::classifier::{INPUT, embedding};
use parallax_model::data::{DataError, Items, Lines, MOST_CLASSES, labelled, table};
use parallax_model::layers::Arrays;
use sha2::{Digest, Sha256};

use super::machine::Machine;
use crate::console::errln;

/// Shipped tables, with their shipped weights.
const SHIPPED: [(&str, &[u8], &[u8]); 2] = [
    (
        "breast-cancer",
        include_bytes!("../../data/breast-cancer.csv"),
        include_bytes!("../../data/breast-cancer.safetensors"),
    ),
    ("digits", include_bytes!("../../data/digits.csv"), include_bytes!("../../data/digits.safetensors")),
];

/// Largest file of data.
const MOST_BYTES: u64 = 1 << 30;

/// Rows of a file with their labels.
pub struct Data {
    /// Name for people.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub hash: String,
    /// Columns of a table; none for texts.
    pub columns: Option<Vec<String>>,
    rows: Rows,
    /// Label of each row.
    pub labels: Vec<String>,
}

enum Rows {
    Table(Vec<f32>),
    Texts(Vec<String>),
}

/// Returns the names of the shipped tables.
pub fn shipped() -> String {
    SHIPPED.map(|(name, ..)| name).join(", ")
}

/// Returns the shipped weights of a shipped table.
pub fn shipped_weights(name: &str) -> Option<&'static [u8]> {
    SHIPPED.iter().find(|(known, ..)| *known == name).map(|(.., weights)| *weights)
}

/// Reads a shipped table, a CSV file, or lines of JSON with `text` and `label`.
///
/// # Errors
/// File that cannot be read, or a line with an error, unless lenient.
pub fn read(data: &str, label: &str, lenient: bool) -> anyhow::Result<Data> {
    let lines = if lenient { Lines::Lenient } else { Lines::Strict };
    if let Some((name, bytes, _)) = SHIPPED.iter().find(|(name, ..)| *name == data) {
        return of_table(name, bytes, "label", lines);
    }
    let path = Path::new(data);
    let unknown = || format!("cannot read {data}; shipped tables are {}", shipped());
    let size = std::fs::metadata(path).with_context(unknown)?.len();
    if size > MOST_BYTES {
        bail!("{data} has {size} bytes; the limit is {MOST_BYTES}");
    }
    let bytes = std::fs::read(path).with_context(unknown)?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => of_table(data, &bytes, label, lines),
        Some("jsonl" | "ndjson") => of_texts(data, &bytes, lines),
        _ => bail!("{data}: write a table as .csv, or texts as .jsonl"),
    }
}

fn of_table(name: &str, bytes: &[u8], label: &str, lines: Lines) -> anyhow::Result<Data> {
    let table = kept(name, table(bytes, label, lines))?;
    if table.columns.is_empty() {
        bail!("{name}: there is no column besides `{label}`");
    }
    Ok(Data {
        name: name.to_owned(),
        hash: hash(bytes),
        columns: Some(table.columns),
        rows: Rows::Table(table.values),
        labels: table.labels,
    })
}

fn of_texts(name: &str, bytes: &[u8], lines: Lines) -> anyhow::Result<Data> {
    let items = kept(name, labelled(bytes, lines))?;
    let (texts, labels) = items.into_iter().map(|item| (item.text, item.label)).unzip();
    Ok(Data { name: name.to_owned(), hash: hash(bytes), columns: None, rows: Rows::Texts(texts), labels })
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the items, after a line about those that were skipped.
fn kept<T>(name: &str, read: Result<Items<T>, DataError>) -> anyhow::Result<T> {
    let Items { items, skipped, first } = read.with_context(|| name.to_owned())?;
    if let Some(first) = first {
        errln!("{name}: {skipped} lines skipped; the first: {first}");
    }
    Ok(items)
}

impl Data {
    /// Returns the classes, in order of their names.
    ///
    /// # Errors
    /// A single class, or too many.
    pub fn classes(&self) -> anyhow::Result<Vec<String>> {
        let classes: BTreeSet<&String> = self.labels.iter().collect();
        match classes.len() {
            2..=MOST_CLASSES => Ok(classes.into_iter().cloned().collect()),
            count => Err(DataError::Classes(count)).with_context(|| self.name.clone()),
        }
    }

    /// Returns the class of each row.
    ///
    /// # Errors
    /// Label that is no class.
    pub fn targets(&self, classes: &[String]) -> anyhow::Result<Vec<usize>> {
        let class = |label: &String| {
            let known =
                || format!("{}: the model has no label `{label}`; its labels are {}", self.name, classes.join(", "));
            classes.iter().position(|class| class == label).with_context(known)
        };
        self.labels.iter().map(class).collect()
    }

    /// Returns the features of all rows, `width` columns each. Texts are embedded on the device.
    ///
    /// # Errors
    /// Table of another width, or an error of the device.
    pub fn features(&self, width: usize, machine: &mut Machine) -> anyhow::Result<Vec<f32>> {
        match &self.rows {
            Rows::Table(values) => match self.columns.as_ref().map_or(0, Vec::len) {
                columns if columns == width => Ok(values.clone()),
                columns => bail!("{}: there are {columns} columns of numbers, and the model has {width}", self.name),
            },
            Rows::Texts(texts) => {
                let mut arrays = Arrays::default();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let layer = embedding(&texts, width, &mut arrays);
                machine.run(&[layer], &mut arrays)?;
                Ok(arrays.f32(INPUT))
            }
        }
    }
}
