//! Table of an A/A test of a machine.

use parallax_analysis::compare::aa::{AaCase, AaTable, Counts};
use parallax_schema::units::percent;

use super::{Column, Rank, Table};

/// Returns a table with one line per case, and its totals as notes.
pub fn a_a_table(found: &AaTable) -> Table {
    use Rank::{Essential, Extra, Useful};
    let figures = [
        ("pairs", Extra),
        ("same", Useful),
        ("faster", Essential),
        ("slower", Essential),
        ("undecided", Useful),
        ("MDE", Essential),
        ("worst difference", Extra),
    ];
    let figures = figures.map(|(title, rank)| Column::figure(title, rank));
    let row = |case: &AaCase| {
        let Counts { same, faster, slower, undecided } = case.counts;
        let mut row = vec![case.case.clone()];
        row.extend([case.counts.pairs(), same, faster, slower, undecided].map(|n| n.to_string()));
        row.extend([case.detectable.map_or_else(|| "–".to_owned(), percent), percent(case.worst)]);
        row.into_iter().map(Into::into).collect()
    };
    let (wrong, pairs) = (found.total.wrong(), found.total.pairs());
    let mut notes = vec![
        "each run against the next one, without a change between them".to_owned(),
        "MDE: minimum detectable effect, the smallest change that a pair could have shown; median over the pairs"
            .to_owned(),
        format!("{wrong} of {pairs} pairs were called faster or slower, {} undecided", found.total.undecided),
    ];
    if let (Some(typical), Some(worst)) = (found.detectable, found.detectable_worst) {
        notes.push(format!(
            "minimum detectable effect of this machine: {} for the median case, {} for the worst",
            percent(typical),
            percent(worst)
        ));
    }
    Table {
        heading: vec![format!("{} runs against themselves, resolution {}", found.runs, percent(found.resolution))],
        columns: std::iter::once(Column::text("case")).chain(figures).collect(),
        rows: found.cases.iter().map(row).collect(),
        grouped: false,
        remarks: Vec::new(),
        notes,
    }
}
