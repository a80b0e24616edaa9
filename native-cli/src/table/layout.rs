//! Selection of the parts of a table that fit into the width of a terminal.
//!
//! Values equal in every row go above the table. Rows of a group stand below its name. If the rest is too wide, titles
//! are wrapped first. Then optional columns are removed, cells take their short forms, and cases are wrapped. At last
//! useful columns are removed, and labels move into the first column. Essential columns stay, even if they exceed the
//! width.

use parallax_report::{Rank, Table, Tone, escape};

use super::wrap::{narrowest, width, wrap};

/// Blanks between two columns.
pub const GAP: usize = 2;

/// Blanks before the second and later lines of a cell.
const INDENT: usize = 2;

/// Table after the fit.
pub struct Shown {
    /// Values common to all rows, and titles of empty columns.
    pub constant: Vec<String>,
    /// Titles, and whether their columns are aligned to the right.
    pub columns: Vec<(String, bool)>,
    /// A cell for each of the columns.
    pub rows: Vec<Vec<ShownCell>>,
    /// Heading above the first row of each group, if rows are grouped.
    pub headings: Vec<Option<String>>,
    /// Texts of the footnote marks.
    pub footnotes: Vec<String>,
}

/// Cell, escaped and wrapped.
#[derive(Clone)]
pub struct ShownCell {
    /// Lines of the cell.
    pub text: String,
    /// Meaning of the cell, for its colour.
    pub tone: Tone,
}

/// Column before the fit.
struct Column {
    title: String,
    right: bool,
    rank: Rank,
    label: bool,
    cells: Vec<Cell>,
    /// Maximum width.
    limit: usize,
}

struct Cell {
    text: String,
    short: Option<String>,
    tone: Tone,
    /// Marks of its footnotes.
    marks: String,
}

impl Column {
    fn of(table: &Table, i: usize) -> Column {
        let column = &table.columns[i];
        let cell = |(row, cells): (usize, &Vec<parallax_report::Cell>)| Cell {
            text: escape(&cells[i].text).into_owned(),
            short: cells[i].short.as_ref().map(|short| escape(short).into_owned()),
            tone: cells[i].tone,
            marks: marks(table, row, i),
        };
        let cells = table.rows.iter().enumerate().map(cell).collect();
        let title = escape(&column.title).into_owned();
        let (right, rank, label) = (column.right, column.rank, column.folds && !column.right);
        let mut column = Column { title, right, rank, label, cells, limit: 0 };
        column.limit = column.natural();
        column
    }

    fn contents(&self) -> usize {
        self.cells.iter().map(|cell| width(&cell.text)).max().unwrap_or(0)
    }

    fn natural(&self) -> usize {
        width(&self.title).max(self.contents())
    }

    /// Returns the minimum width; figures are never wrapped.
    fn floor(&self) -> usize {
        let cells = match self.right {
            true => self.contents(),
            false => self.cells.iter().map(|cell| narrowest(&cell.text, INDENT)).max().unwrap_or(0),
        };
        cells.max(narrowest(&self.title, 0))
    }

    fn marked(&self) -> usize {
        self.cells.iter().map(|cell| width(&cell.marks)).max().unwrap_or(0)
    }

    /// Returns the value of all rows, if it is the same.
    fn constant(&self) -> Option<&str> {
        let (first, others) = self.cells.split_first()?;
        let same = |cell: &Cell| cell.text == first.text;
        (!others.is_empty() && others.iter().all(same) && self.marked() == 0).then_some(&first.text)
    }
}

/// Returns a footnote mark in raised digits, which are distinct from a figure's digits.
fn mark(footnote: usize) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    (footnote + 1).to_string().bytes().map(|digit| RAISED[usize::from(digit - b'0')]).collect()
}

fn marks(table: &Table, row: usize, column: usize) -> String {
    let about = |i: &usize| table.remarks[*i].marks.iter().any(|m| (m.row, m.column) == (row, column));
    (0..table.remarks.len()).filter(about).map(mark).collect::<Vec<_>>().join(" ")
}

/// Returns the total width of the columns with their marks.
fn total(columns: &[Column]) -> usize {
    let marks = |column: &Column| if column.marked() > 0 { GAP + column.marked() } else { 0 };
    let each = columns.iter().map(|column| column.limit + marks(column) + GAP);
    each.sum::<usize>().saturating_sub(GAP)
}

/// Removes the last column of a rank. Returns whether there was one.
fn remove_last(columns: &mut Vec<Column>, rank: Rank) -> bool {
    let at = columns.iter().rposition(|column| column.rank == rank);
    at.map(|at| columns.remove(at)).is_some()
}

/// Moves every label into the first column, after its contents.
fn join_labels(columns: &mut Vec<Column>) {
    let (labels, others): (Vec<Column>, Vec<Column>) = columns.drain(..).partition(|column| column.label);
    *columns = others;
    for label in labels {
        let Some(first) = columns.first_mut() else { return };
        first.title += &format!(" {}", label.title);
        for (cell, moved) in first.cells.iter_mut().zip(label.cells) {
            cell.text += &format!(" {}", moved.text);
        }
    }
}

/// Makes columns narrower, the widest first, down to their minimum width or until they fit.
fn narrow(columns: &mut [Column], room: usize) {
    while total(columns) > room {
        let broken = columns.iter_mut().filter(|column| column.limit > column.floor());
        match broken.max_by_key(|column| column.limit) {
            Some(widest) => widest.limit -= 1,
            None => return,
        }
    }
}

/// Returns the group names above the first rows of the groups, and removes their column. Returns no headings if every
/// group has one row.
fn take_headings(table: &Table, columns: &mut Vec<Column>, room: usize) -> Vec<Option<String>> {
    let none = vec![None; table.rows.len()];
    let [first, second, ..] = &columns[..] else { return none };
    let begins = |row: usize| row == 0 || first.cells[row].text != first.cells[row - 1].text;
    let plain = !first.right && first.marked() == 0 && second.label;
    if !table.grouped || !plain || (0..table.rows.len()).all(begins) {
        return none;
    }
    let heading = |row: usize| begins(row).then(|| wrap(&first.cells[row].text, room, INDENT));
    let headings = (0..table.rows.len()).map(heading).collect();
    columns.remove(0);
    let second = &mut columns[0];
    second.cells.iter_mut().for_each(|cell| cell.text.insert_str(0, &" ".repeat(INDENT)));
    second.limit = second.natural();
    headings
}

/// Returns the part of a table that fits into this width.
pub fn fit(table: &Table, room: usize) -> Shown {
    let mut columns: Vec<Column> = Vec::new();
    let (mut everywhere, mut nowhere) = (Vec::new(), Vec::new());
    for (i, said) in table.columns.iter().enumerate() {
        let column = Column::of(table, i);
        match column.constant() {
            Some("–") => nowhere.push(column.title),
            Some(text) if said.folds => everywhere.push(format!("{} {text}", column.title)),
            _ => columns.push(column),
        }
    }
    let headings = take_headings(table, &mut columns, room);
    let grouped = headings.iter().any(Option::is_some);
    let titles_broken = |columns: &mut Vec<Column>| {
        for column in columns {
            column.limit = column.contents().max(narrowest(&column.title, 0));
        }
    };
    if total(&columns) > room {
        titles_broken(&mut columns);
    }
    while total(&columns) > room && remove_last(&mut columns, Rank::Extra) {}
    if total(&columns) > room {
        for cell in columns.iter_mut().flat_map(|column| &mut column.cells) {
            cell.text = cell.short.take().unwrap_or_else(|| std::mem::take(&mut cell.text));
        }
        titles_broken(&mut columns);
    }
    narrow(&mut columns, room);
    while total(&columns) > room && remove_last(&mut columns, Rank::Useful) {
        titles_broken(&mut columns);
        narrow(&mut columns, room);
    }
    if total(&columns) > room && !grouped {
        join_labels(&mut columns);
        titles_broken(&mut columns);
        narrow(&mut columns, room);
    }
    Shown {
        constant: [("in every row", everywhere), ("in no row", nowhere)]
            .into_iter()
            .filter(|(_, what)| !what.is_empty())
            .map(|(rows, what)| format!("{rows}: {}", what.join(", ")))
            .collect(),
        rows: (0..table.rows.len()).map(|row| columns.iter().flat_map(|column| cells(column, row)).collect()).collect(),
        columns: columns.iter().flat_map(titles).collect(),
        headings,
        footnotes: table.remarks.iter().enumerate().map(|(i, r)| format!("{} {}", mark(i), r.text)).collect(),
    }
}

/// Returns the title of a column, and an empty one for its marks.
fn titles(column: &Column) -> impl Iterator<Item = (String, bool)> + use<> {
    let title = (wrap(&column.title, column.limit, 0), column.right);
    std::iter::once(title).chain((column.marked() > 0).then(|| (String::new(), false)))
}

fn cells(column: &Column, row: usize) -> impl Iterator<Item = ShownCell> + use<> {
    let cell = &column.cells[row];
    let text = if column.right { cell.text.clone() } else { wrap(&cell.text, column.limit, INDENT) };
    let marks = (column.marked() > 0).then(|| ShownCell { text: cell.marks.clone(), tone: Tone::Plain });
    std::iter::once(ShownCell { text, tone: cell.tone }).chain(marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_report::{Cell, Column, Mark, Remark};

    /// Two cases with all elements of a table.
    fn table() -> Table {
        let short = |text: &str, short: &str| Cell { short: Some(short.to_owned()), ..text.into() };
        let row = |case: &str, variant: &str, judged: Cell| {
            vec![case.into(), variant.into(), "2 µs".into(), judged, "gpu".into(), "–".into(), "1 %".into()]
        };
        let clock = Column { folds: true, ..Column::figure("clock", Rank::Extra) };
        Table {
            columns: vec![
                Column::text("case"),
                Column::label("variant"),
                Column::figure("median", Rank::Useful),
                Column::figure("ratio", Rank::Essential),
                clock,
                Column::figure("rate", Rank::Useful),
                Column::figure("MDE", Rank::Extra),
            ],
            rows: vec![
                row("copy/fwd/n16/f32", "vec4", short("1.1× [1, 2] same", "1.1× same")),
                row("copy/bwd/n16/f32", "x", short("2× [1, 3] open", "2× open")),
            ],
            remarks: [(0, "coarse"), (1, "wide")]
                .map(|(first, text)| {
                    let mark = |row| Mark { row, column: 3, name: String::new() };
                    Remark { text: text.to_owned(), marks: (first..2).map(mark).collect() }
                })
                .to_vec(),
            ..Table::default()
        }
    }

    #[test]
    fn the_least_goes_first_and_what_is_essential_stays() {
        for (room, titles, first_row) in [
            (90, "case variant median ratio  MDE", "copy/fwd/n16/f32 vec4 2 µs 1.1× [1, 2] same ¹ 1 %"),
            (58, "case variant median ratio ", "copy/fwd/n16/f32 vec4 2 µs 1.1× [1, 2] same ¹"),
            (50, "case variant median ratio ", "copy/fwd/n16/f32 vec4 2 µs 1.1× same ¹"),
            (46, "case variant median ratio ", "copy/fwd/n16/|  f32 vec4 2 µs 1.1× same ¹"),
            (34, "case variant ratio ", "copy/fwd/|  n16/f32 vec4 1.1× same ¹"),
            (24, "case|variant ratio ", "copy/|  fwd/|  n16/|  f32|  vec4 1.1× same ¹"),
        ] {
            let shown = fit(&table(), room);
            let joined = |texts: Vec<String>| texts.join(" ").replace('\n', "|");
            assert_eq!(joined(shown.columns.into_iter().map(|(title, _)| title).collect()), titles, "{room}");
            assert_eq!(joined(shown.rows[0].iter().map(|cell| cell.text.clone()).collect()), first_row, "{room}");
            assert_eq!(shown.constant, ["in every row: clock gpu", "in no row: rate"], "{room}");
            assert_eq!(shown.footnotes, ["¹ coarse", "² wide"]);
            assert!(shown.rows[1].iter().any(|cell| cell.text == "¹ ²"));
        }
    }

    #[test]
    fn one_row_keeps_its_words() {
        let mut table = table();
        table.rows.truncate(1);
        table.remarks.clear();
        let shown = fit(&table, 120);
        assert_eq!((shown.columns.len(), shown.constant.len()), (7, 0));
    }
}
