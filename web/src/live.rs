//! Partial results of cases during measurement. Updates come at most twice a second, and only for new samples.

use std::collections::BTreeMap;

use parallax_report::html;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Record, Run};
use parallax_schema::units::{Nanos, percent};

/// Seconds between two updates. Drawing takes a part of the measured device's time.
const PAUSE: f64 = 0.5;

/// Partial result of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialResult {
    /// The case.
    pub case: String,
    /// Median of the samples.
    pub median: Nanos,
    /// Number of samples, and precision of the median.
    pub tally: String,
    /// The samples as markup of the core's report.
    pub strip: String,
}

impl PartialResult {
    fn of(record: &Record) -> Option<PartialResult> {
        let summary = Summary::of(&record.timing()?.samples)?;
        let tally = match (summary.n, summary.precision()) {
            (1, _) => "1 sample so far".to_owned(),
            (n, precision) if precision.is_finite() => format!("{n} samples so far, ± {}", percent(precision)),
            (n, _) => format!("{n} samples so far"),
        };
        let (case, strip) = (record.case.clone(), html::samples_so_far(record));
        Some(PartialResult { case, median: summary.median, tally, strip })
    }
}

/// Tracks the samples of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Live {
    /// Number of samples of each case at its last update.
    seen: BTreeMap<String, usize>,
    /// Time of the last update.
    at: Option<f64>,
}

impl Live {
    /// Returns the new partial results at time `now` in seconds; empty shortly after the previous update.
    pub fn news(&mut self, run: &Run, now: f64) -> Vec<PartialResult> {
        if self.at.is_some_and(|at| now - at < PAUSE) {
            return Vec::new();
        }
        self.at = Some(now);
        let mut news = Vec::new();
        for record in &run.sampling {
            let samples = record.timing().map_or(0, |timing| timing.samples.len());
            if self.seen.insert(record.case.clone(), samples) != Some(samples) {
                news.extend(PartialResult::of(record));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::{CaseSample, Event};
    use parallax_schema::testing::run;

    const CASE: &str = "copy/fwd/n64/f32/vec4";

    #[test]
    fn a_case_on_its_way_is_told_when_it_has_news_and_not_too_often() {
        let mut measured = run("browser", "X", &[(CASE, vec![100.0])]);
        let record = measured.records.remove(0);
        measured.apply(Event::Sampling { record: Box::new(record) });
        let mut live = Live::default();
        let first = live.news(&measured, 10.0);
        assert_eq!((first.len(), first[0].case.as_str(), first[0].median), (1, CASE, Nanos(100.0)));
        assert_eq!(first[0].tally, "1 sample so far");
        assert!(first[0].strip.starts_with("<svg"), "{}", first[0].strip);
        assert_eq!(live.news(&measured, 10.0 + 2.0 * PAUSE), [], "nothing is new");
        for time in [102.0; 9] {
            let taken = CaseSample { case: CASE.to_owned(), time, host: time, conditions: Default::default() };
            measured.apply(Event::Samples { samples: vec![taken] });
        }
        assert_eq!(live.news(&measured, 10.0 + 2.1 * PAUSE), [], "it was looked at a moment ago");
        let later = live.news(&measured, 10.0 + 3.5 * PAUSE);
        assert_eq!(later[0].median, Nanos(102.0), "that of the samples, not of the first record");
        assert!(later[0].tally.starts_with("10 samples so far, ± "), "{}", later[0].tally);
    }
}
