//! Strips of all samples of a case, one per run, with the interval of the median.

use std::collections::BTreeSet;
use std::fmt::Write;

use maud::{Markup, html};
use parallax_analysis::compare::timed;
use parallax_schema::record::{NamedRun, Timing};
use parallax_schema::units::percent;

use super::mark;
use super::plot::{Axis, LETTER, LINE, WIDTH, across, px, svg, time_labels};

/// Height of one run's name, figures and strip.
const ROW: f64 = 2.0 * LINE + STRIP + 6.0;
/// Height of the strip itself.
const STRIP: f64 = 18.0;
/// Height of the labels of an axis.
const AXIS: f64 = LINE + 3.0;
/// Largest total range of runs on a shared axis, in multiples of the widest run's range.
const FAR: f64 = 6.0;

/// Returns the strips of one case, a row per run that has a time for it, in its family's colour.
pub(super) fn strip(case: &str, runs: &[NamedRun]) -> Markup {
    let colour = mark::of_case(case);
    let rows: Vec<(&str, &Timing)> =
        runs.iter().filter_map(|NamedRun { name, run }| Some((name.as_str(), timed(run, case)?.timing()?))).collect();
    let ranges: Vec<(f64, f64)> = rows.iter().filter_map(|(_, timing)| range(timing)).collect();
    if ranges.len() < rows.len() || rows.is_empty() {
        return html! {};
    }
    let (low, high) = ranges.iter().fold((f64::INFINITY, 0.0f64), |(a, b), r| (a.min(r.0), b.max(r.1)));
    let widest = ranges.iter().map(|(a, b)| b - a).fold(0.0, f64::max);
    let axis = |low, high| Axis::fitting(low, high, 4.0, WIDTH - 4.0);
    // On one axis, runs that are far apart would shrink to lines.
    let (height, inside) = if ranges.len() == 1 || high - low <= FAR * widest {
        let axis = axis(low, high);
        let bottom = rows.len() as f64 * ROW + 4.0;
        let inside = html! {
            (scale(&axis, 0.0, bottom))
            @for (row, (name, timing)) in rows.iter().enumerate() {
                g.(colour) { (one(&axis, row as f64 * ROW, name, timing)) }
            }
        };
        (bottom + AXIS, inside)
    } else {
        let inside = html! {
            @for (row, ((name, timing), (low, high))) in rows.iter().zip(&ranges).enumerate() {
                @let (axis, top) = (axis(*low, *high), row as f64 * (ROW + AXIS));
                (scale(&axis, top + ROW - STRIP - 4.0, top + ROW))
                g.(colour) { (one(&axis, top, name, timing)) }
            }
        };
        (rows.len() as f64 * (ROW + AXIS), inside)
    };
    svg(height, &format!("samples of {case}"), inside)
}

/// Returns all samples and their median without words, for a line of text.
pub(super) fn small(samples: &[f64], median: f64, colour: &str) -> Markup {
    const WIDTH: f64 = 120.0;
    let drawn = || samples.iter().copied().filter(|time| time.is_finite());
    let (low, high) = drawn().fold((f64::INFINITY, 0.0f64), |(a, b), time| (a.min(time), b.max(time)));
    let axis = Axis::fitting(low, high, 2.0, WIDTH - 2.0);
    let middle = px(axis.at(median));
    html! {
        svg.(colour) viewBox=(format!("0 0 {WIDTH} {STRIP}")) aria-hidden="true" {
            path.dots d=(dots(&axis, 0.0, STRIP, samples)) {}
            line.median x1=(middle) x2=(middle) y1="0" y2=(STRIP) {}
        }
    }
}

/// Returns the smallest and the largest sample, including discarded ones.
fn range(timing: &Timing) -> Option<(f64, f64)> {
    let all = timing.samples.iter().copied().chain(timing.discarded.iter().map(|s| s.time));
    all.filter(|t| t.is_finite()).map(|t| (t, t)).reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
}

fn scale(axis: &Axis, top: f64, bottom: f64) -> Markup {
    let ticks = axis.ticks(4);
    across(axis, &ticks, &time_labels(&ticks), top, bottom)
}

fn one(axis: &Axis, top: f64, name: &str, timing: &Timing) -> Markup {
    let summary = &timing.summary;
    let (from, to) = (axis.at(summary.low.0), axis.at(summary.high.0));
    let middle = axis.at(summary.median.0);
    let strip = top + ROW - STRIP - 2.0;
    let interval = match summary.precision() {
        p if p.is_finite() => format!(" ± {}", percent(p)),
        _ => String::new(),
    };
    let aside = match timing.discarded.len() {
        0 => String::new(),
        n => format!(", {n} discarded"),
    };
    let outside = timing.discarded.first().map(|sample| format!("; discarded, such as: {}", sample.reason));
    html! {
        title {
            (name) ": " (summary.median) (interval) "; all samples within " (summary.min) " and " (summary.max)
            (outside.unwrap_or_default())
        }
        circle.swatch cx="8" cy=(px(top + LINE - 5.0)) r="3.5" {}
        // Two lines: on a phone both in one line would overlap.
        text x="15" y=(px(top + LINE - 1.0)) { (name.chars().take(((WIDTH - 15.0) / LETTER) as usize).collect::<String>()) }
        text.tick x="15" y=(px(top + 2.0 * LINE - 2.0)) {
            (summary.median) (interval) ", n = " (summary.n) (aside)
        }
        rect.bar x=(px(from)) y=(px(strip)) width=(px((to - from).max(1.0))) height=(px(STRIP)) {}
        path.dots d=(dots(axis, strip, STRIP, &timing.samples)) {}
        line.median x1=(px(middle)) x2=(px(middle)) y1=(px(strip)) y2=(px(strip + STRIP)) {}
        @if !timing.discarded.is_empty() {
            path.aside d=(crosses(axis, strip, timing)) {}
        }
    }
}

/// Returns every sample as a dot, in one path. Heights follow from the sample's number, so that dots do not pile up. Dots on the
/// same spot are drawn once.
fn dots(axis: &Axis, top: f64, height: f64, samples: &[f64]) -> String {
    let mut seen = BTreeSet::new();
    let mut path = String::new();
    for (i, sample) in samples.iter().enumerate() {
        // Multiples of the golden ratio fill an interval evenly (Weyl's sequence).
        let part = (i as f64 * 0.618_033_988_749_895).fract();
        let (x, y) =
            ((axis.at(*sample) * 2.0).round() as i64, ((top + 3.0 + part * (height - 6.0)) * 2.0).round() as i64);
        if seen.insert((x, y)) {
            let _ = write!(path, "M{} {}h0", px(x as f64 / 2.0), px(y as f64 / 2.0));
        }
    }
    path
}

/// Returns the discarded samples as crosses.
fn crosses(axis: &Axis, top: f64, timing: &Timing) -> String {
    let y = top + STRIP / 2.0;
    let cross = |x: f64| format!("M{} {}l5 5m0-5l-5 5", px(x - 2.5), px(y - 2.5));
    timing.discarded.iter().map(|s| cross(axis.at(s.time))).collect()
}
