//! Data of models: tables, texts with labels, texts with entities, and weights.
//!
//! An error names its line. A lenient reader skips such lines and counts them.

mod csv;
mod jsonl;
mod notes;
mod weights;

pub use csv::{Table, table};
pub use jsonl::{Labelled, labelled};
pub use notes::{Note, Offsets, notes};
pub use weights::{Tensor, Weights, WeightsError};

/// Treatment of lines with errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lines {
    /// The first error ends the reading.
    #[default]
    Strict,
    /// Lines with errors are skipped and counted.
    Lenient,
}

/// Items of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Items<T> {
    /// The items, in order.
    pub items: T,
    /// Number of skipped lines.
    pub skipped: usize,
    /// Error of the first skipped line.
    pub first: Option<DataError>,
}

/// Error of a data file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// File without any item.
    #[error("there is no item in it")]
    Empty,
    /// Line with an error.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from one.
        line: u64,
        /// Its error.
        problem: String,
    },
    /// Missing column.
    #[error("there is no column `{name}`; columns are {known}")]
    Column {
        /// Name of the column.
        name: String,
        /// Columns of the file.
        known: String,
    },
    /// Column that a table has twice.
    #[error("column `{0}` is there twice")]
    Twice(String),
    /// Number of classes that no classifier can have.
    #[error("there are {0} classes; a classifier needs from 2 to {MOST_CLASSES}")]
    Classes(usize),
}

/// Largest number of classes.
pub const MOST_CLASSES: usize = 1000;

/// Collects items and skips, as `lines` says.
struct Collector<T> {
    lines: Lines,
    items: Vec<T>,
    skipped: usize,
    first: Option<DataError>,
}

impl<T> Collector<T> {
    fn new(lines: Lines) -> Collector<T> {
        Collector { lines, items: Vec::new(), skipped: 0, first: None }
    }

    fn add(&mut self, line: u64, item: Result<T, String>) -> Result<(), DataError> {
        match item {
            Ok(item) => self.items.push(item),
            Err(problem) => {
                let error = DataError::Line { line, problem };
                if self.lines == Lines::Strict {
                    return Err(error);
                }
                self.skipped += 1;
                self.first.get_or_insert(error);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Items<Vec<T>>, DataError> {
        match self.items.is_empty() {
            // The reason of the first skip says more.
            true => Err(self.first.unwrap_or(DataError::Empty)),
            false => Ok(Items { items: self.items, skipped: self.skipped, first: self.first }),
        }
    }
}
