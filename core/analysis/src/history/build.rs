//! Collection of points, run by run.

use std::collections::HashMap;

use parallax_schema::record::Run;

use super::point::{HistoryRun, Point, SeriesKey};
use super::series::{History, Series, Unreadable};
use super::step::Alarms;
use crate::compare::verdict::{RESOLUTION, RESOLUTION_EMULATED, VerdictInputs};
use crate::origin::Origin;

/// Largest rate of false alarms of a whole history.
const ALARMS: f64 = 0.01;

/// Points of the runs that were added so far. Runs may be added in any order.
#[derive(Debug, Clone, Default)]
pub struct HistoryBuilder {
    keys: HashMap<SeriesKey, usize>,
    runs: Vec<(HistoryRun, Vec<(usize, Point)>)>,
    origins: HashMap<Origin, usize>,
    unreadable: Vec<Unreadable>,
    duplicates: usize,
}

impl HistoryBuilder {
    /// Adds the points of a run whose cases `keep` accepts. A copy of an earlier run counts once: the copy with more points stays, and
    /// among equal ones the first by the name of its file.
    pub fn add(&mut self, file: &str, run: &Run, keep: impl Fn(&str) -> bool) {
        let mut points = Vec::new();
        for record in run.records.iter().filter(|record| keep(&record.case)) {
            // The position of the run is known when all runs are.
            if let (Some(point), Some(key)) = (Point::of(run, record, 0), SeriesKey::of(run, record)) {
                let next = self.keys.len();
                points.push((*self.keys.entry(key).or_insert(next), point));
            }
        }
        let found = HistoryRun::of(file.to_owned(), run);
        let next = self.runs.len();
        let place = *self.origins.entry(Origin::of(run)).or_insert(next);
        match self.runs.get_mut(place) {
            None => self.runs.push((found, points)),
            Some((known, earlier)) => {
                self.duplicates += 1;
                let better = points.len().cmp(&earlier.len()).then_with(|| known.file.cmp(&found.file));
                if better.is_gt() {
                    (*known, *earlier) = (found, points);
                }
            }
        }
    }

    /// Adds a file that is no readable run.
    pub fn skip(&mut self, file: String, reason: String) {
        self.unreadable.push(Unreadable { file, reason });
    }

    /// Returns the number of different runs so far.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns the history with its changes. `resolution` is the smallest difference that counts, as a share of the time; by default,
    /// that of a comparison.
    pub fn finish(mut self, resolution: Option<f64>) -> History {
        self.runs.sort_by(|(a, _), (b, _)| (a.started, &a.file).cmp(&(b.started, &b.file)));
        self.unreadable.sort_by(|a, b| a.file.cmp(&b.file));
        let mut of_series: Vec<Vec<Point>> = vec![Vec::new(); self.keys.len()];
        let mut runs = Vec::with_capacity(self.runs.len());
        for (position, (run, points)) in self.runs.into_iter().enumerate() {
            runs.push(run);
            points.into_iter().for_each(|(series, point)| of_series[series].push(Point { run: position, ..point }));
        }
        let lengths: Vec<usize> = of_series.iter().map(Vec::len).collect();
        let alarms = Alarms::of(ALARMS, &lengths);
        let mut series: Vec<Series> = Vec::with_capacity(self.keys.len());
        for (key, place) in self.keys {
            let points = std::mem::take(&mut of_series[place]);
            if !points.is_empty() {
                series.push(Series::of(key, points, &runs, resolution, alarms));
            }
        }
        series.sort_by(|a, b| a.key.cmp(&b.key));
        History { runs, series, unreadable: self.unreadable, duplicates: self.duplicates }
    }
}

/// Returns the inputs of the resolution of points, by their medians.
pub(super) fn inputs(points: &[Point], runs: &[HistoryRun], asked: Option<f64>) -> (f64, VerdictInputs) {
    let median = |of: &dyn Fn(&Point) -> f64| {
        let mut values: Vec<f64> = points.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let emulated = points.iter().any(|point| runs[point.run].emulated);
    let usual = if emulated { RESOLUTION_EMULATED } else { RESOLUTION };
    let inputs = VerdictInputs {
        asked: asked.unwrap_or(usual),
        drift: median(&|point| runs[point.run].drift),
        launch: median(&|point| point.launch),
        reference_spread: None,
    };
    // A pair has the errors of two clocks.
    (2.0 * median(&|point| point.clock_error), inputs)
}
