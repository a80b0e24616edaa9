//! Series of a history, and their changes.

use parallax_schema::units::percent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::inputs;
use super::cause::{Kind, Move, cause};
use super::point::{HistoryRun, Point, SeriesKey};
use super::step::{Alarms, Sums, Tested, critical, parts, steps};
use crate::compare::verdict::{Resolution, Verdict};

/// All runs of a history, and the series of their cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Runs, oldest first.
    pub runs: Vec<HistoryRun>,
    /// Series by case, device, route and tuning.
    pub series: Vec<Series>,
    /// Files that are no readable runs.
    pub unreadable: Vec<Unreadable>,
    /// Files with a run that another file has, too.
    pub duplicates: usize,
}

/// File without a readable run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// Path of the file.
    pub file: String,
    /// Reason.
    pub reason: String,
}

/// Times of one case on one class of devices through one route.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Properties that all points share.
    pub key: SeriesKey,
    /// Smallest difference that counts.
    pub resolution: Resolution,
    /// Smallest step before the newest runs that could have been shown, as a share of the time. Absent for a series without enough runs.
    #[serde(rename = "minimum_detectable_effect")]
    pub detectable: Option<f64>,
    /// Changes, oldest first.
    pub changes: Vec<Change>,
    /// Points, oldest first.
    pub points: Vec<Point>,
}

/// Change of the level of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Position in the series of the first point after it.
    pub point: usize,
    /// Position in the history of the first run after it.
    pub run: usize,
    /// Commit of that run.
    pub commit: String,
    /// Level after it over the level before it: above 1 is slower.
    #[serde(flatten)]
    pub ratio: Move,
    /// Slower or faster.
    pub verdict: Verdict,
    /// Cause.
    pub kind: Kind,
    /// Grounds of the cause, in words.
    pub grounds: String,
    /// Ratio of the reference kernel's times, where enough runs have them.
    pub reference: Option<Move>,
    /// Ratio of the times that the binding ceiling allows, where enough runs have it.
    pub ceiling: Option<Move>,
}

impl Series {
    /// Returns the series of points with its changes.
    pub(super) fn of(
        key: SeriesKey,
        points: Vec<Point>,
        runs: &[HistoryRun],
        asked: Option<f64>,
        alarms: Alarms,
    ) -> Series {
        let (clocks, inputs) = inputs(&points, runs, asked);
        let resolution = Resolution::with_clocks(clocks, inputs);
        let logs: Vec<f64> = points.iter().map(|point| point.level.log()).collect();
        let errors: Vec<f64> = points.iter().map(|point| point.level.error()).collect();
        let sums = Sums::of(&logs, &errors);
        let other = without_machine(&points, runs);
        let tested = Tested { whole: &sums, without_machine: other.as_ref() };
        let places = steps(&tested, resolution.value, alarms);
        let change = |(from, split, to): (usize, usize, usize)| {
            let shift = sums.shift(from, split, to);
            let (before, after) = (&points[from..split], &points[split..to]);
            let cause = cause(runs, before, after, shift.difference);
            let first = after[0].run;
            Change {
                point: split,
                run: first,
                commit: runs[first].commit.clone(),
                ratio: Move::of(&shift),
                verdict: shift.verdict(resolution.value),
                kind: cause.kind,
                grounds: cause.grounds,
                reference: cause.reference,
                ceiling: cause.ceiling,
            }
        };
        let changes = parts(&places, points.len()).into_iter().map(change).collect();
        let newest = places.last().copied().unwrap_or(0);
        let detectable = detectable(&tested, newest, resolution.value, alarms);
        Series { key, resolution, detectable, changes, points }
    }

    /// Returns whether a step could have been shown in the newest part.
    pub fn is_long_enough(&self) -> bool {
        self.detectable.is_some() || !self.changes.is_empty()
    }

    /// Returns the newest change, if the kernel became slower by it.
    pub fn newest_slowdown(&self) -> Option<&Change> {
        self.changes.last().filter(|change| change.kind == Kind::Kernel && change.verdict == Verdict::Slower)
    }
}

/// Returns the sums of times over those of the reference kernel; `None` if a run has none.
fn without_machine(points: &[Point], runs: &[HistoryRun]) -> Option<Sums> {
    let one = |point: &Point| {
        let reference = runs[point.run].reference?;
        Some((point.level.log() - reference.log(), point.level.error().hypot(reference.error())))
    };
    let (logs, errors): (Vec<f64>, Vec<f64>) = points.iter().map(one).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    Some(Sums::of(&logs, &errors))
}

/// Returns the smallest step that the tests would have shown before the newest runs of a part. `None` for too few runs.
fn detectable(tested: &Tested, from: usize, resolution: f64, alarms: Alarms) -> Option<f64> {
    let to = tested.whole.len();
    let split = to - alarms.fewest(to - from)?;
    let smallest = |probability: f64, sums: &Sums| {
        let shift = sums.shift(from, split, to);
        resolution.ln_1p() + critical(probability, shift.freedom) * shift.error
    };
    let alone = smallest(alarms.test, tested.whole);
    let both = |sums: &Sums| smallest(alarms.test, sums).max(smallest(0.05, tested.whole));
    let smallest = tested.without_machine.map_or(alone, |sums| alone.min(both(sums)));
    Some(smallest.exp_m1()).filter(|share| share.is_finite())
}

impl History {
    /// Returns the series with changes, those with the newest change first.
    pub fn changed(&self) -> Vec<&Series> {
        let mut changed: Vec<&Series> = self.series.iter().filter(|series| !series.changes.is_empty()).collect();
        changed.sort_by_key(|series| std::cmp::Reverse(series.changes.last().map(|change| change.run)));
        changed
    }

    /// Returns the series whose kernel is slower since its newest change.
    pub fn slowdowns(&self) -> impl Iterator<Item = (&Series, &Change)> {
        self.series.iter().filter_map(|series| Some((series, series.newest_slowdown()?)))
    }

    /// Returns the number of series by state, as a sentence.
    pub fn tally(&self) -> String {
        let changed = self.series.iter().filter(|series| !series.changes.is_empty()).count();
        let short = self.series.iter().filter(|series| !series.is_long_enough()).count();
        let stable = self.series.len() - changed - short;
        let mut worst: Vec<f64> = self.series.iter().filter_map(|series| series.detectable).collect();
        worst.sort_by(f64::total_cmp);
        let median = worst.get(worst.len() / 2).map(|share| format!(" (median MDE {})", percent(*share)));
        let short = if short > 0 { format!(", {short} with too few runs") } else { String::new() };
        format!("{changed} changed, {stable} stable{}{short}", median.unwrap_or_default())
    }
}
