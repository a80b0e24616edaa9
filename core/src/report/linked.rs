//! The summary in a link as a table, beside a run of one's own.

use super::{Cell, Column, Rank, Table, Tone, escape};
use crate::compare::verdict::digits;
use crate::record::{CaseFigure, CaseSummary, RunSummary};
use crate::units::{Nanos, percent};

/// What is said above every summary that came by a link.
pub const FROM_A_LINK: &str =
    "Results shared by link. They travel in the address itself and are not signed, so they could have been edited.";

/// A line per case; beside it what a run of one's own found, by name, and the ratio of both.
pub fn linked_table(linked: &RunSummary, ours: Option<(&str, &RunSummary)>) -> Table {
    let mut columns = vec![
        Column::text("case"),
        Column::figure("median", Rank::Essential),
        Column::figure("95 %", Rank::Useful),
        Column::figure("verdict", Rank::Essential),
    ];
    if let Some((name, _)) = ours {
        columns.push(Column::figure(&escape(name), Rank::Essential));
        columns.push(Column::figure("95 %", Rank::Useful));
        columns.push(Column::figure(&format!("{} ÷ link", escape(name)), Rank::Essential));
    }
    let row = |case: &CaseSummary| {
        let mut row: Vec<Cell> = vec![escape(&case.case).into()];
        row.extend(figure(case.figure));
        let tone = if case.verdict == "pass" { Tone::Good } else { Tone::Bad };
        row.push(Cell { tone, ..case.verdict.into() });
        if let Some((_, ours)) = ours {
            let found = ours.cases.iter().find(|other| other.case == case.case).and_then(|other| other.figure);
            row.extend(figure(found));
            row.push(found.zip(case.figure).map_or_else(dash, |(ours, theirs)| ratio(ours, theirs).into()));
        }
        row
    };
    let rows: Vec<Vec<Cell>> = linked.cases.iter().map(row).collect();
    let mut notes = Vec::new();
    if linked.left_out > 0 {
        let bad = match linked.left_out_bad {
            0 => "all of which passed".to_owned(),
            bad => format!("{bad} of which did not pass"),
        };
        let cases = if linked.left_out == 1 { "case" } else { "cases" };
        notes.push(format!(
            "the link had no room for {} more {cases}, {bad}; the fastest variant of each problem came first",
            linked.left_out
        ));
    }
    if ours.is_some() {
        notes.push(
            "ratios are of medians, with both intervals taken at their far ends: below 1 is faster than in the link. A link has \
             no samples, so there is no verdict"
                .to_owned(),
        );
    }
    Table { columns, rows, notes, ..Table::default() }
}

fn dash() -> Cell {
    "–".into()
}

/// Median and interval.
fn figure(figure: Option<CaseFigure>) -> [Cell; 2] {
    let Some(figure) = figure else { return [dash(), dash()] };
    let precision = figure.precision().map_or_else(dash, |precision| format!("± {}", percent(precision)).into());
    [figure.median.to_string().into(), precision]
}

/// Of two figures, with its interval where both have one.
fn ratio(ours: CaseFigure, theirs: CaseFigure) -> String {
    let value = |a: Nanos, b: Nanos| digits(a.0 / b.0);
    let both = ours.interval.zip(theirs.interval).filter(|(_, theirs)| theirs[0].0 > 0.0);
    let ends = both.map_or_else(String::new, |(ours, theirs)| {
        format!(" [{}, {}]", value(ours[0], theirs[1]), value(ours[1], theirs[0]))
    });
    format!("{}×{ends}", value(ours.median, theirs.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{run, spread};

    const CASES: [&str; 2] = ["a/fwd/b1/f32/x", "a/fwd/b1/f32/y"];

    fn summary(times: &[f64]) -> RunSummary {
        let cases: Vec<_> = CASES.iter().zip(times).map(|(case, time)| (*case, spread(*time, 0.02, 40))).collect();
        RunSummary::of(&run("browser", "X", &cases))
    }

    #[test]
    fn ours_stands_beside_theirs_with_a_ratio_and_no_verdict() {
        let mut linked = summary(&[100.0, 300.0]);
        let alone = linked_table(&linked, None);
        assert_eq!((alone.columns.len(), alone.rows.len(), alone.notes.len()), (4, 2, 0));
        (linked.left_out, linked.left_out_bad) = (7, 2);
        let table = linked_table(&linked, Some(("this device", &summary(&[150.0]))));
        let last = |row: usize| table.rows[row].last().expect("a ratio").text.clone();
        assert!(last(0).starts_with("1.500× [1.4") && last(0).contains(", 1.5"), "{}", last(0));
        assert_eq!(last(1), "–", "ours has no such case");
        assert!(table.notes[0].contains("7 more cases, 2 of which did not pass"), "{:?}", table.notes);
    }
}
