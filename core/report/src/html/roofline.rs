//! Roofline plot: every case of a run under the ceilings of its device, on logarithmic axes.
//!
//! Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_schema::record::roofline::Ceilings;
use parallax_schema::record::{CounterFigures, Record, Run};
use parallax_schema::units::{percent, scaled, three_digits};

use super::mark;
use super::plot::{Axis, LETTER, LINE, WIDTH, in_lines, px, round_rate, spot, svg_of_spots, twin, up};
use crate::{Cell, Column, Rank, Table};

const TOP: f64 = LINE + 4.0;
const BOTTOM: f64 = 236.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 6.0;
/// Top of the text about the active point, below the axis and its name.
const SAID: f64 = BOTTOM + 4.0 * LINE;
/// Number of lines of that text: a case takes two, its figures one.
const SAID_LINES: f64 = 3.0;

/// A case as a point: operations per byte, operations per second.
struct Point<'a> {
    record: &'a Record,
    intensity: f64,
    rate: f64,
    /// Operations per byte of device memory by hardware counters.
    counted: Option<f64>,
}

impl<'a> Point<'a> {
    fn of(record: &'a Record) -> Option<Point<'a>> {
        let median = record.timing()?.summary.median;
        let own = record.cost.flops.0 as f64 / record.cost.moved().0 as f64;
        let intensity = record.measured()?.analysis.as_ref().map_or(own, |a| a.intensity);
        let rate = record.cost.flops.per(median);
        let drawable = |v: f64| v.is_finite() && v > 0.0;
        let counted = record.counters().and_then(CounterFigures::dram_bytes);
        let counted = counted.map(|bytes| record.cost.flops.0 as f64 / bytes).filter(|counted| drawable(*counted));
        (drawable(intensity) && drawable(rate)).then_some(Point { record, intensity, rate, counted })
    }

    /// Returns the share of the binding ceiling.
    fn used(&self) -> Option<String> {
        let analysis = self.record.measured()?.analysis.as_ref()?;
        Some(percent(analysis.utilisation))
    }

    /// Returns the figures of the point in one line.
    fn said(&self) -> String {
        let used = self.used().map_or_else(String::new, |used| format!(", {used} of its ceiling"));
        let counted =
            self.counted.map_or_else(String::new, |counted| format!(" ({} by counters)", three_digits(counted)));
        format!("{}, {} FLOP/B{counted}{used}", scaled(self.rate, "FLOP/s"), three_digits(self.intensity))
    }

    /// Returns the lines below the plot while the point is active.
    fn lines(&self) -> Vec<String> {
        let mut lines = in_lines(&self.record.case);
        lines.push(self.said());
        lines
    }
}

/// Returns the points of a run.
fn points(run: &Run) -> Vec<Point<'_>> {
    run.records.iter().filter_map(Point::of).collect()
}

/// Returns the families in the plot.
pub(super) fn families(run: &Run) -> Vec<Family> {
    mark::families(points(run).iter().map(|point| point.record.case.as_str()))
}

/// Returns the height of the plot, and its axes, ceilings and points; `None` if no case does arithmetic.
pub(super) fn drawing(run: &Run) -> Option<(f64, Markup)> {
    let points = points(run);
    let none = Ceilings::default();
    let ceilings = run.baseline.as_ref().map_or(&none, |b| &b.ceilings);
    let (x, y) = axes(&points, ceilings);
    let inside = html! {
        (grid(&x, &y))
        (roofs(&x, &y, ceilings))
        text.tick.hint x="2" y=(px(SAID)) { "Point at a dot, tap it, or reach it by Tab." }
        @for point in &points {
            @let family = Family::of(&point.record.case);
            g class=(mark::class(family)) {
                @if let Some(counted) = point.counted {
                    @let (from, to, at) = (x.at(point.intensity), x.at(counted), y.at(point.rate));
                    line.counted x1=(px(from)) x2=(px(to)) y1=(px(at)) y2=(px(at)) {}
                    circle.counted cx=(px(to)) cy=(px(at)) r="2.6" {}
                }
                @let dot = mark::shape(family, (x.at(point.intensity), y.at(point.rate)), 3.6, "point");
                (spot(&point.record.case, &format!("{}: {}", point.record.case, point.said()), &point.lines(), SAID, &dot))
            }
        }
    };
    (!points.is_empty()).then_some((BOTTOM + 2.0 * LINE, inside))
}

/// Returns the roofline of a run, with a legend of its families. Nothing if no case does arithmetic.
pub(crate) fn roofline(run: &Run) -> Markup {
    let Some((_, inside)) = drawing(run) else { return html! {} };
    let points = points(run);
    let left_out = run.records.iter().filter(|r| r.timing().is_some()).count() - points.len();
    let past = past(run);
    html! {
        a.past href=(format!("#{past}")) { "Skip " (points.len()) " points" }
        (svg_of_spots(SAID + SAID_LINES * LINE, &format!("roofline of {}", run.called()), inside))
        div.legend id=(past) tabindex="-1" {
            (mark::legend(&families(run)))
        }
        @if run.baseline.is_none() { p.soft { "The ceilings of this device were not measured." } }
        @if points.iter().any(|point| point.counted.is_some()) {
            p.soft { "A ring is the same case by the bytes that hardware counters found." }
        }
        @if left_out > 0 { p.soft { (left_out) " without arithmetic are not drawn." } }
        (twin(&figures(&points)))
    }
}

/// Returns the id of the element after the points, so that a keyboard user can skip them.
fn past(run: &Run) -> String {
    let target: String = run.target.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("past-{target}-{}", run.started)
}

/// Returns the points as a table.
fn figures(points: &[Point]) -> Table {
    let columns = ["FLOP/s", "FLOP/B", "of its ceiling"];
    let counted = points.iter().any(|point| point.counted.is_some()).then_some("FLOP/B by counters");
    let row = |point: &Point| {
        let dash = || "–".to_owned();
        let used = point.used().unwrap_or_else(dash);
        let cells = [point.record.case.clone(), scaled(point.rate, "FLOP/s"), three_digits(point.intensity), used];
        let by_counters = counted.map(|_| point.counted.map_or_else(dash, three_digits));
        cells.into_iter().chain(by_counters).map(Cell::from).collect()
    };
    Table {
        columns: std::iter::once(Column::text("case"))
            .chain(columns.into_iter().chain(counted).map(|title| Column::figure(title, Rank::Essential)))
            .collect(),
        rows: points.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Returns axes that contain every point, the ridge and the highest arithmetic ceiling.
fn axes(points: &[Point], ceilings: &Ceilings) -> (Axis, Axis) {
    let peak = ceilings.arithmetic.iter().map(|a| a.rate).fold(0.0, f64::max);
    let memory = ceilings.bandwidth.last().map_or(0.0, |b| b.rate);
    let around = |values: &mut dyn Iterator<Item = f64>| {
        let drawable = values.filter(|v| v.is_finite() && *v > 0.0);
        drawable.fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(v), b.max(v)))
    };
    // The ridge, at which memory could feed the best arithmetic, is always visible.
    let ridge = (peak > 0.0 && memory > 0.0).then(|| peak / memory);
    let (from, to) = around(&mut points.iter().flat_map(|p| p.counted.into_iter().chain([p.intensity])).chain(ridge));
    let x = Axis::log(from / 2.0, to * 3.0, LEFT, RIGHT);
    let (low, high) = around(&mut points.iter().map(|p| p.rate).chain([peak]));
    (x, Axis::log(low / 2.0, high * 2.0, BOTTOM, TOP))
}

fn grid(x: &Axis, y: &Axis) -> Markup {
    let rates = y.ticks(5);
    let labels: Vec<String> = rates.iter().map(|rate| round_rate(*rate)).collect();
    html! {
        @for tick in x.ticks(5) {
            @let at = x.at(tick);
            line.grid x1=(px(at)) x2=(px(at)) y1=(px(TOP)) y2=(px(BOTTOM)) {}
            text.tick.middle x=(px(at.min(WIDTH - 2.0 * LETTER))) y=(px(BOTTOM + LINE - 2.0)) { (plain(tick)) }
        }
        (up(y, &rates, &labels, LEFT, RIGHT))
        text.tick x="2" y=(px(LINE - 3.0)) { "FLOP/s" }
        text.tick.end x=(px(RIGHT)) y=(px(BOTTOM + 2.0 * LINE)) { "FLOP per byte of least traffic" }
    }
}

/// Formats a round number without noise after the point.
fn plain(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{:.*}", (-value.log10()).ceil() as usize, value) }
}

fn roofs(x: &Axis, y: &Axis, ceilings: &Ceilings) -> Markup {
    // The fastest working set and the largest: a cache and the device memory, or one and the same.
    let fastest = ceilings.bandwidth.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
    let largest = ceilings.bandwidth.last();
    let mut slopes: Vec<_> = fastest.into_iter().chain(largest).collect();
    slopes.dedup_by(|a, b| a == b);
    let peak = ceilings.arithmetic.iter().map(|a| a.rate).fold(0.0, f64::max);
    let top = if peak > 0.0 { peak } else { y.high() };
    let steepest = slopes.first().map_or(0.0, |b| b.rate);
    let heights: Vec<f64> = ceilings.arithmetic.iter().map(|a| y.at(a.rate)).collect();
    let labels = label_heights(&heights);
    html! {
        @for bandwidth in &slopes {
            @let (from, to) = (x.low().max(y.low() / bandwidth.rate), x.high().min(top / bandwidth.rate));
            @if to > from {
                @let (x1, y1) = (x.at(from), y.at(from * bandwidth.rate));
                @let (x2, y2) = (x.at(to), y.at(to * bandwidth.rate));
                @let angle = (y2 - y1).atan2(x2 - x1).to_degrees();
                @let label = format!("{} at {}", scaled(bandwidth.rate, "B/s"), bandwidth.working_set);
                line.roof x1=(px(x1)) y1=(px(y1)) x2=(px(x2)) y2=(px(y2)) { title { (label) ", by " (bandwidth.probe) } }
                // Above the upper line, below the lower, so that labels of close lines do not overlap.
                @let below = slopes.len() > 1 && bandwidth.rate < steepest;
                // A label longer than its line would run into others; the list of ceilings has its figure.
                @if (x2 - x1).hypot(y2 - y1) > (label.chars().count() + 1) as f64 * LETTER {
                    text.tick transform=(format!("translate({} {}) rotate({})", px(x1), px(y1), px(angle)))
                        x="6" y=(px(if below { LINE - 1.0 } else { -5.0 })) { (label) }
                }
            }
        }
        @for (i, arithmetic) in ceilings.arithmetic.iter().enumerate() {
            @let at = heights[i];
            @let from = if steepest > 0.0 { x.at(arithmetic.rate / steepest) } else { LEFT };
            @let unit = if arithmetic.matrix { " matrix" } else { "" };
            @let what = format!("{}{unit} {}", arithmetic.dtype.name(), scaled(arithmetic.rate, "FLOP/s"));
            line.roof x1=(px(from)) x2=(px(RIGHT)) y1=(px(at)) y2=(px(at)) { title { (what) ", by " (arithmetic.probe) } }
            @if let Some(label) = labels[i] { text.tick.end x=(px(RIGHT)) y=(px(label)) { (what) } }
        }
    }
}

/// Returns the heights of the labels of roofs: above the roof, or below it if another roof is in the way. A label that would
/// overlap another is omitted; the list of ceilings has its figure.
fn label_heights(roofs: &[f64]) -> Vec<Option<f64>> {
    let mut taken: Vec<f64> = Vec::new();
    let place = |at: &f64| {
        let in_the_way = roofs.iter().any(|other| (at - LINE..*at).contains(other));
        let label = if in_the_way { at + LINE - 2.0 } else { at - 3.0 };
        let free = !taken.iter().any(|other| (other - label).abs() < LINE - 2.0);
        free.then(|| {
            taken.push(label);
            label
        })
    };
    roofs.iter().map(place).collect()
}
