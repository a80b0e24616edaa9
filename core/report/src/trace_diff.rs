//! Difference of two traces for readers.

use parallax_analysis::compare::verdict::digits;
use parallax_analysis::trace::diff::{StageDiff, StageFigure, StageVerdict, TraceDiff};
use parallax_schema::record::stats::FEWEST;
use parallax_schema::units::{Nanos, counted};

use crate::{Cell, Column, Rank, Table, Tone};

/// Returns the difference of two traces as a table, one row per stage.
pub fn trace_diff_table(diff: &TraceDiff) -> Table {
    let columns = vec![
        Column::text("case"),
        Column::text("stage"),
        Column::figure("A", Rank::Essential),
        Column::figure("B", Rank::Essential),
        Column::figure("growth", Rank::Essential),
        Column::figure("B ÷ A", Rank::Useful),
        Column::figure("times", Rank::Extra),
        Column::figure("verdict", Rank::Essential),
    ];
    let counts = StageVerdict::ALL.map(|verdict| format!("{} {}", diff.count(verdict), verdict.name()));
    let mut notes = vec![format!("of {}: {}", counted(diff.stages.len(), "stage"), counts.join(", "))];
    let few = diff.without_interval();
    if few > 0 {
        let of = counted(few, "stage");
        notes.push(format!("{of} with fewer than {FEWEST} times: record more, as with `run --schedule active=20`"));
    }
    Table { columns, rows: diff.stages.iter().map(row).collect(), grouped: true, notes, ..Table::default() }
}

fn row(stage: &StageDiff) -> Vec<Cell> {
    let dash = || "–".to_owned();
    let median = |figure: Option<StageFigure>| figure.map_or_else(dash, |figure| figure.median.to_string());
    let count = |figure: Option<StageFigure>| figure.map_or(0, |figure| figure.count);
    let tone = match stage.verdict {
        StageVerdict::Slower => Tone::Bad,
        StageVerdict::Faster => Tone::Good,
        StageVerdict::Undecided => Tone::Doubtful,
        StageVerdict::Came | StageVerdict::Went => Tone::Plain,
    };
    let case = if stage.case.is_empty() { dash() } else { stage.case.clone() };
    vec![
        case.into(),
        stage.stage.as_str().into(),
        median(stage.a).into(),
        median(stage.b).into(),
        signed(stage.growth).into(),
        stage.ratio.map_or_else(dash, |ratio| format!("{}×", digits(ratio))).into(),
        format!("{}, {}", count(stage.a), count(stage.b)).into(),
        Cell { tone, ..stage.verdict.name().into() },
    ]
}

/// Returns a difference of times with its sign.
fn signed(time: Nanos) -> String {
    let sign = match time.0 {
        t if t > 0.0 => "+",
        t if t < 0.0 => "−",
        _ => "",
    };
    format!("{sign}{}", Nanos(time.0.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::trace::stages::stage_times;

    #[test]
    fn stages_stand_below_each_other_with_their_growth() {
        let trace = |stages: &[(&str, f64)]| {
            let event = |(name, micros): &(&str, f64)| {
                format!(r#"{{"ph":"X","cat":"kernel","name":"{name}","dur":{micros},"args":{{"case":"a|b"}}}}"#)
            };
            let all: Vec<String> = stages.iter().flat_map(|stage| vec![event(stage); 8]).collect();
            stage_times(format!("[{}]", all.join(",")).as_bytes()).expect("a trace")
        };
        let (a, b) = (trace(&[("one", 10.0), ("old", 2.0)]), trace(&[("one", 15.0), ("new", 1.0)]));
        let table = trace_diff_table(&TraceDiff::of(&a, &b, &[])).markdown();
        assert!(table.contains(r"| a\|b | one | 10.0 µs | 15.0 µs | +5.00 µs | 1.500× | 8, 8 | slower |"), "{table}");
        assert!(table.contains("| old | 2.00 µs | – | −2.00 µs | – | 8, 0 | went |"), "{table}");
        assert!(table.contains("of 3 stages: 1 slower, 0 faster, 0 undecided, 1 came, 1 went"), "{table}");
        let few = |count| StageFigure { count, median: Nanos(1.0), low: None, high: None };
        let stage = StageDiff { a: Some(few(2)), b: Some(few(2)), ..TraceDiff::of(&a, &b, &[]).stages[0].clone() };
        let notes = trace_diff_table(&TraceDiff { stages: vec![stage] }).notes;
        assert!(notes[1].starts_with("1 stage with fewer than 6 times"), "{notes:?}");
    }
}
