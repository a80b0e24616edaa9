//! Ratios over the base as interval bars, with the band of differences that do not count.

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_analysis::compare::Comparison;
use parallax_analysis::compare::verdict::{Ratio, digits};
use parallax_schema::case::{problem_of, variant_of};

use super::plot::{Axis, RATIO_AXIS, TIMES, WIDTH, bare_row, px, ratio_axis, ratio_ticks, svg, upright};
use super::{mark, marks};

/// Height of one bar.
const ROW: f64 = 16.0;

/// Returns the bars of one run. Names and figures are text beside the plot, which breaks if a phone has no room.
pub(super) fn ratios(comparison: &Comparison, run: usize) -> Markup {
    let rows: Vec<(&str, &Ratio)> =
        comparison.ratios().filter(|(i, _, _)| *i == run).map(|(_, case, ratio)| (case, ratio)).collect();
    let ends = |r: &Ratio| {
        let edge = 1.0 + r.resolution.value;
        [r.value, r.low.unwrap_or(r.value), r.high.unwrap_or(r.value), edge * edge, 1.0 / (edge * edge)]
    };
    let shown = rows.iter().flat_map(|(_, r)| ends(r)).filter(|v| v.is_finite() && *v > 0.0);
    let (low, high) = shown.fold((1.0f64, 1.0f64), |(a, b), v| (a.min(v), b.max(v)));
    let axis = Axis::log(low, high, 4.0, WIDTH - 4.0);
    let (ticks, labels) = ratio_ticks(&axis);
    html! {
        (marks::legend(&[marks::INTERVAL, marks::UNDECIDED, marks::BAND]))
        div.ratios {
            @for (case, ratio) in &rows {
                div.problem.(ratio.verdict.name()) data-f=(Family::of(case).key()) {
                    div.name.(mark::of_case(case)) { (named(case)) }
                    div.verdict title=(ratio) { (digits(ratio.value)) "× " (ratio.verdict.name()) }
                    (bare_row(ROW, &format!("{case}: {ratio}"), one(&axis, &ticks, ratio)))
                }
            }
            div.scale { (svg(RATIO_AXIS, "times over the base's time", ratio_axis(&axis, &ticks, &labels, TIMES))) }
        }
    }
}

/// Returns a case with a possible line break before its variant. The page has a row per case and run, so each element counts.
fn named(case: &str) -> Markup {
    html! { (problem_of(case)) "/" wbr; (variant_of(case)) }
}

fn one(axis: &Axis, ticks: &[f64], ratio: &Ratio) -> Markup {
    let edge = 1.0 + ratio.resolution.value;
    let (from, to) = (axis.at(1.0 / edge), axis.at(edge));
    let y = px(ROW / 2.0);
    html! {
        (upright(axis, ticks, ROW))
        rect.band x=(px(from)) y="3" width=(px((to - from).max(0.5))) height=(px(ROW - 6.0)) {}
        line.one x1=(px(axis.at(1.0))) x2=(px(axis.at(1.0))) y1="0" y2=(px(ROW)) {}
        @if let (Some(low), Some(high)) = (ratio.low, ratio.high) {
            line.whisker x1=(px(axis.at(low))) x2=(px(axis.at(high))) y1=(y) y2=(y) {}
        }
        circle.point cx=(px(axis.at(ratio.value))) cy=(y) r="3.5" {}
    }
}
