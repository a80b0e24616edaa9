//! Plot of the reference kernel over the run: the drift of the device's speed.

use maud::{Markup, html};
use parallax_analysis::compare::verdict::{drift_within, resolution_on};
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Drift, Run};
use parallax_schema::units::{Nanos, percent, three_digits};

use super::plot::{Axis, LINE, WIDTH, across, number_labels, px, svg, twin};
use crate::{Cell, Column, Rank, Table};

const TOP: f64 = 8.0;
const BOTTOM: f64 = 104.0;
const LEFT: f64 = 56.0;

/// Returns the curve of a run and the readings of its sensors; nothing without a reference kernel.
pub(crate) fn drift(run: &Run) -> Markup {
    let readings = &run.drift;
    let times: Vec<f64> = readings.iter().map(|d| d.reference_kernel.0).collect();
    let Some(summary) = Summary::of(&times).filter(|s| s.median.0 > 0.0) else { return html! {} };
    let apart = |d: &Drift| (d.reference_kernel.0 / summary.median.0 - 1.0) * 100.0;
    let start = readings[0].at;
    let seconds = |d: &Drift| (d.at - start).secs();
    let end = readings.iter().map(seconds).fold(0.0, f64::max);
    // The axis spans at least two per cent to either side, so that mere noise looks small.
    let (low, high) = readings.iter().map(apart).fold((-2.0f64, 2.0f64), |(a, b), v| (a.min(v), b.max(v)));
    let (x, y) = (Axis::linear(0.0, end, LEFT, WIDTH - 6.0), Axis::linear(low, high, BOTTOM, TOP));
    let (across_ticks, up_ticks) = (x.ticks(5), y.ticks(4));
    let labels: Vec<String> = number_labels(&across_ticks).into_iter().map(|l| format!("{l} s")).collect();
    let points: Vec<String> =
        readings.iter().map(|d| format!("{},{}", px(x.at(seconds(d))), px(y.at(apart(d))))).collect();
    let held = |d: &Drift| !d.conditions.throttle.is_empty() || d.conditions.hidden;
    let calm = readings
        .iter()
        .zip(&points)
        .filter(|(d, _)| !held(d))
        .map(|(_, point)| format!("M{}h0", point.replace(',', " ")));
    let inside = html! {
        (across(&x, &across_ticks, &labels, TOP, BOTTOM))
        @for (tick, label) in up_ticks.iter().zip(number_labels(&up_ticks)) {
            line.grid x1=(px(LEFT)) x2=(px(WIDTH - 6.0)) y1=(px(y.at(*tick))) y2=(px(y.at(*tick))) {}
            text.tick.end x=(px(LEFT - 4.0)) y=(px(y.at(*tick) + 4.0)) { (label) " %" }
        }
        g.device {
            polyline.curve points=(points.join(" ")) {}
            path.dots d=(calm.collect::<String>()) {}
            @for d in readings.iter().filter(|d| held(d)) {
                circle.point.warned cx=(px(x.at(seconds(d)))) cy=(px(y.at(apart(d)))) r="3.5" {
                    title { (d.reference_kernel) (condition(d)) }
                }
            }
        }
    };
    html! {
        (svg(BOTTOM + LINE + 3.0, "time of the reference kernel over the run", inside))
        p.soft { "reference kernel: " (summary.median) " in the median of " (summary.n) " readings" (sensors(readings)) }
        @if let Some(caution) = caution(run) { p { (caution) } }
        (twin(&figures(readings, &seconds, &apart)))
    }
}

/// Maximum number of rows of the table. A longer run has the slowest reading of each group of neighbours.
const GROUPS: usize = 300;

/// Returns the readings as a table.
fn figures(readings: &[Drift], seconds: &dyn Fn(&Drift) -> f64, apart: &dyn Fn(&Drift) -> f64) -> Table {
    let row = |d: &Drift| {
        let held = condition(d);
        let cells = [
            format!("{:.1} s", seconds(d)),
            d.reference_kernel.to_string(),
            format!("{:+.1} %", apart(d)),
            held.trim_start_matches(": ").to_owned(),
        ];
        cells.map(Cell::from).into()
    };
    let each = readings.len().div_ceil(GROUPS).max(1);
    let slowest = |group: &'_ [Drift]| {
        let slower = |a: &&Drift, b: &&Drift| a.reference_kernel.0.total_cmp(&b.reference_kernel.0);
        group.iter().max_by(slower).map(row)
    };
    let notes = if each > 1 { vec![format!("The slowest of every {each} readings.")] } else { Vec::new() };
    Table {
        notes,
        columns: vec![
            Column::figure("after", Rank::Essential),
            Column::figure("reference kernel", Rank::Essential),
            Column::figure("off its median", Rank::Essential),
            Column::label("held back by"),
        ],
        rows: readings.chunks(each).filter_map(slowest).collect(),
        ..Table::default()
    }
}

/// Returns a warning about the figures of a run if the drift of its device is significant.
fn caution(run: &Run) -> Option<String> {
    let within = drift_within(&run.drift);
    (within > resolution_on(run.device().kind)).then(|| {
        format!(
            "The device's speed varied by {}: differences between cases of this run that are smaller are noise.",
            percent(within)
        )
    })
}

/// Returns the conditions that held the device back at a reading.
fn condition(reading: &Drift) -> String {
    let mut words: Vec<&str> = reading.conditions.throttle.iter().map(String::as_str).collect();
    if reading.conditions.hidden {
        words.push("page out of sight");
    }
    if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) }
}

/// Returns the ranges of the sensors' readings, if there are any.
fn sensors(readings: &[Drift]) -> String {
    let range = |name: &str, unit: &str, of: &dyn Fn(&Drift) -> Option<f64>| {
        let values: Vec<f64> = readings.iter().filter_map(of).collect();
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        Some(format!("; {name} {} to {} {unit}", three_digits(low), three_digits(high)))
    };
    [
        range("multiprocessor clock", "MHz", &|d| d.conditions.sm_clock_mhz),
        range("memory clock", "MHz", &|d| d.conditions.memory_clock_mhz),
        range("temperature", "°C", &|d| d.conditions.temperature_c),
        range("power", "W", &|d| d.conditions.power_w),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the median of the reference kernel, and its range over the median; `None` without a reference kernel.
pub(super) fn wander(run: &Run) -> Option<(Nanos, f64)> {
    let summary = Summary::of(&run.drift.iter().map(|d| d.reference_kernel.0).collect::<Vec<_>>())?;
    (summary.median.0 > 0.0).then(|| (summary.median, (summary.max.0 - summary.min.0) / summary.median.0))
}
