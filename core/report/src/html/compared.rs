//! Verdicts as a table and as bars.

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_analysis::compare::verdict::{Ratio, digits};
use parallax_analysis::compare::{Comparison, MeanRatio, Pair, Unpaired};
use parallax_schema::catalog::Catalog;
use parallax_schema::units::{counted, percent};

use super::ratios::ratios;
use super::{anchored, short, table};
use crate::{Cell, Column, Rank, Table, alone, differ_in_precision, elsewhere, judged, named, remarks};

/// Returns the verdicts of a comparison and its ratios.
pub(crate) fn compared(catalog: &dyn Catalog, comparison: &Comparison) -> Markup {
    let base = &comparison.runs[comparison.base].name;
    html! {
        section {
            h2 { "Verdicts" }
            (anchored(&verdicts(catalog, comparison)))
        }
        @if let Some(scores) = crate::compared_scores(comparison) { section { h2 { "Scores" } (table(&scores)) } }
        section {
            h2 { "Ratios" }
            p.soft { (axis_note(base)) }
            @for i in plotted(comparison) {
                figure.card {
                    figcaption { (comparison.runs[i].name) " ÷ " (base) }
                    (ratios(comparison, i))
                }
            }
        }
    }
}

/// Returns the verdicts with a closed table per family of workloads, and the scores.
pub(crate) fn verdicts_by_family(catalog: &dyn Catalog, comparison: &Comparison) -> Markup {
    let comparison = &comparison.clone().by_case();
    let cases = |family: Family| comparison.pairs.iter().filter(move |pair| Family::of(&pair.case) == family);
    html! {
        section {
            h2 { "Verdicts" }
            @for family in Family::ALL.into_iter().filter(|family| cases(*family).next().is_some()) {
                details.family data-f=(family.key()) {
                    summary { (family.name()) ": " (summary(comparison, family)) }
                    (anchored(&verdicts(catalog, &Comparison { pairs: cases(family).cloned().collect(), unpaired: of(&comparison.unpaired, family), notes: Vec::new(), ..comparison.clone() })))
                }
            }
            ul.soft { @for note in &comparison.notes { li { (note) } } }
        }
        @if let Some(scores) = crate::compared_scores(comparison) { section { h2 { "Scores" } (table(&scores)) } }
    }
}

/// Returns the ratios of a run to the base, in the order of cases, with the meaning of their axis.
pub(crate) fn ratios_of(comparison: &Comparison, run: usize) -> Markup {
    let base = &comparison.runs[comparison.base].name;
    html! { p.soft { (axis_note(base)) } (ratios(&comparison.clone().by_case(), run)) }
}

/// Returns the explanation of the axis of ratios.
fn axis_note(base: &str) -> String {
    format!("Time over {base}'s time on a logarithmic axis.")
}

/// Returns the positions of the runs with a ratio.
pub(crate) fn plotted(comparison: &Comparison) -> Vec<usize> {
    let with_ratios = |i: &usize| comparison.ratios().any(|(run, _, _)| run == *i);
    (0..comparison.runs.len()).filter(with_ratios).collect()
}

/// Returns the cases without a partner of a family.
fn of(alone: &[Unpaired], family: Family) -> Vec<Unpaired> {
    alone.iter().filter(|alone| Family::of(&alone.case) == family).cloned().collect()
}

/// Returns the number of cases of a family, and the mean ratio of each run.
fn summary(comparison: &Comparison, family: Family) -> String {
    let cases = comparison.pairs.iter().filter(|pair| Family::of(&pair.case) == family);
    let count = counted(cases.clone().count(), "case");
    let mean = |run: usize| {
        let mean = MeanRatio::of(cases.clone().filter_map(|pair| pair.ratios[run].as_ref()))?;
        Some(format!("{} {}", comparison.runs[run].name, short(mean.value)))
    };
    let means = (0..comparison.runs.len()).filter_map(mean);
    std::iter::once(count).chain(means).collect::<Vec<_>>().join("; ")
}

/// Returns a table with a row per case: the time of each run, with its share of the ceiling, and its ratio to the base. A ratio has
/// its interval and its minimum detectable effect.
pub(super) fn verdicts(catalog: &dyn Catalog, comparison: &Comparison) -> Table {
    let base = &comparison.runs[comparison.base].name;
    let others: Vec<usize> = (0..comparison.runs.len()).filter(|i| *i != comparison.base).collect();
    let away = others.iter().any(|i| elsewhere(comparison, *i));
    let mut columns = vec![Column::text("case")];
    columns.extend(comparison.runs.iter().map(|run| Column::figure(&run.name, Rank::Useful)));
    let over = |i: &usize| Column::figure(&format!("{} ÷ {base}", comparison.runs[*i].name), Rank::Essential);
    columns.extend(others.iter().map(over));
    let time = |pair: &Pair, i: usize| match pair.figures[i] {
        None => dash(),
        Some(figure) => {
            let cell = Cell::from(figure.median.to_string());
            let used = figure.utilisation.filter(|_| away).map(|used| format!("{} of ceiling", percent(used)));
            let error = figure.errors.filter(|_| differ_in_precision(pair));
            let error = error.map(|errors| format!("RMS error {}", errors.rms_in_words()));
            let more: Vec<String> = used.into_iter().chain(error).collect();
            if more.is_empty() { cell } else { cell.with(more.join(", ")) }
        }
    };
    let row = |pair: &Pair| {
        let mut row: Vec<Cell> = vec![named(catalog, &pair.case)];
        row.extend((0..comparison.runs.len()).map(|i| time(pair, i)));
        row.extend(others.iter().map(|i| pair.ratios[*i].as_ref().map_or_else(dash, verdict)));
        row
    };
    let mut notes = vec![
        "ratios are times over the base's time: below 1 is faster; the second line is the 95 % interval".to_owned(),
        "MDE: minimum detectable effect, the smallest change that the two runs could have shown".to_owned(),
    ];
    notes.extend(comparison.notes.iter().cloned());
    notes.extend(alone(comparison));
    notes.push(comparison.tally());
    let column = |run: usize| 1 + comparison.runs.len() + others.iter().position(|o| *o == run).unwrap_or(0);
    let rows = comparison.pairs.iter().map(row).collect();
    Table { columns, rows, remarks: remarks(comparison, column), notes, ..Table::default() }
}

fn dash() -> Cell {
    "–".into()
}

/// Returns a ratio with its verdict, and below it the interval and the MDE.
fn verdict(ratio: &Ratio) -> Cell {
    let interval = ratio.low.zip(ratio.high).map(|(low, high)| format!("[{}, {}]", digits(low), digits(high)));
    let detectable = ratio.detectable.map(|least| format!("MDE {}", percent(least)));
    let more: Vec<String> = interval.into_iter().chain(detectable).collect();
    let Cell { text, short, tone, .. } = judged(ratio);
    let cell = Cell { tone, ..short.unwrap_or(text).into() };
    cell.with(more.join(", "))
}
