//! Tables in CSV: a header, numbers, and a column of labels.

use super::{Collector, DataError, Items, Lines};

/// Table of numbers with a label for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Names of the columns, without the labels'.
    pub columns: Vec<String>,
    /// Numbers, row by row.
    pub values: Vec<f32>,
    /// Label of each row.
    pub labels: Vec<String>,
}

/// Reads a table. `label` names the column of labels; all others are numbers.
///
/// # Errors
/// Missing or repeated column, or a row with an error, unless lenient.
pub fn table(bytes: &[u8], label: &str, lines: Lines) -> Result<Items<Table>, DataError> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    // Rows of other lengths are errors of their lines, so that a lenient reader goes on.
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let header = reader.headers().map_err(|error| DataError::Line { line: 1, problem: error.to_string() })?.clone();
    let names: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(DataError::Twice(twice.1.clone()));
    }
    let missing = || DataError::Column { name: label.to_owned(), known: names.join(", ") };
    let of_label = names.iter().position(|name| name == label).ok_or_else(missing)?;
    let mut rows = Collector::new(lines);
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        match reader.read_record(&mut record) {
            Ok(false) => break,
            Ok(true) => {
                let line = record.position().map_or(line, csv::Position::line);
                rows.add(line, row(&record, &names, of_label))?;
            }
            Err(error) => rows.add(line, Err(error.to_string()))?,
        }
    }
    let Items { items: rows, skipped, first } = rows.finish()?;
    let columns = names.into_iter().enumerate().filter(|(at, _)| *at != of_label).map(|(_, name)| name).collect();
    let mut table = Table { columns, values: Vec::new(), labels: Vec::new() };
    for (values, label) in rows {
        table.values.extend(values);
        table.labels.push(label);
    }
    Ok(Items { items: table, skipped, first })
}

fn row(record: &csv::StringRecord, names: &[String], of_label: usize) -> Result<(Vec<f32>, String), String> {
    if record.len() != names.len() {
        return Err(format!("there are {} values, and {} columns", record.len(), names.len()));
    }
    let mut values = Vec::with_capacity(names.len());
    for ((text, name), at) in record.iter().zip(names).zip(0..) {
        if at == of_label {
            continue;
        }
        match text.trim().parse::<f32>() {
            Ok(value) if value.is_finite() => values.push(value),
            _ => return Err(format!("`{}` in column `{name}` is no finite number", shown(text))),
        }
    }
    match record[of_label].trim() {
        "" => Err("the label is empty".to_owned()),
        label => Ok((values, label.to_owned())),
    }
}

/// Returns the beginning of a text from a file, for a message.
fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}
