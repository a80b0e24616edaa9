//! Table of a page: a grid if its columns fit, otherwise a card per row.

use maud::{Markup, html};
use parallax_analysis::Family;

use crate::{Cell, Remark, Table, Tone};

/// Titles of first columns with names of cases, problems or workloads.
const OF_CASES: [&str; 3] = ["case", "problem", "workload"];

/// Returns a table without addresses of rows.
pub(crate) fn table(table: &Table) -> Markup {
    shown(table, false)
}

/// Returns a table with addresses of its rows within the page: `#` and the case or problem. A page has one such table.
pub(crate) fn anchored(table: &Table) -> Markup {
    shown(table, true)
}

fn shown(table: &Table, anchors: bool) -> Markup {
    let right = |i: usize| table.columns[i].right;
    // Numbers beside the cells of a remark, so that the remark need not name them.
    let marks = |row: usize, column: usize| {
        let about = move |remark: &&Remark| remark.marks.iter().any(|mark| (mark.row, mark.column) == (row, column));
        (1..).zip(&table.remarks).filter(move |(_, remark)| about(remark))
    };
    let of_cases = table.columns.first().is_some_and(|column| OF_CASES.contains(&column.title.as_str()));
    let family = |cells: &[Cell]| cells.first().filter(|_| of_cases).map(|cell| Family::of(&cell.text).key());
    let anchor = |cells: &[Cell]| cells.first().filter(|_| anchors && of_cases).map(|cell| anchor(&cell.text));
    html! {
        @for line in &table.heading { p { (line) } }
        div.wide.(table_width(table.columns.len())) tabindex="0" {
            table {
                thead { tr { @for (i, column) in table.columns.iter().enumerate() { th.right[right(i)] { (column.title) } } } }
                tbody {
                    @for (row, cells) in table.rows.iter().enumerate() {
                        tr id=[anchor(cells)] data-f=[family(cells)] {
                            @for (i, cell) in cells.iter().enumerate() {
                                td class=[class(right(i), cell.tone)] data-t=[(i > 0).then_some(&table.columns[i].title)] {
                                    @if let Some(bar) = cell.bar {
                                        progress.bar value=(bar) max="100" aria-label="Speed beside the fastest variant" {}
                                    }
                                    @match anchor(cells).filter(|_| i == 0) {
                                        Some(anchor) => { a href=(format!("#{anchor}")) tabindex="-1" { (name(cell)) } }
                                        None if cell.label.is_some() => { (name(cell)) }
                                        None => { (cell.text) }
                                    }
                                    @for (number, remark) in marks(row, i) { sup title=(remark.text) { (number) } }
                                    (key(cell))
                                    @if let Some(more) = &cell.more { small { (more) } }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if !table.remarks.is_empty() { ol.soft { @for remark in &table.remarks { li { (remark.text) } } } }
        @if !table.notes.is_empty() { ul.soft { @for note in &table.notes { li { (note) } } } }
    }
}

/// Returns the label of a case or a problem, or else its string with places for line breaks.
pub(super) fn name(cell: &Cell) -> Markup {
    match &cell.label {
        Some(label) => html! { (label) },
        None => breakable(&cell.text),
    }
}

/// Returns the string below the label of a case or a problem; nothing without a label.
pub(super) fn key(cell: &Cell) -> Markup {
    html! { @if cell.label.is_some() { small { (cell.text) } } }
}

/// Returns a case with places for line breaks after its parts.
fn breakable(case: &str) -> Markup {
    html! { @for (i, part) in case.split_inclusive(['/', ',']).enumerate() { @if i > 0 { wbr; } (part) } }
}

/// Returns the address of a row within its page.
fn anchor(case: &str) -> String {
    case.split_whitespace().collect::<Vec<_>>().join("-")
}

/// Returns the class of a table by the number of its columns. No window has room for a grid of more than 14: they stay cards.
pub fn table_width(columns: usize) -> &'static str {
    match columns {
        0..=3 => "few",
        4..=7 => "some",
        8..=10 => "many",
        11..=14 => "most",
        _ => "cards",
    }
}

/// Returns the classes of a cell, by its alignment and its meaning; none for a plain cell on the left.
fn class(right: bool, tone: Tone) -> Option<String> {
    let tone = match tone {
        Tone::Plain => None,
        Tone::Good => Some("faster"),
        Tone::Bad => Some("slower"),
        Tone::Doubtful => Some("doubtful"),
    };
    match (right, tone) {
        (true, Some(tone)) => Some(format!("right {tone}")),
        (true, None) => Some("right".to_owned()),
        (false, tone) => tone.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Rank};

    #[test]
    fn rows_of_cases_have_a_family_and_where_wanted_an_address() {
        let row = |case: &str| vec![case.into(), Cell::from("2.00 ms").with("± 1 %")];
        let of = |first: &str| Table {
            columns: vec![Column::text(first), Column::figure("median", Rank::Essential)],
            rows: vec![row("matmul/fwd/m8/f32/x"), row("a\" b<")],
            ..Table::default()
        };
        for (title, anchors, families, ids) in [("case", true, 2, 2), ("problem", false, 2, 0), ("device", true, 0, 0)]
        {
            let text = shown(&of(title), anchors).into_string();
            let count = |what: &str| text.matches(what).count();
            assert_eq!((count("data-f=\""), count(" id=\""), count("href=\"#")), (families, ids, ids), "{text}");
            assert_eq!((count("data-t=\"median\""), count("<small>± 1 %</small>")), (2, 2), "{text}");
        }
        let text = anchored(&of("case")).into_string();
        assert!(text.contains("data-f=\"products\"") && text.contains("id=\"a&quot;-b&lt;\""), "{text}");
    }
}
