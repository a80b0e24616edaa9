//! Every case of a run under the ceilings of its device, on logarithmic axes.
//!
//! Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.

use maud::{Markup, html};

use super::plot::{Axis, Palette, WIDTH, px, svg};
use crate::record::roofline::Ceilings;
use crate::record::{Record, Run};
use crate::units::{percent, scaled, three_digits};

const TOP: f64 = 14.0;
const BOTTOM: f64 = 236.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 6.0;

/// A case as a point: operations per byte, operations per second.
struct Point<'a> {
    record: &'a Record,
    intensity: f64,
    rate: f64,
}

impl<'a> Point<'a> {
    fn of(record: &'a Record) -> Option<Point<'a>> {
        let median = record.timing()?.summary.median;
        let own = record.cost.flops.0 as f64 / record.cost.moved().0 as f64;
        let intensity = record.measured()?.analysis.as_ref().map_or(own, |a| a.intensity);
        let rate = record.cost.flops.per(median);
        let drawable = |v: f64| v.is_finite() && v > 0.0;
        (drawable(intensity) && drawable(rate)).then_some(Point { record, intensity, rate })
    }
}

/// The roofline of a run, with a legend of its workloads. Nothing where no case does arithmetic.
pub(crate) fn roofline(run: &Run, palette: &Palette<'_>) -> Markup {
    let points: Vec<Point> = run.records.iter().filter_map(Point::of).collect();
    if points.is_empty() {
        return html! {};
    }
    let mut workloads: Vec<&str> = points.iter().map(|p| p.record.parts.workload.as_str()).collect();
    workloads.sort_unstable();
    workloads.dedup();
    let left_out = run.records.iter().filter(|r| r.timing().is_some()).count() - points.len();
    let none = Ceilings::default();
    let ceilings = run.baseline.as_ref().map_or(&none, |b| &b.ceilings);
    let (x, y) = axes(&points, ceilings);
    let inside = html! {
        (grid(&x, &y))
        (roofs(&x, &y, ceilings))
        @for point in &points {
            g class=(palette.class(&point.record.parts.workload)) {
                circle.point cx=(px(x.at(point.intensity))) cy=(px(y.at(point.rate))) r="3.6" {
                    title { (about(point)) }
                }
            }
        }
    };
    html! {
        (svg(BOTTOM + 28.0, &format!("roofline of {}", run.device().name), inside))
        div.legend {
            @for workload in &workloads { span class=(palette.class(workload)) { i {} (workload) } }
        }
        @if run.baseline.is_none() { p.soft { "The ceilings of this device were not measured." } }
        @if left_out > 0 { p.soft { (left_out) " without arithmetic are not drawn." } }
    }
}

fn about(point: &Point) -> String {
    let record = point.record;
    let at = format!("{}: {} at {} FLOP/B", record.case, scaled(point.rate, "FLOP/s"), three_digits(point.intensity));
    match record.measured().and_then(|m| m.analysis.as_ref()) {
        Some(analysis) => format!("{at}, {} of the ceiling that binds it", percent(analysis.utilisation)),
        None => at,
    }
}

/// Axes that hold every point, and the ceilings as far as they are near.
fn axes(points: &[Point], ceilings: &Ceilings) -> (Axis, Axis) {
    let peak = ceilings.arithmetic.iter().map(|a| a.rate).fold(0.0, f64::max);
    let memory = ceilings.bandwidth.last().map_or(0.0, |b| b.rate);
    let around = |values: &mut dyn Iterator<Item = f64>| {
        let drawable = values.filter(|v| v.is_finite() && *v > 0.0);
        drawable.fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(v), b.max(v)))
    };
    // The ridge, where memory could feed the best arithmetic, is always in sight.
    let ridge = (peak > 0.0 && memory > 0.0).then(|| peak / memory);
    let (from, to) = around(&mut points.iter().map(|p| p.intensity).chain(ridge));
    let x = Axis::log(from / 2.0, to * 3.0, LEFT, RIGHT);
    let (low, high) = around(&mut points.iter().map(|p| p.rate).chain([peak]));
    (x, Axis::log(low / 2.0, high * 2.0, BOTTOM, TOP))
}

fn grid(x: &Axis, y: &Axis) -> Markup {
    html! {
        @for tick in x.ticks(5) {
            @let at = x.at(tick);
            line.grid x1=(px(at)) x2=(px(at)) y1=(px(TOP)) y2=(px(BOTTOM)) {}
            text.tick.middle x=(px(at.min(WIDTH - 12.0))) y=(px(BOTTOM + 11.0)) { (plain(tick)) }
        }
        @for tick in y.ticks(5) {
            @let at = y.at(tick);
            line.grid x1=(px(LEFT)) x2=(px(RIGHT)) y1=(px(at)) y2=(px(at)) {}
            text.tick.end x=(px(LEFT - 4.0)) y=(px(at + 3.0)) { (scaled(tick, "").trim_end().replace(".00", "").replace(".0 ", " ")) }
        }
        text.tick x="2" y="9" { "FLOP/s" }
        text.tick.end x=(px(RIGHT)) y=(px(BOTTOM + 23.0)) { "FLOP per byte that must move" }
    }
}

/// A round number without noise after the point.
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
                // Above the upper line, below the lower, so that two that are near do not meet.
                @let below = slopes.len() > 1 && bandwidth.rate < steepest;
                text.tick transform=(format!("translate({} {}) rotate({})", px(x1), px(y1), px(angle)))
                    x="6" y=(if below { "10" } else { "-4" }) { (label) }
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

/// Where the labels of roofs at these heights go: above the roof, or below where another roof is in the way. A label that
/// would meet another is left out; the list of ceilings has its figure.
fn label_heights(roofs: &[f64]) -> Vec<Option<f64>> {
    let mut taken: Vec<f64> = Vec::new();
    let place = |at: &f64| {
        let in_the_way = roofs.iter().any(|other| (at - 12.0..*at).contains(other));
        let label = if in_the_way { at + 10.0 } else { at - 3.0 };
        let free = !taken.iter().any(|other| (other - label).abs() < 9.0);
        free.then(|| {
            taken.push(label);
            label
        })
    };
    roofs.iter().map(place).collect()
}
