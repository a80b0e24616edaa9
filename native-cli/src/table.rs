//! Tables on the terminal, fitted to its width, with colours for the meaning of cells.

mod layout;
mod wrap;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, LineStyle, presets};
use parallax_report as report;
use parallax_report::{Column, Rank, Table, Tone, escape};
use parallax_schema::record::{Record, Run};
use parallax_workloads::Registry;

use crate::console::Painted;
use layout::{Shown, ShownCell};
pub(crate) use wrap::wrap;

/// Returns escaped lines for people, wrapped to the width.
pub fn lines<S: AsRef<str>>(lines: impl IntoIterator<Item = S>, width: usize) -> Painted {
    let broken: Vec<String> = lines.into_iter().map(|line| wrap(&escape(line.as_ref()), width, 2)).collect();
    Painted::of_escaped(broken.join("\n"))
}

/// Returns tables with a blank line between them.
pub fn below_each_other(tables: impl Iterator<Item = Painted>) -> Painted {
    tables.reduce(|all, table| all.above(&Painted::default()).above(&table)).unwrap_or_default()
}

/// Returns a table of plain cells. The first column always stays; columns from `right_from` on are figures.
pub fn plain(columns: &[&str], right_from: usize, rows: impl Iterator<Item = Vec<String>>, width: usize) -> Painted {
    let column = |(i, title): (usize, &&str)| match i >= right_from {
        true => Column::figure(title, if i == right_from { Rank::Essential } else { Rank::Useful }),
        false => Column::text(title),
    };
    let columns = columns.iter().enumerate().map(column).collect();
    let rows = rows.map(|row| row.into_iter().map(Into::into).collect()).collect();
    text(&Table { columns, rows, ..Table::default() }, width)
}

/// Returns a run: its device, a line per case, the reasons of all exceptional results, and a summary.
pub fn run(run: &Run, width: usize) -> Painted {
    let table = text(&report::table(&Registry, run), width);
    let summary = report::summary(run);
    let summary = (!summary.is_empty()).then(|| lines(summary, width));
    below_each_other(std::iter::once(table).chain(summary))
}

/// Returns the results of `verify`: the comparison of each case, and skips by reason.
pub fn checks(run: &Run, width: usize) -> Painted {
    let row = |record: &Record| {
        let said = record.measured().map_or_else(|| report::row(&Registry, record, run).note, |m| m.check.sentence());
        let tone = if record.measured().is_some() { Tone::Good } else { Tone::Bad };
        let verdict = report::Cell { tone, ..record.verdict().into() };
        vec![record.case.as_str().into(), verdict, said.into()]
    };
    let comparison = Column { rank: Rank::Useful, ..Column::text("comparison with the reference") };
    let table = Table {
        heading: vec![report::device_line(run)],
        columns: vec![Column::text("case"), Column::text("verdict"), comparison],
        rows: run.records.iter().filter(|r| report::has_row(r)).map(row).collect(),
        notes: report::skipped(run).into_iter().chain([report::tally(run)]).chain(report::ended_early(run)).collect(),
        ..Table::default()
    };
    text(&table, width)
}

/// Returns a table with the lines above and below it.
pub fn text(content: &Table, width: usize) -> Painted {
    let Shown { constant, columns, rows, headings, footnotes } = layout::fit(content, width);
    let above = lines(content.heading.iter().chain(&constant), width);
    let grid = if rows.is_empty() { Painted::default() } else { drawn(&columns, &rows, &headings) };
    let below = lines(footnotes.iter().chain(&content.notes), width);
    let parts = [above, grid, below].into_iter().filter(|part| !part.is_empty());
    parts.reduce(|all, part| all.above(&part)).unwrap_or_default()
}

/// Returns the grid of escaped and wrapped cells, with headings above the rows that have one.
fn drawn(columns: &[(String, bool)], rows: &[Vec<ShownCell>], headings: &[Option<String>]) -> Painted {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─')));
    table.set_content_arrangement(ContentArrangement::Disabled);
    // The use of colours is decided at the output of the text.
    table.enforce_styling().style_text_only();
    table.set_header(columns.iter().map(|(title, _)| title));
    for row in rows {
        table.add_row(row.iter().map(painted));
    }
    let last = columns.len() - 1;
    for (i, (column, (_, right))) in table.column_iter_mut().zip(columns).enumerate() {
        column.set_padding((0, if i == last { 0 } else { layout::GAP as u16 }));
        if *right {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let grid = table.trim_fmt();
    let mut lines = grid.lines();
    let mut take = |count: usize, all: &mut Vec<String>| all.extend(lines.by_ref().take(count).map(str::to_owned));
    let height =
        |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| text.lines().count()).max().unwrap_or(0).max(1);
    let mut all = Vec::new();
    // The titles, and the line below them.
    take(height(&mut columns.iter().map(|(title, _)| title.as_str())) + 1, &mut all);
    for (row, heading) in rows.iter().zip(headings) {
        all.extend(heading.clone());
        take(height(&mut row.iter().map(|cell| cell.text.as_str())), &mut all);
    }
    Painted::of_escaped(all.join("\n"))
}

fn painted(cell: &ShownCell) -> Cell {
    let colour = match cell.tone {
        Tone::Plain => return Cell::new(&cell.text),
        Tone::Good => Color::DarkGreen,
        Tone::Bad => Color::DarkRed,
        Tone::Doubtful => Color::DarkYellow,
    };
    Cell::new(&cell.text).fg(colour)
}
