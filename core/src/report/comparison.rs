//! A comparison as a table.

use super::Table;
use crate::compare::verdict::Ratio;
use crate::compare::{Comparison, Pair};
use crate::units::percent;

/// Whether a run was on another device than the base.
fn elsewhere(comparison: &Comparison, run: usize) -> bool {
    let name = |i: usize| crate::compare::identity::normalised(&comparison.runs[i].device);
    name(run) != name(comparison.base)
}

/// A line per pair. Utilisations stand beside the times when devices differ and both sides of some pair have one.
pub fn comparison_table(comparison: &Comparison) -> Table {
    let others: Vec<usize> = (0..comparison.runs.len()).filter(|i| *i != comparison.base).collect();
    let used = |pair: &Pair, i: usize| pair.figures[i].and_then(|f| f.utilisation);
    let by_use: Vec<usize> = others
        .iter()
        .copied()
        .filter(|i| elsewhere(comparison, *i))
        .filter(|i| comparison.pairs.iter().any(|p| used(p, *i).is_some() && used(p, comparison.base).is_some()))
        .collect();
    let name = |i: usize| comparison.runs[i].name.as_str();
    let mut columns = vec!["case".to_owned()];
    columns.extend(comparison.runs.iter().map(|r| r.name.clone()));
    for i in &others {
        columns.push(format!("{} ÷ {}", name(*i), name(comparison.base)));
        columns.push("MDE".to_owned());
    }
    let use_columns: Vec<usize> = match by_use.is_empty() {
        true => Vec::new(),
        false => std::iter::once(comparison.base).chain(by_use).collect(),
    };
    columns.extend(use_columns.iter().map(|i| format!("{}: of ceiling", name(*i))));
    let dash = || "–".to_owned();
    let row = |pair: &Pair| {
        let mut row = vec![pair.case.clone()];
        row.extend(pair.figures.iter().map(|f| f.map_or_else(dash, |f| f.median.to_string())));
        for i in &others {
            let ratio = pair.ratios[*i].as_ref();
            row.push(ratio.map_or_else(dash, Ratio::to_string));
            row.push(ratio.and_then(|r| r.detectable).map_or_else(dash, percent));
        }
        row.extend(use_columns.iter().map(|i| used(pair, *i).map_or_else(dash, percent)));
        row
    };
    let mut notes = vec![
        "ratios are times over the base's time, with an interval: below 1 is faster".to_owned(),
        "MDE: minimum detectable effect, the smallest change that the two runs could have called".to_owned(),
        comparison.tally(),
    ];
    notes.extend(comparison.notes.iter().cloned());
    notes.extend(remarks(comparison));
    Table { heading: Vec::new(), columns, right_from: 1, rows: comparison.pairs.iter().map(row).collect(), notes }
}

/// What is special about single pairs, and what has no pair.
fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut grouped: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |key: String, case: &str| match grouped.iter_mut().find(|(k, _)| *k == key) {
        Some((_, cases)) => cases.push(case.to_owned()),
        None => grouped.push((key, vec![case.to_owned()])),
    };
    for (i, case, ratio) in comparison.ratios() {
        for note in &ratio.notes {
            add(format!("{}: {note}", comparison.runs[i].name), case);
        }
    }
    for alone in &comparison.unpaired {
        add(format!("only in {} ({})", comparison.runs[alone.run].name, alone.reason), &alone.case);
    }
    grouped.into_iter().map(|(what, cases)| format!("{what}: {}", cases.join(", "))).collect()
}
