//! Curves of training: a score of a case over its steps.

use std::collections::BTreeMap;

use maud::{Markup, html};
use parallax_schema::record::{NamedRun, Record};
use parallax_schema::units::four_digits;

use super::plot::{Axis, LINE, WIDTH, across, number_labels, px, svg, twin, up};
use crate::{Cell, Column, Rank, Table};

const TOP: f64 = 8.0;
const BOTTOM: f64 = 124.0;
const LEFT: f64 = 56.0;

/// Score over the steps of a training: steps and values, in order of steps.
type Curve = Vec<(u64, f64)>;

/// Returns a section with the curves of every case; nothing without one.
pub(super) fn training(runs: &[NamedRun]) -> Markup {
    let of_run = |named: &'_ NamedRun| {
        let of_record = |record: &Record| {
            let title = |score: &str| format!("{}, {}: {score} by step", named.name, record.case);
            curves(record).into_iter().map(|(score, curve)| (title(score), figure(score, &curve))).collect::<Vec<_>>()
        };
        named.run.records.iter().flat_map(of_record).collect::<Vec<_>>()
    };
    let figures: Vec<(String, Markup)> = runs.iter().flat_map(of_run).collect();
    html! {
        @if !figures.is_empty() {
            section {
                h2 { "Training" }
                div.cards { @for (title, figure) in figures { figure.card { figcaption { (title) } (figure) } } }
            }
        }
    }
}

/// Formats a round number without zeros at its end.
fn round(tick: f64) -> String {
    let text = four_digits(tick);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Returns the scores with at least two steps.
fn curves(record: &Record) -> BTreeMap<&str, Curve> {
    let mut curves: BTreeMap<&str, Curve> = BTreeMap::new();
    for score in record.measured().iter().flat_map(|measured| &measured.scores) {
        if let Some((name, step)) = score.step() {
            curves.entry(name).or_default().push((step, score.value));
        }
    }
    curves.values_mut().for_each(|curve| curve.sort_by_key(|(step, _)| *step));
    curves.retain(|_, curve| curve.len() > 1);
    curves
}

/// Returns a curve as a plot and as a table.
fn figure(score: &str, curve: &[(u64, f64)]) -> Markup {
    let last = curve.last().map_or(0, |(step, _)| *step) as f64;
    let (low, high) = curve.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (_, v)| (a.min(*v), b.max(*v)));
    let (x, y) = (Axis::linear(0.0, last, LEFT, WIDTH - 6.0), Axis::fitting(low, high, BOTTOM, TOP));
    let (across_ticks, up_ticks) = (x.ticks(4), y.ticks(4));
    let levels: Vec<String> = up_ticks.iter().map(|tick| round(*tick)).collect();
    let points = curve.iter().map(|(step, value)| format!("{},{}", px(x.at(*step as f64)), px(y.at(*value))));
    let inside = html! {
        (across(&x, &across_ticks, &number_labels(&across_ticks), TOP, BOTTOM))
        (up(&y, &up_ticks, &levels, LEFT, WIDTH - 6.0))
        g.device { polyline.curve points=(points.collect::<Vec<_>>().join(" ")) {} }
    };
    let row = |(step, value): &(u64, f64)| [step.to_string(), four_digits(*value)].map(Cell::from).into();
    let table = Table {
        columns: vec![Column::text("step"), Column::figure(score, Rank::Essential)],
        rows: curve.iter().map(row).collect(),
        ..Table::default()
    };
    html! { (svg(BOTTOM + LINE + 3.0, &format!("{score} over the steps"), inside)) (twin(&table)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::Better;
    use parallax_schema::testing::{measured, run, score, spread};

    #[test]
    fn labels_of_ticks_are_short() {
        let ticks = [3.0 * 0.1, 0.01, 1.0, 20.0, 1000.0, 0.0];
        assert_eq!(ticks.map(round), ["0.3", "0.01", "1", "20", "1000", "0"]);
    }

    #[test]
    fn scores_with_steps_are_a_curve() {
        const CASE: &str = "train_step/fwd+bwd/e4/f32/fused";
        let of = |names: &[&str]| {
            let mut run = run("cpu", "X", &[(CASE, spread(100.0, 0.002, 40))]);
            let scores = names.iter().zip(1..).map(|(name, n)| score(name, 1.0 / f64::from(n), Better::Lower));
            measured(&mut run, CASE).scores = scores.collect();
            training(&[NamedRun::new("a", run)]).into_string()
        };
        let steps = ["loss at step 200", "accuracy", "loss at step 100", "loss at step 300"];
        let text = of(&steps);
        for part in ["a, train_step/fwd+bwd/e4/f32/fused: loss by step", "<polyline", ">100<", ">0.3333<"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for none in [&["accuracy"][..], &["loss at step 100"], &["loss at step x", "loss at step -1"]] {
            assert_eq!(of(none), "", "{none:?}");
        }
    }
}
