//! Ratios against the base as interval bars, with the band inside which differences do not count.

use maud::{Markup, html};

use super::plot::{Axis, WIDTH, across, number_labels, px, svg};
use crate::compare::Comparison;
use crate::compare::verdict::{Ratio, digits};

const ROW: f64 = 28.0;

/// The bars of one run.
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
    let bottom = rows.len() as f64 * ROW + 2.0;
    let ticks = axis.ticks(5);
    let inside = html! {
        (across(&axis, &ticks, &number_labels(&ticks), 0.0, bottom))
        @for (i, (case, ratio)) in rows.iter().enumerate() { (one(&axis, i as f64 * ROW, case, ratio)) }
        line.one x1=(px(axis.at(1.0))) x2=(px(axis.at(1.0))) y1="0" y2=(px(bottom)) {}
    };
    svg(bottom + 15.0, "ratios of medians with their intervals", inside)
}

fn one(axis: &Axis, top: f64, case: &str, ratio: &Ratio) -> Markup {
    let edge = 1.0 + ratio.resolution.value;
    let (from, to) = (axis.at(1.0 / edge), axis.at(edge));
    let y = px(top + ROW - 7.0);
    let verdict = ratio.verdict.name();
    html! {
        g class=(verdict) {
            title { (case) ": " (ratio) }
            rect.band x=(px(from)) y=(px(top + ROW - 12.0)) width=(px((to - from).max(0.5))) height="10" {}
            text.tick x="4" y=(px(top + 11.0)) { (shortened(case)) }
            text.end.(verdict) x=(px(WIDTH - 4.0)) y=(px(top + 11.0)) { (digits(ratio.value)) "× " (verdict) }
            @if let (Some(low), Some(high)) = (ratio.low, ratio.high) {
                line.whisker x1=(px(axis.at(low))) x2=(px(axis.at(high))) y1=(y) y2=(y) {}
            }
            circle.point cx=(px(axis.at(ratio.value))) cy=(y) r="3.5" {}
        }
    }
}

/// A case that fits beside its verdict: the middle gives way, for both ends matter.
fn shortened(case: &str) -> String {
    const MOST: usize = 44;
    let letters: Vec<char> = case.chars().collect();
    if letters.len() <= MOST {
        return case.to_owned();
    }
    let (head, tail) = (&letters[..MOST / 2], &letters[letters.len() - MOST / 2 + 1..]);
    head.iter().chain(&['…']).chain(tail).collect()
}
