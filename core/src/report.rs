//! Records to tables: what a person reads.

use crate::record::{Outcome, Record, Run};
use crate::units::{Nanos, percent, scaled};
use crate::workload::Rate;

/// One line of a run's table; every field is ready to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Case string without the variant.
    pub problem: String,
    /// Variant asked for, and the one that ran where it is another.
    pub variant: String,
    /// Median time of one execution, or a dash.
    pub median: String,
    /// Half width of its 95 % interval, as a percentage.
    pub interval: String,
    /// GFLOP/s or GB/s, whichever the workload is about.
    pub rate: String,
    /// right, WRONG, skipped, FAILED.
    pub verdict: String,
    /// Which clock took the samples.
    pub clock: String,
    /// The reason of a skip, failure or substitution; empty otherwise.
    pub note: String,
}

/// The rate of a case at a time, in the unit that its workload is about.
pub fn rate(record: &Record, time: Nanos) -> String {
    // A workload of a newer version is told in bytes, which every case moves.
    match crate::workload::find(&record.parts.workload).map(|w| w.rate) {
        Some(Rate::Flops) => scaled(record.cost.flops.per(time), "FLOP/s"),
        _ => scaled(record.cost.moved().per(time), "B/s"),
    }
}

/// One record as a line of its run's table.
pub fn row(record: &Record, run: &Run) -> Row {
    let dash = || "–".to_owned();
    let (problem, variant) = record.case.rsplit_once('/').unwrap_or((&record.case, ""));
    let variant = match &record.actual {
        Some(actual) => format!("{variant} → {}", actual.variant),
        None => variant.to_owned(),
    };
    let timing = record.timing();
    let note = match &record.outcome {
        Outcome::Ok(_) => record.actual.as_ref().map(|a| a.reason.clone()).unwrap_or_default(),
        Outcome::Wrong { check } => check.sentence(),
        Outcome::Skipped { reason } | Outcome::Failed { reason } => reason.clone(),
    };
    Row {
        problem: problem.to_owned(),
        variant,
        median: timing.map_or_else(dash, |t| t.summary.median.to_string()),
        interval: timing
            .map(|t| t.summary.precision())
            .filter(|p| p.is_finite())
            .map_or_else(dash, |p| format!("± {}", percent(p))),
        rate: timing.map_or_else(dash, |t| rate(record, t.summary.median)),
        verdict: record.verdict().to_owned(),
        clock: timing.map_or_else(dash, |_| run.clock.clock.label().to_owned()),
        note,
    }
}

/// Column titles of a run's table, in the order of [`cells`].
pub const COLUMNS: [&str; 7] = ["case", "variant", "median", "95 %", "rate", "verdict", "clock"];

/// The cells of a row, in the order of [`COLUMNS`]; the note is for a line of its own.
pub fn cells(row: &Row) -> [&str; 7] {
    [&row.problem, &row.variant, &row.median, &row.interval, &row.rate, &row.verdict, &row.clock]
}

/// How many records ended in each way, as one sentence.
pub fn tally(run: &Run) -> String {
    let count = |verdict: &str| run.records.iter().filter(|r| r.verdict() == verdict).count();
    let missing = run.missing().count();
    let mut parts = vec![format!("{} right", count("right"))];
    for (n, what) in [
        (count("WRONG"), "WRONG"),
        (count("FAILED"), "failed"),
        (count("skipped"), "skipped"),
        (missing, "not reached"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    parts.join(", ")
}

/// A Markdown table.
pub fn markdown(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(columns.iter().map(|c| (*c).to_owned()).collect());
    text += &line(columns.iter().map(|_| "---".to_owned()).collect());
    for row in rows {
        text += &line(row.iter().map(|cell| cell.replace('|', "\\|")).collect());
    }
    text
}

/// The device in one line.
pub fn device_line(run: &Run) -> String {
    let device = &run.device;
    let driver = if device.driver.is_empty() { String::new() } else { format!(", {}", device.driver) };
    let software = if device.kind == crate::profiler::DeviceKind::Software { ", software" } else { "" };
    format!("{} ({}{driver}{software}) as target {}", device.name, device.api, run.target)
}

/// The clock in one line, with the error that its step puts on a single reading.
pub fn clock_line(run: &Run) -> String {
    let note = run.clock.note.as_deref().map(|n| format!(" ({n})")).unwrap_or_default();
    format!(
        "{} clock, steps of {}; host clock, steps of {}{note}",
        run.clock.clock.label(),
        run.clock.step,
        run.clock.host_step
    )
}
