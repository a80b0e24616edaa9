//! A machine against itself, as a table.

use super::Table;
use crate::compare::aa::{AaCase, AaTable, Counts};
use crate::units::percent;

/// A line per case, and what it comes to.
pub fn a_a_table(found: &AaTable) -> Table {
    let columns = ["case", "pairs", "same", "faster", "slower", "undecided", "MDE", "worst difference"];
    let row = |case: &AaCase| {
        let Counts { same, faster, slower, undecided } = case.counts;
        let mut row = vec![case.case.clone()];
        row.extend([case.counts.pairs(), same, faster, slower, undecided].map(|n| n.to_string()));
        row.extend([case.detectable.map_or_else(|| "–".to_owned(), percent), percent(case.worst)]);
        row
    };
    let (wrong, pairs) = (found.total.wrong(), found.total.pairs());
    let mut notes = vec![
        "every run against the next one, with nothing changed".to_owned(),
        "MDE: minimum detectable effect, the smallest change that a pair would have called, the median over the pairs"
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
        columns: columns.map(str::to_owned).to_vec(),
        right_from: 1,
        rows: found.cases.iter().map(row).collect(),
        notes,
    }
}
