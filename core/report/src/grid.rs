//! Generic table: cells, and the hints for leaving out columns and for colours.

use super::escape;

/// Table ready to print as text, Markdown or HTML.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Lines above the table.
    pub heading: Vec<String>,
    /// Columns; the first names the subject of a row.
    pub columns: Vec<Column>,
    /// Rows, each with as many cells as columns.
    pub rows: Vec<Vec<Cell>>,
    /// Whether consecutive rows with the same first cell may stand below it, as below a heading.
    pub grouped: bool,
    /// Remarks on single cells.
    pub remarks: Vec<Remark>,
    /// Lines below the table.
    pub notes: Vec<String>,
}

/// Column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Title of the column.
    pub title: String,
    /// Whether cells are aligned to the right, as figures are; others may be broken over several lines.
    pub right: bool,
    /// Priority of the column if there is no room for all.
    pub rank: Rank,
    /// Whether a value common to all rows is shown once, above the table.
    pub folds: bool,
}

/// Importance of a column. Among columns of one rank, the last is dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Dropped before any other measure.
    Extra,
    /// Kept as long as line breaks make room for it.
    Useful,
    /// Always kept.
    Essential,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// Text of the cell.
    pub text: String,
    /// Shorter text for narrow output, if there is one.
    pub short: Option<String>,
    /// A second line; pages show it.
    pub more: Option<String>,
    /// Words for a case or a problem; pages show them above its string.
    pub label: Option<String>,
    /// Meaning of the cell.
    pub tone: Tone,
    /// Length of the bar beside the text, in percent of the longest; pages show it.
    pub bar: Option<u8>,
}

/// Meaning of a cell for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Neutral.
    #[default]
    Plain,
    /// Good result.
    Good,
    /// Bad result.
    Bad,
    /// Unreliable result.
    Doubtful,
}

/// Sentence about some cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Text of the remark.
    pub text: String,
    /// Cells of the remark.
    pub marks: Vec<Mark>,
}

/// Cell of a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Position of the row.
    pub row: usize,
    /// Position of the column.
    pub column: usize,
    /// Subject of the row, for output without cells to mark.
    pub name: String,
}

impl Column {
    /// Returns a column of text that names the subject of a row.
    pub fn text(title: &str) -> Column {
        Column { title: title.to_owned(), right: false, rank: Rank::Essential, folds: false }
    }

    /// Returns a column with a word that distinguishes rows; it folds if all rows have the same.
    pub fn label(title: &str) -> Column {
        Column { folds: true, ..Column::text(title) }
    }

    /// Returns a column of figures.
    pub fn figure(title: &str, rank: Rank) -> Column {
        Column { title: title.to_owned(), right: true, rank, folds: false }
    }
}

impl Cell {
    /// Returns the cell with a second line.
    pub fn with(self, more: impl Into<String>) -> Cell {
        Cell { more: Some(more.into()), ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }
}

impl Remark {
    /// Returns a remark, or `None` without marks.
    pub fn some(text: String, marks: Vec<Mark>) -> Option<Remark> {
        (!marks.is_empty()).then_some(Remark { text, marks })
    }
}

impl Table {
    /// Returns the lines below the table for output without marks: every remark names its cells.
    pub fn all_notes(&self) -> Vec<String> {
        let names = |remark: &Remark| remark.marks.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", ");
        let remarks = self.remarks.iter().map(|remark| format!("{}: {}", remark.text, names(remark)));
        self.notes.iter().cloned().chain(remarks).collect()
    }

    /// Returns the table in Markdown; lines above become paragraphs, lines below a list.
    pub fn markdown(&self) -> String {
        let heading: String = self.heading.iter().map(|line| format!("{}\n\n", markdown_text(line))).collect();
        let titles: Vec<&str> = self.columns.iter().map(|c| c.title.as_str()).collect();
        let texts = |row: &Vec<Cell>| row.iter().map(|cell| cell.text.clone()).collect();
        let table = markdown(&titles, self.rows.iter().map(texts));
        let notes: String = self.all_notes().iter().map(|line| format!("- {}\n", markdown_text(line))).collect();
        let gap = if notes.is_empty() { "" } else { "\n" };
        format!("{heading}{table}{gap}{notes}")
    }
}

/// Returns a Markdown table. Cells cannot break out of it: bars, line breaks and the start of tags are escaped.
pub fn markdown(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let escaped = |cell: &str| markdown_text(cell).replace('|', "\\|");
    let mut text = line(columns.iter().map(|c| escaped(c)).collect());
    text += &line(columns.iter().map(|_| "---".to_owned()).collect());
    for row in rows {
        text += &line(row.iter().map(|cell| escaped(cell)).collect());
    }
    text
}

/// Returns the string on one line, without HTML.
pub(crate) fn markdown_text(text: &str) -> String {
    escape(text).replace('<', "&lt;")
}
