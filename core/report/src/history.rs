//! Tables and rows of a history.

use parallax_analysis::compare::verdict::{Verdict, digits};
use parallax_analysis::history::{Change, History, HistoryRun, Kind, Move, Series, SeriesKey, Unreadable};
use parallax_schema::device::BrowserMode;
use parallax_schema::grouped;
use parallax_schema::record::DIRTY;
use parallax_schema::record::roofline::Bound;
use parallax_schema::units::{counted, percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::date::date;
use super::{Cell, Column, Mark, Rank, Remark, Table, Tone};

/// Largest number of files that a note names.
const MOST_FILES: usize = 5;
/// Characters of a commit in tables.
const COMMIT: usize = 10;
/// Position of the cause among the columns.
const CAUSE: usize = 3;

/// Returns a table with a line per changed series, the newest change first, and the totals as notes.
pub fn table(history: &History) -> Table {
    let changed = history.changed();
    let columns = vec![
        Column::text("case"),
        Column::label("on"),
        Column::figure("newest change", Rank::Essential),
        Column::figure("cause", Rank::Essential),
        Column::figure("since commit", Rank::Essential),
        Column::figure("since", Rank::Useful),
        Column::figure("runs after", Rank::Extra),
        Column::figure("changes", Rank::Extra),
    ];
    let newest = |series: &Series| series.changes.last().cloned().expect("a changed series");
    let row = |series: &&Series| row(history, series, &newest(series));
    let reasons = changed
        .iter()
        .enumerate()
        .map(|(i, series)| (newest(series).grounds, Mark { row: i, column: CAUSE, name: series.key.case.clone() }));
    let remarks = grouped(reasons).into_iter().filter_map(|(text, marks)| Remark::some(text, marks));
    let rows = changed.iter().map(row).collect();
    Table {
        heading: vec![span(history)],
        columns,
        rows,
        remarks: remarks.collect(),
        notes: notes(history),
        ..Table::default()
    }
}

fn row(history: &History, series: &Series, change: &Change) -> Vec<Cell> {
    vec![
        series.key.case.as_str().into(),
        place(&series.key).into(),
        ratio(change),
        change.kind.name().into(),
        commit(&change.commit).into(),
        begun(&history.runs[change.run]).into(),
        format!("{} of {}", series.points.len() - change.point, series.points.len()).into(),
        series.changes.len().to_string().into(),
    ]
}

/// Returns a change as a cell. Only a change by the kernel is good or bad.
pub(super) fn ratio(change: &Change) -> Cell {
    let Move { ratio, low, high } = change.ratio;
    let tone = match (change.kind, change.verdict) {
        (Kind::Kernel, Verdict::Slower) => Tone::Bad,
        (Kind::Kernel, Verdict::Faster) => Tone::Good,
        (Kind::Undecided, _) => Tone::Doubtful,
        _ => Tone::Plain,
    };
    let name = change.verdict.name();
    let text = format!("{}× [{}, {}] {name}", digits(ratio), digits(low), digits(high));
    Cell { tone, short: Some(format!("{}× {name}", digits(ratio))), ..text.into() }
}

/// Returns the device and the route of a series, with all that tells it from others of the case.
pub(super) fn place(key: &SeriesKey) -> String {
    let cold = (key.cache != "hot").then(|| format!("{} caches", key.cache));
    let actual = key.actual.as_ref().map(|actual| format!("ran as {actual}"));
    let tuning = (!key.tuning.is_empty()).then(|| key.tuning.clone());
    let parts = [Some(key.device.clone()), Some(key.route.titled(&key.route.target)), cold, actual, tuning];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns a commit of at most ten characters, with its mark of a changed tree.
pub(super) fn commit(commit: &str) -> String {
    let (hash, dirty) = commit.split_at(commit.find(DIRTY).unwrap_or(commit.len()));
    match hash {
        "" => "unknown".to_owned(),
        hash => hash.chars().take(COMMIT).collect::<String>() + dirty,
    }
}

/// Returns the begin of a run.
pub(super) fn begun(run: &HistoryRun) -> String {
    date(run.started).unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the number of runs with the dates of the first and the last.
pub(super) fn span(history: &History) -> String {
    let runs = counted(history.runs.len(), "run");
    match &history.runs[..] {
        [first, .., last] => format!("{runs} from {} to {}", begun(first), begun(last)),
        [only] => format!("{runs} of {}", begun(only)),
        [] => runs,
    }
}

/// Returns the totals, and the files without a run by their reasons.
pub(super) fn notes(history: &History) -> Vec<String> {
    let mut notes = vec![
        "a change is a ratio of levels after and before it, with a 95 % interval: above 1 is slower".to_owned(),
        format!("{} series: {}", history.series.len(), history.tally()),
    ];
    if history.duplicates > 0 {
        notes.push(format!("copies of other runs, counted once: {}", history.duplicates));
    }
    notes.extend(unread(&history.unreadable));
    notes
}

/// Returns a line for each reason for which files were not read.
pub(super) fn unread(files: &[Unreadable]) -> Vec<String> {
    let line = |(reason, files): (&String, Vec<&str>)| {
        let more = files.len().saturating_sub(MOST_FILES);
        let named = files[..files.len() - more].join(", ");
        let further = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("not read: {named}{further}: {reason}")
    };
    grouped(files.iter().map(|skipped| (&skipped.reason, skipped.file.as_str()))).into_iter().map(line).collect()
}

/// Returns a line for each kernel that is slower since the newest change of its series.
pub fn slowdowns(history: &History) -> Vec<String> {
    let line = |(series, change): (&Series, &Change)| {
        let (case, place, ratio) = (&series.key.case, place(&series.key), ratio(change).text);
        format!("slower: {case} on {place}: {ratio} since commit {}", commit(&change.commit))
    };
    history.slowdowns().map(line).collect()
}

/// Returns the smallest step that a series could have shown, in words.
pub(super) fn detectable(series: &Series) -> String {
    series.detectable.map_or_else(|| "too few runs for an MDE".to_owned(), |share| format!("MDE {}", percent(share)))
}

/// Row of a spreadsheet: one point of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRow {
    /// Canonical string of the case.
    pub case: String,
    /// Class of the device.
    pub device: String,
    /// Target.
    pub target: String,
    /// Browser mode.
    pub reach: Option<BrowserMode>,
    /// Checks that kernels keep.
    pub checks: Option<String>,
    /// Variant that ran in place of the named one.
    pub actual: Option<String>,
    /// State of the caches.
    pub cache: String,
    /// Tunables of the variant.
    pub tuning: String,
    /// File of the run.
    pub file: String,
    /// Seconds since 1970 (UTC).
    pub started: u64,
    /// Commit of the program.
    pub commit: String,
    /// Interface and driver.
    pub driver: String,
    /// Browser with its version.
    pub browser: String,
    /// Median time.
    pub median_ns: f64,
    /// Interval of the median, low end.
    pub low_ns: f64,
    /// Interval of the median, high end.
    pub high_ns: f64,
    /// Median time of the reference kernel.
    pub reference_ns: Option<f64>,
    /// Binding ceiling.
    pub bound: Option<Bound>,
    /// Rate of the ceiling, in bytes or operations per second.
    pub ceiling: Option<f64>,
    /// Ratio of the change that begins with this point.
    pub change: Option<f64>,
    /// Interval of the ratio, low end.
    pub change_low: Option<f64>,
    /// Interval of the ratio, high end.
    pub change_high: Option<f64>,
    /// Cause of the change.
    pub cause: Option<Kind>,
}

/// Returns a row for each point, series by series.
pub fn rows(history: &History) -> Vec<HistoryRow> {
    let of = |series: &Series| -> Vec<HistoryRow> {
        let key = &series.key;
        let row = |(i, point): (usize, &parallax_analysis::history::Point)| {
            let run = &history.runs[point.run];
            let change = series.changes.iter().find(|change| change.point == i);
            HistoryRow {
                case: key.case.clone(),
                device: key.device.clone(),
                target: key.route.target.clone(),
                reach: key.route.reach,
                checks: key.route.checks.clone(),
                actual: key.actual.clone(),
                cache: key.cache.clone(),
                tuning: key.tuning.clone(),
                file: run.file.clone(),
                started: run.started,
                commit: run.commit.clone(),
                driver: run.setup.driver.clone(),
                browser: run.setup.browser.clone(),
                median_ns: point.level.median.0,
                low_ns: point.level.low.0,
                high_ns: point.level.high.0,
                reference_ns: run.reference.map(|reference| reference.median.0),
                bound: point.ceiling.map(|ceiling| ceiling.bound),
                ceiling: point.ceiling.map(|ceiling| ceiling.rate),
                change: change.map(|change| change.ratio.ratio),
                change_low: change.map(|change| change.ratio.low),
                change_high: change.map(|change| change.ratio.high),
                cause: change.map(|change| change.kind),
            }
        };
        series.points.iter().enumerate().map(row).collect()
    };
    history.series.iter().flat_map(of).collect()
}
