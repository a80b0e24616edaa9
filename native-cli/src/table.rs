//! Tables on the terminal.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use parallax_core::compare::Comparison;
use parallax_core::record::Run;
use parallax_core::report;

fn table(columns: &[String], right_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::new('─', '─', '─', '─')));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.to_vec());
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if i >= right_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A run: where it ran, a line per case, and the reasons of everything that is not plainly right.
pub fn run(run: &Run) -> String {
    let columns = report::COLUMNS.map(str::to_owned);
    let mut table = table(&columns, 2);
    let mut notes = Vec::new();
    for record in &run.records {
        let row = report::row(record, run);
        table.add_row(report::cells(&row).map(str::to_owned));
        if !row.note.is_empty() {
            notes.push(format!("  {}/{}: {}", row.problem, row.variant, row.note));
        }
    }
    let mut text = format!("{}\n{}\n{table}\n", report::device_line(run), report::clock_line(run));
    if !notes.is_empty() {
        text += &format!("notes\n{}\n", notes.join("\n"));
    }
    text += &report::tally(run);
    if let Some(why) = &run.interrupted {
        let missing: Vec<&str> = run.missing().collect();
        text += &format!("\nended early: {why}; not reached: {}", missing.join(", "));
    }
    text
}

/// What `verify` found: the comparison of each case.
pub fn checks(run: &Run) -> String {
    let mut table = table(&["case", "verdict", "comparison with the reference"].map(str::to_owned), 3);
    for record in &run.records {
        let said = match record.measured() {
            Some(measured) => measured.check.sentence(),
            None => report::row(record, run).note,
        };
        table.add_row([record.case.clone(), record.verdict().to_owned(), said]);
    }
    format!("{}\n{table}\n{}", report::device_line(run), report::tally(run))
}

/// The header and rows of a comparison.
pub fn comparison_cells(comparison: &Comparison) -> (Vec<String>, Vec<Vec<String>>) {
    let mut columns = vec!["case".to_owned()];
    columns.extend(comparison.runs.iter().cloned());
    columns.extend(comparison.runs.iter().skip(1).map(|name| format!("{name} ÷ {}", comparison.runs[0])));
    let dash = || "–".to_owned();
    let rows = comparison.pairs.iter().map(|pair| {
        let mut row = vec![pair.case.clone()];
        row.extend(pair.medians.iter().map(|m| m.map_or_else(dash, |m| m.to_string())));
        row.extend(pair.ratios.iter().map(|r| r.map_or_else(dash, |r| r.to_string())));
        row
    });
    (columns, rows.collect())
}

/// A comparison: a line per pair, and what has no pair.
pub fn comparison(comparison: &Comparison) -> String {
    let (columns, rows) = comparison_cells(comparison);
    let mut table = table(&columns, 1);
    table.add_rows(rows);
    let mut text = format!("{table}\nratios are times over the base's time, with an interval: below 1 is faster");
    for (i, name) in comparison.runs.iter().enumerate() {
        let alone: Vec<&str> =
            comparison.unpaired.iter().filter(|(run, _)| *run == i).map(|(_, case)| case.as_str()).collect();
        if !alone.is_empty() {
            text += &format!("\nonly in {name}: {}", alone.join(", "));
        }
    }
    text
}
