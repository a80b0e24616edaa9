//! Runs side by side: cases paired by their canonical string, the ratio of medians with an interval, and what has no pair.

use crate::record::{Record, Run};
use crate::units::Nanos;

/// Several runs against the first.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Name of each run, in order.
    pub runs: Vec<String>,
    /// Cases that the first run and at least one other have timed.
    pub pairs: Vec<Pair>,
    /// Cases that only one run has timed, with that run's position.
    pub unpaired: Vec<(usize, String)>,
}

/// One case on several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Canonical string.
    pub case: String,
    /// Median in each run; absent where the run has no time for it.
    pub medians: Vec<Option<Nanos>>,
    /// Against the first run, for each run after it.
    pub ratios: Vec<Option<Ratio>>,
}

/// Time over the base's time, with an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median over median: 2 means twice as long.
    pub value: f64,
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// Which way a ratio points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The whole interval is below one.
    Faster,
    /// The whole interval is above one.
    Slower,
    /// One is inside.
    Unclear,
}

impl Ratio {
    /// From the 95 % intervals of both medians, taken at their far ends: at least 90 % by Bonferroni's inequality, and
    /// cautious for it.
    fn of(base: &Record, other: &Record) -> Option<Ratio> {
        let (a, b) = (base.timing()?.summary, other.timing()?.summary);
        let value = b.median.0 / a.median.0;
        // Too few samples for an interval: nothing can be said of the ratio's.
        if !(a.precision().is_finite() && b.precision().is_finite()) {
            return Some(Ratio { value, low: 0.0, high: f64::INFINITY });
        }
        Some(Ratio { value, low: b.low.0 / a.high.0, high: b.high.0 / a.low.0 })
    }

    /// What can be said with the interval in mind.
    pub fn direction(&self) -> Direction {
        if self.high < 1.0 {
            Direction::Faster
        } else if self.low > 1.0 {
            Direction::Slower
        } else {
            Direction::Unclear
        }
    }
}

/// Runs that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Fewer than two.
    #[error("comparing takes at least two runs, not {0}")]
    TooFew(usize),
    /// No case in common.
    #[error(
        "{base} and {others} have no timed case in common; run both with the same --preset, or --filter for cases that both targets have"
    )]
    NothingInCommon {
        /// Name of the first run.
        base: String,
        /// Names of the others.
        others: String,
    },
}

/// Compare named runs, the first being the base.
pub fn compare(runs: &[(String, Run)]) -> Result<Comparison, CompareError> {
    let [(base_name, base), others @ ..] = runs else { return Err(CompareError::TooFew(runs.len())) };
    if others.is_empty() {
        return Err(CompareError::TooFew(runs.len()));
    }
    let mut pairs = Vec::new();
    for record in base.records.iter().filter(|r| r.timing().is_some()) {
        let found: Vec<Option<&Record>> = others.iter().map(|(_, run)| timed(run, &record.case)).collect();
        if found.iter().all(Option::is_none) {
            continue;
        }
        let median = |r: &Record| r.timing().map(|t| t.summary.median);
        pairs.push(Pair {
            case: record.case.clone(),
            medians: std::iter::once(median(record)).chain(found.iter().map(|r| median((*r)?))).collect(),
            ratios: found.iter().map(|other| Ratio::of(record, (*other)?)).collect(),
        });
    }
    let names = |runs: &[(String, Run)]| runs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if pairs.is_empty() {
        return Err(CompareError::NothingInCommon { base: base_name.clone(), others: names(others).join(", ") });
    }
    let mut unpaired = Vec::new();
    for (i, (_, run)) in runs.iter().enumerate() {
        let alone = run.records.iter().filter(|r| r.timing().is_some() && !pairs.iter().any(|p| p.case == r.case));
        unpaired.extend(alone.map(|r| (i, r.case.clone())));
    }
    Ok(Comparison { runs: names(runs), pairs, unpaired })
}

fn timed<'a>(run: &'a Run, case: &str) -> Option<&'a Record> {
    run.records.iter().find(|r| r.case == case && r.timing().is_some())
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match self.direction() {
            Direction::Faster => "faster",
            Direction::Slower => "slower",
            Direction::Unclear => "unclear",
        };
        let digits = crate::units::three_digits;
        let interval = match self.high.is_finite() {
            true => format!("[{}, {}]", digits(self.low), digits(self.high)),
            false => "[too few samples]".to_owned(),
        };
        f.pad(&format!("{}× {interval} {word}", digits(self.value)))
    }
}
