//! Tables on the terminal.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use parallax_core::record::Run;
use parallax_core::report;
use parallax_core::report::escape;

/// Cells and lines that stay what they are, whatever a device is called.
fn escaped(texts: Vec<String>) -> Vec<String> {
    texts.into_iter().map(|text| escape(&text).into_owned()).collect()
}

fn table(columns: &[String], right_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::new('─', '─', '─', '─')));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(escaped(columns.to_vec()));
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if i >= right_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A table of plain cells; columns from `right_from` on are aligned to the right.
pub fn plain(columns: &[&str], right_from: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
    let mut table = table(&columns, right_from);
    table.add_rows(rows.into_iter().map(escaped));
    table.to_string()
}

/// A run: where it ran, a line per case, and the reasons of everything that is not plainly right.
pub fn run(run: &Run) -> String {
    text(&report::table(run))
}

/// What `verify` found: the comparison of each case, and what was skipped by reason.
pub fn checks(run: &Run) -> String {
    let mut table = table(&["case", "verdict", "comparison with the reference"].map(str::to_owned), 3);
    for record in run.records.iter().filter(|r| report::has_row(r)) {
        let said = match record.measured() {
            Some(measured) => measured.check.sentence(),
            None => report::row(record, run).note,
        };
        table.add_row(escaped(vec![record.case.clone(), record.verdict().to_owned(), said]));
    }
    let below = report::skipped(run).into_iter().chain([report::tally(run)]);
    let heading = escape(&report::device_line(run)).into_owned();
    let below = below.map(|line| escape(&line).into_owned());
    [heading, table.to_string()].into_iter().chain(below).collect::<Vec<_>>().join("\n")
}

/// Any table with the lines above and below it.
pub fn text(content: &report::Table) -> String {
    let mut table = table(&content.columns, content.right_from);
    table.add_rows(content.rows.iter().cloned().map(escaped));
    let [heading, notes] = [&content.heading, &content.notes].map(|lines| escaped(lines.clone()));
    heading.into_iter().chain([table.to_string()]).chain(notes).collect::<Vec<_>>().join("\n")
}
