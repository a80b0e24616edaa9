//! Table of the summary in a link, beside the reader's own run.

use std::collections::HashMap;

use parallax_analysis::compare::verdict::digits;
use parallax_schema::case::problem_of;
use parallax_schema::record::{CaseFigure, CaseSummary, RunSummary};
use parallax_schema::units::{Nanos, counted, percent};

use super::html::short;
use super::{Cell, Column, Rank, Table, Tone, escape};

/// Warning above every summary from a link.
pub const FROM_A_LINK: &str =
    "Results shared by link. The address contains them; they are not signed, so they could have been edited.";

/// Returns the sentence about a link: device, browser, cases and their checks. It includes the mean ratio of the reader's own run,
/// by name.
pub fn linked_answer(linked: &RunSummary, ours: Option<(&str, &RunSummary)>) -> String {
    let place = linked.browser.as_ref().map_or_else(String::new, |browser| format!(" in {browser}"));
    let mut said = format!("{}{place}: {}.", linked.called(), linked_cases(linked));
    let Some((name, ours)) = ours else { return said };
    let logs: Vec<f64> = linked
        .cases
        .iter()
        .filter_map(|case| {
            let found = ours.cases.iter().find(|other| other.case == case.case)?.figure?;
            Some((found.median.0 / case.figure?.median.0).ln())
        })
        .collect();
    if logs.is_empty() {
        said += &format!(" {} has none of them.", capital(name));
    } else {
        let ratio = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        let mean = if logs.len() == 1 { "" } else { ", geometric mean" };
        let over = format!("{}{mean}", counted(logs.len(), "case"));
        said += &format!(" {} takes {} as long ({over}).", capital(name), short(ratio));
    }
    said
}

/// Returns the number of a link's cases, and whether they are correct: *3 cases, all correct*.
pub(crate) fn linked_cases(linked: &RunSummary) -> String {
    let bad = linked.cases.iter().filter(|case| case.verdict != "pass").count() + linked.left_out_bad;
    let count = linked.cases.len() + linked.left_out;
    let correct = match bad {
        0 if count == 1 => "correct".to_owned(),
        0 => "all correct".to_owned(),
        bad => format!("{bad} not correct"),
    };
    format!("{}, {correct}", counted(count, "case"))
}

/// Returns a table with one line per case; beside it the result of the reader's own run, by name, and the ratio of both.
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
    // The fastest variant of each problem with several variants: bars are shares of its speed.
    let mut fastest: HashMap<&str, (f64, usize)> = HashMap::new();
    for case in &linked.cases {
        let Some(figure) = case.figure else { continue };
        let (time, variants) = fastest.entry(problem_of(&case.case)).or_insert((f64::INFINITY, 0));
        (*time, *variants) = (time.min(figure.median.0), *variants + 1);
    }
    let row = |case: &CaseSummary| {
        let mut row: Vec<Cell> = vec![escape(&case.case).into()];
        row.extend(figure(case.figure));
        let best = fastest.get(problem_of(&case.case)).filter(|(_, variants)| *variants > 1);
        row[1].bar = case.figure.zip(best).map(|(figure, (best, _))| (100.0 * best / figure.median.0).round() as u8);
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
    if rows.iter().any(|row| row[1].bar.is_some()) {
        notes.push("bars show speeds: the fastest variant of a problem has the longest".to_owned());
    }
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
            "ratios of medians, with both intervals taken at their far ends: below 1 is faster than in the link. A link has \
             no samples, so there is no verdict"
                .to_owned(),
        );
    }
    Table { columns, rows, notes, ..Table::default() }
}

/// Returns a name with a capital, for the beginning of a sentence.
fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn dash() -> Cell {
    "–".into()
}

/// Returns median and interval.
fn figure(figure: Option<CaseFigure>) -> [Cell; 2] {
    let Some(figure) = figure else { return [dash(), dash()] };
    let precision = figure.precision().map_or_else(dash, |precision| format!("± {}", percent(precision)).into());
    [figure.median.to_string().into(), precision]
}

/// Returns the ratio of two figures, with its interval if both have one.
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
    use parallax_schema::testing::{run, spread};

    const CASES: [&str; 2] = ["a/fwd/b1/f32/x", "a/fwd/b1/f32/y"];

    fn summary(times: &[f64]) -> RunSummary {
        let cases: Vec<_> = CASES.iter().zip(times).map(|(case, time)| (*case, spread(*time, 0.02, 40))).collect();
        RunSummary::of(&run("browser", "X", &cases))
    }

    #[test]
    fn ours_stands_beside_theirs_with_a_ratio_and_no_verdict() {
        let mut linked = summary(&[100.0, 300.0]);
        let alone = linked_table(&linked, None);
        assert_eq!((alone.columns.len(), alone.rows.len(), alone.notes.len()), (4, 2, 1));
        assert_eq!(alone.rows.iter().map(|row| row[1].bar).collect::<Vec<_>>(), [Some(100), Some(33)]);
        (linked.left_out, linked.left_out_bad) = (7, 2);
        let table = linked_table(&linked, Some(("this device", &summary(&[150.0]))));
        let last = |row: usize| table.rows[row].last().expect("a ratio").text.clone();
        assert!(last(0).starts_with("1.500× [1.4") && last(0).contains(", 1.5"), "{}", last(0));
        assert_eq!(last(1), "–", "ours has no such case");
        assert!(table.notes[1].contains("7 more cases, 2 of which did not pass"), "{:?}", table.notes);
        assert_eq!(linked_answer(&linked, None), "X: 9 cases, 2 not correct.");
        (linked.left_out_bad, linked.browser) = (0, Some("Chromium 156 on Linux".to_owned()));
        let answer = linked_answer(&linked, Some(("this device", &summary(&[150.0]))));
        let none = linked_answer(&linked, Some(("this device", &RunSummary::of(&run("browser", "X", &[])))));
        assert!(none.ends_with(" This device has none of them."), "{none}");
        assert_eq!(
            answer,
            "X in Chromium 156 on Linux: 9 cases, all correct. This device takes 1.50× as long (1 case)."
        );
    }
}
