//! Parts of a report as markup for another page, which has the style sheets `parts.css` and `plot.css`. Everything that comes
//! from a run or a link is escaped.

use maud::html;

use super::drift::drift as drift_of;
use super::{Palette, compared, cost_figure, roofline_of, table};
use crate::compare::{Comparison, Cost};
use crate::record::{Run, RunSummary};
use crate::report;

/// Rows of a cost that are shown at once.
const SHOWN: usize = 14;

/// The roofline of a run alone; empty where no case does arithmetic.
pub fn roofline(run: &Run) -> String {
    roofline_of(run, &Palette::of([run])).into_string()
}

/// The reference kernel over a run alone; empty where there was no reference kernel.
pub fn drift(run: &Run) -> String {
    drift_of(run).into_string()
}

/// The summary in a link as a table, beside a run by name.
pub fn linked(linked: &RunSummary, ours: Option<(&str, &RunSummary)>) -> String {
    table(&report::linked_table(linked, ours)).into_string()
}

/// A comparison: what else the runs differ in, what targets cost on one GPU, verdicts and ratios.
pub fn comparison(runs: &[(String, Run)], comparison: &Comparison, costs: &[Cost]) -> String {
    let palette = &Palette::of(runs.iter().map(|(_, run)| run));
    let markup = html! {
        p { (comparison.tally()) }
        @for note in report::compared_runs(runs).notes { p.soft { (note) } }
        @if !costs.is_empty() {
            section {
                h2 { "What a target costs on one GPU" }
                @for cost in costs {
                    (cost_figure(cost, (&cost.base.name, &cost.other.name), SHOWN, palette, &html! {}))
                }
            }
        }
        (compared(comparison, palette))
    };
    markup.into_string()
}
