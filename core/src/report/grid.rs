//! A table as such: what stands in it, and what whoever shows it must know to leave things out and to colour the rest.

use super::escape;

/// A table ready to print, as text, Markdown or HTML alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Lines above it.
    pub heading: Vec<String>,
    /// The columns; the first says what a row is about.
    pub columns: Vec<Column>,
    /// A row per line, as many cells as columns.
    pub rows: Vec<Vec<Cell>>,
    /// Whether rows that follow each other with the same first cell may stand below it, as below a heading.
    pub grouped: bool,
    /// What is to be said of single cells.
    pub remarks: Vec<Remark>,
    /// Lines below it.
    pub notes: Vec<String>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its title.
    pub title: String,
    /// Whether its cells are aligned to the right, as figures are; others may be broken over several lines.
    pub right: bool,
    /// When it goes where there is no room for all.
    pub rank: Rank,
    /// Whether it is said once, above the table, where every row says the same.
    pub folds: bool,
}

/// What a reader loses without a column. Among columns of one rank, the last goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Goes before anything else is given up.
    Extra,
    /// Stays for as long as breaking lines makes room for it.
    Useful,
    /// Always stays.
    Essential,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// What it says where there is little room, if that is less.
    pub short: Option<String>,
    /// A second line; pages show it.
    pub more: Option<String>,
    /// Words for a case or a problem; pages show them above its string.
    pub label: Option<String>,
    /// What it means.
    pub tone: Tone,
    /// Length of the bar beside it, in percent of the longest; pages show it.
    pub bar: Option<u8>,
}

/// What a cell means for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// As one would wish.
    Good,
    /// To be looked at.
    Bad,
    /// Not to be relied on.
    Doubtful,
}

/// A sentence about some cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// What is to be said.
    pub text: String,
    /// Of which cells.
    pub marks: Vec<Mark>,
}

/// A cell that a remark is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Position of its row.
    pub row: usize,
    /// Position of its column.
    pub column: usize,
    /// What the row is about, where there is no cell to mark.
    pub name: String,
}

impl Column {
    /// Text that says what a row is about.
    pub fn text(title: &str) -> Column {
        Column { title: title.to_owned(), right: false, rank: Rank::Essential, folds: false }
    }

    /// A word that tells rows apart, unless it is the same in all.
    pub fn label(title: &str) -> Column {
        Column { folds: true, ..Column::text(title) }
    }

    /// A figure.
    pub fn figure(title: &str, rank: Rank) -> Column {
        Column { title: title.to_owned(), right: true, rank, folds: false }
    }
}

impl Cell {
    /// The cell with a second line.
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
    /// A remark, if it is about anything.
    pub fn some(text: String, marks: Vec<Mark>) -> Option<Remark> {
        (!marks.is_empty()).then_some(Remark { text, marks })
    }
}

impl Table {
    /// The lines below the table where its cells cannot be marked: every remark names what it is about.
    pub fn all_notes(&self) -> Vec<String> {
        let names = |remark: &Remark| remark.marks.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", ");
        let remarks = self.remarks.iter().map(|remark| format!("{}: {}", remark.text, names(remark)));
        self.notes.iter().cloned().chain(remarks).collect()
    }

    /// The table in Markdown; lines above become paragraphs, lines below a list.
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

/// A Markdown table. Cells cannot break out of it: bars, line breaks and the start of tags are escaped.
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

/// Text on one line that is no HTML.
fn markdown_text(text: &str) -> String {
    escape(text).replace('<', "&lt;")
}
