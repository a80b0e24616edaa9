//! Scores for readers.

use parallax_analysis::compare::Comparison;
use parallax_analysis::compare::scores::ScorePair;
use parallax_schema::record::{Record, Run};
use parallax_schema::units::four_digits;

use crate::{Cell, Column, Rank, Table, collectives};

/// Returns the scores of a run, one line each. Those of the energy and of collectives have columns of their own.
pub fn scores(run: &Run) -> Vec<String> {
    let of_record = |record: &Record| {
        let scores = record.measured().into_iter().flat_map(|measured| &measured.scores);
        let scores = scores.filter(|score| !collectives::has_column(score));
        scores.map(|score| format!("{}: {score}", record.case)).collect::<Vec<_>>()
    };
    run.records.iter().flat_map(of_record).collect()
}

/// Returns the items per second of a run's cases, one line for each case with items. A line has the time of a batch and the peak
/// memory.
pub fn items(run: &Run) -> Vec<String> {
    let line = |record: &Record| {
        let (rate, batch) = (record.items_rate()?, record.timing()?.summary.median);
        let peak = record.measured()?.memory.peak;
        let energy = crate::energy::items_per_joule(record).map_or_else(String::new, |rate| format!(", {rate}"));
        Some(format!("{}: {rate}, {batch} a batch, {peak} at most{energy}", record.case))
    };
    run.records.iter().filter_map(line).collect()
}

/// Returns the scores of a comparison, one line per pair; `None` without scores.
pub fn compared_scores(comparison: &Comparison) -> Option<Table> {
    if comparison.scores.is_empty() {
        return None;
    }
    let (base, runs) = (comparison.base, &comparison.runs);
    let others: Vec<usize> = (0..runs.len()).filter(|i| *i != base).collect();
    let mut columns = vec![Column::text("case"), Column::label("score"), Column::label("better")];
    columns.extend(runs.iter().map(|r| Column::figure(&r.name, Rank::Useful)));
    for i in &others {
        columns.push(Column::figure(&format!("{} − {}", runs[*i].name, runs[base].name), Rank::Essential));
        columns.push(Column::figure("MDE", Rank::Extra));
    }
    let dash = || "–".to_owned();
    let row = |pair: &ScorePair| {
        let mut row = vec![pair.case.clone(), pair.name.clone(), pair.better.name().to_owned()];
        row.extend(pair.scores.iter().map(|s| s.as_ref().map_or_else(dash, |s| four_digits(s.value))));
        for i in &others {
            let difference = pair.differences[*i].as_ref();
            row.push(difference.map_or_else(dash, ToString::to_string));
            row.push(difference.map_or_else(dash, |d| four_digits(d.minimum_detectable_effect)));
        }
        row.into_iter().map(Cell::from).collect()
    };
    let mut notes = vec![
        "differences are scores less the base's score, with an interval".to_owned(),
        format!("MDE: minimum detectable effect, at a resolution of {} of the base's score", comparison.resolutions()),
    ];
    for pair in &comparison.scores {
        for (i, difference) in pair.differences.iter().enumerate() {
            let told = difference.iter().flat_map(|d| &d.notes);
            notes.extend(told.map(|note| format!("{}: {}: {}: {note}", runs[i].name, pair.case, pair.name)));
        }
    }
    Some(Table { columns, rows: comparison.scores.iter().map(row).collect(), notes, ..Table::default() })
}
