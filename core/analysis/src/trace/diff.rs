//! Difference of two traces: times of their stages, aligned by case and stage.

use std::collections::BTreeSet;

use parallax_schema::record::stats::{FEWEST, Summary};
use parallax_schema::spec::filter::any_keeps;
use parallax_schema::units::Nanos;
use serde::Serialize;

use super::stages::{StageName, StageTimes};

/// Stages of two traces A and B, the largest growth first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceDiff {
    /// Every stage of either trace.
    pub stages: Vec<StageDiff>,
}

/// One stage in both traces.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageDiff {
    /// Canonical string of the case; empty in a trace of another program.
    pub case: String,
    /// Label of the stage.
    pub stage: String,
    /// Figure in A; absent for a stage that came.
    pub a: Option<StageFigure>,
    /// Figure in B; absent for a stage that went.
    pub b: Option<StageFigure>,
    /// Median in B less the median in A, in nanoseconds. An absent stage takes no time.
    pub growth: Nanos,
    /// Median in B over the median in A, where A has one above zero.
    pub ratio: Option<f64>,
    /// Verdict on the stage.
    pub verdict: StageVerdict,
}

/// Time of a stage in one trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StageFigure {
    /// Number of times in the trace.
    pub count: u32,
    /// Median of the times, in nanoseconds.
    pub median: Nanos,
    /// 95 % interval of the median, low end; absent with fewer than [`FEWEST`] times.
    pub low: Option<Nanos>,
    /// 95 % interval of the median, high end; absent with fewer than [`FEWEST`] times.
    pub high: Option<Nanos>,
}

/// Verdict on a stage of two traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StageVerdict {
    /// The interval of B lies above that of A.
    Slower,
    /// The interval of B lies below that of A.
    Faster,
    /// The intervals overlap, or one of them does not exist.
    Undecided,
    /// Only B has the stage.
    Came,
    /// Only A has the stage.
    Went,
}

impl StageVerdict {
    /// All verdicts, in the order of a tally.
    pub const ALL: [StageVerdict; 5] =
        [StageVerdict::Slower, StageVerdict::Faster, StageVerdict::Undecided, StageVerdict::Came, StageVerdict::Went];

    /// Returns the verdict as one word.
    pub fn name(self) -> &'static str {
        match self {
            StageVerdict::Slower => "slower",
            StageVerdict::Faster => "faster",
            StageVerdict::Undecided => "undecided",
            StageVerdict::Came => "came",
            StageVerdict::Went => "went",
        }
    }
}

impl StageFigure {
    /// Returns the figure of these times; `None` without any.
    fn of(times: &[f64]) -> Option<StageFigure> {
        let summary = Summary::of(times)?;
        let known = summary.n >= FEWEST;
        Some(StageFigure {
            count: summary.n,
            median: summary.median,
            low: known.then_some(summary.low),
            high: known.then_some(summary.high),
        })
    }
}

impl StageDiff {
    fn of(name: &StageName, a: Option<StageFigure>, b: Option<StageFigure>) -> StageDiff {
        let median = |figure: Option<StageFigure>| figure.map_or(0.0, |figure| figure.median.0);
        StageDiff {
            case: name.case.clone(),
            stage: name.stage.clone(),
            a,
            b,
            growth: Nanos(median(b) - median(a)),
            ratio: a.zip(b).filter(|(a, _)| a.median.0 > 0.0).map(|(a, b)| b.median.0 / a.median.0),
            verdict: verdict(a, b),
        }
    }
}

fn verdict(a: Option<StageFigure>, b: Option<StageFigure>) -> StageVerdict {
    let ends = |figure: StageFigure| Some((figure.low?.0, figure.high?.0));
    match (a, b) {
        (None, _) => StageVerdict::Came,
        (_, None) => StageVerdict::Went,
        (Some(a), Some(b)) => match ends(a).zip(ends(b)) {
            Some(((_, a_high), (b_low, _))) if b_low > a_high => StageVerdict::Slower,
            Some(((a_low, _), (_, b_high))) if b_high < a_low => StageVerdict::Faster,
            _ => StageVerdict::Undecided,
        },
    }
}

impl TraceDiff {
    /// Returns the difference of two traces, of the cases that any word of the filter keeps. An empty filter keeps all.
    pub fn of(a: &StageTimes, b: &StageTimes, filter: &[String]) -> TraceDiff {
        let names: BTreeSet<&StageName> = a.keys().chain(b.keys()).filter(|n| any_keeps(filter, &n.case)).collect();
        let figure = |times: &StageTimes, name| times.get(name).and_then(|times| StageFigure::of(times));
        let mut stages: Vec<StageDiff> =
            names.into_iter().map(|name| StageDiff::of(name, figure(a, name), figure(b, name))).collect();
        stages.sort_by(|x, y| y.growth.0.abs().total_cmp(&x.growth.0.abs()));
        TraceDiff { stages }
    }

    /// Returns the number of stages with this verdict.
    pub fn count(&self, verdict: StageVerdict) -> usize {
        self.stages.iter().filter(|stage| stage.verdict == verdict).count()
    }

    /// Returns the number of stages in both traces with too few times for an interval in one of them.
    pub fn without_interval(&self) -> usize {
        let few = |figure: StageFigure| figure.low.is_none();
        self.stages.iter().filter(|stage| stage.a.zip(stage.b).is_some_and(|(a, b)| few(a) || few(b))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::spread;

    fn times(stages: &[(&str, &str, Vec<f64>)]) -> StageTimes {
        let name = |case: &str, stage: &str| StageName { case: case.to_owned(), stage: stage.to_owned() };
        stages.iter().map(|(case, stage, times)| (name(case, stage), times.clone())).collect()
    }

    #[test]
    fn stages_are_judged_by_their_intervals_and_sorted_by_growth() {
        let of = |median| spread(median, 0.01, 40);
        let a = times(&[
            ("c", "slow", of(1000.0)),
            ("c", "fast", of(500.0)),
            ("c", "near", of(100.0)),
            ("c", "few", vec![100.0; 5]),
            ("c", "went", of(70.0)),
            ("d", "slow", of(10.0)),
        ]);
        let b = times(&[
            ("c", "slow", of(1300.0)),
            ("c", "fast", of(100.0)),
            ("c", "near", of(100.1)),
            ("c", "few", vec![300.0; 5]),
            ("c", "came", of(50.0)),
            ("d", "slow", of(20.0)),
        ]);
        let diff = TraceDiff::of(&a, &b, &[]);
        let rows: Vec<(&str, &str, &str, i64)> = diff
            .stages
            .iter()
            .map(|s| (s.case.as_str(), s.stage.as_str(), s.verdict.name(), s.growth.0.round() as i64))
            .collect();
        assert_eq!(
            rows,
            [
                ("c", "fast", "faster", -400),
                ("c", "slow", "slower", 300),
                ("c", "few", "undecided", 200),
                ("c", "went", "went", -70),
                ("c", "came", "came", 50),
                ("d", "slow", "slower", 10),
                ("c", "near", "undecided", 0),
            ]
        );
        assert_eq!(StageVerdict::ALL.map(|verdict| diff.count(verdict)), [2, 1, 2, 1, 1]);
        assert_eq!(diff.without_interval(), 1);
        assert_eq!(diff.stages[1].ratio.map(|r| (r * 10.0).round()), Some(13.0));
        assert_eq!((diff.stages[3].ratio, diff.stages[3].b), (None, None));
        assert_eq!(TraceDiff::of(&a, &b, &["d".to_owned()]).stages.len(), 1);
    }

    #[test]
    fn equal_traces_have_no_verdict_but_undecided() {
        let a = times(&[("c", "s", spread(100.0, 0.02, 40)), ("c", "zero", vec![0.0; 9])]);
        let diff = TraceDiff::of(&a, &a, &[]);
        assert!(diff.stages.iter().all(|s| s.verdict == StageVerdict::Undecided && s.growth.0 == 0.0), "{diff:?}");
        assert_eq!(diff.stages.iter().filter(|s| s.ratio.is_none()).count(), 1, "no ratio to no time");
    }
}
