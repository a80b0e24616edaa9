//! Comparison of scores: the interval of their difference, and the verdict better or worse.
//!
//! The interval of the difference `b - a` takes the far ends of both intervals, `[b.low - a.high, b.high - a.low]`. The interval of
//! a ratio of times does the same ([`crate::compare::verdict`]). The resolution is a share of the base's score.

use parallax_schema::case::DType;
use parallax_schema::record::{Better, NamedRun, Record, Run, Score};
use parallax_schema::units::four_digits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::verdict::FEWEST;

/// Verdict on two scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The whole interval is within the resolution of no difference.
    Same,
    /// The whole interval is beyond it, on the better side.
    Better,
    /// The whole interval is beyond it, on the worse side.
    Worse,
    /// The interval reaches across an edge, or there are too few items for one.
    Undecided,
}

impl Change {
    /// Returns the verdict as one word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Change::Same => "same",
            Change::Better => "better",
            Change::Worse => "worse",
            Change::Undecided => "undecided",
        }
    }
}

/// One score of one case in several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScorePair {
    /// Canonical string of the case.
    pub case: String,
    /// Name of the score.
    pub name: String,
    /// Which way is better.
    pub better: Better,
    /// The score in each run; absent where the run has none.
    pub scores: Vec<Option<Score>>,
    /// Against the base, for each run; absent for the base itself.
    pub differences: Vec<Option<Difference>>,
}

/// A score less the base's, with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Score less the base's score.
    pub value: f64,
    /// Low end of its interval.
    pub low: f64,
    /// High end of its interval.
    pub high: f64,
    /// The smallest difference that counts, in the score's own unit.
    pub resolution: f64,
    /// The smallest difference that these two runs would have called, in the score's own unit.
    pub minimum_detectable_effect: f64,
    /// Verdict on the difference.
    pub verdict: Change,
    /// Remarks on the verdict; empty when it is plain.
    pub notes: Vec<String>,
}

impl Difference {
    /// Returns the difference of two scores that are better in the same direction; `resolution` is a share of the base's score.
    pub fn of(base: &Score, other: &Score, resolution: f64) -> Difference {
        let resolution = resolution * base.value.abs();
        let (value, low, high) = (other.value - base.value, other.low - base.high, other.high - base.low);
        let mut notes = Vec::new();
        if base.items != other.items {
            notes.push(format!("over {} items here and {} in the base", other.items, base.items));
        }
        let fewest = base.items.min(other.items);
        let verdict = if fewest < u64::from(FEWEST) {
            notes.push(format!("{fewest} of the {FEWEST} items that an interval takes"));
            Change::Undecided
        } else if low >= -resolution && high <= resolution {
            Change::Same
        } else if low > resolution || high < -resolution {
            if (low > resolution) == (base.better == Better::Higher) { Change::Better } else { Change::Worse }
        } else {
            notes.push("the interval reaches across the edge of the resolution".to_owned());
            Change::Undecided
        };
        let minimum_detectable_effect = resolution + (value - low).max(high - value);
        Difference { value, low, high, resolution, minimum_detectable_effect, verdict, notes }
    }

    /// Returns the smallest amount by which the score is worse; negative if it may be better.
    pub fn worse_by_at_least(&self, better: Better) -> f64 {
        match better {
            Better::Higher => -self.high,
            Better::Lower => self.low,
        }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [value, low, high] = [self.value, self.low, self.high].map(signed);
        f.pad(&format!("{value} [{low}, {high}] {}", self.verdict.name()))
    }
}

fn signed(value: f64) -> String {
    format!("{}{}", if value > 0.0 { "+" } else { "" }, four_digits(value))
}

/// Pairs every score of the base with those of the other runs for the same case, and of networks for the same case in another type.
/// `finest` returns a run's resolution against the base.
pub(crate) fn pair(runs: &[NamedRun], base: usize, finest: impl Fn(&Run) -> f64) -> Vec<ScorePair> {
    let mut pairs = Vec::new();
    for record in runs[base].run.as_planned() {
        for score in record.scores() {
            let found: Vec<Option<(DType, Score)>> =
                runs.iter().map(|NamedRun { run, .. }| find(run, record, &score)).collect();
            let against = |(i, other): (usize, &Option<(DType, Score)>)| {
                let (dtype, other) = other.as_ref().filter(|_| i != base)?;
                let mut difference = Difference::of(&score, other, finest(&runs[i].run));
                if *dtype != record.parts.dtype {
                    let types = [*dtype, record.parts.dtype].map(DType::name);
                    difference.notes.push(format!("in {} here and in {} in the base", types[0], types[1]));
                }
                Some(difference)
            };
            let differences: Vec<Option<Difference>> = found.iter().enumerate().map(against).collect();
            if differences.iter().any(Option::is_some) {
                let scores = found.into_iter().map(|found| Some(found?.1)).collect();
                let (case, Score { name, better, .. }) = (record.case.clone(), score);
                pairs.push(ScorePair { case, name, better, scores, differences });
            }
        }
    }
    pairs
}

/// Returns a score of a run like one of a record, with the element type: of the same case, or of the same network in another type.
fn find(run: &Run, record: &Record, like: &Score) -> Option<(DType, Score)> {
    let same = run.records.iter().filter(|other| other.case == record.case);
    let in_other_type = run.records.iter().filter(|other| are_one_network(other, record));
    same.chain(in_other_type).find_map(|other| {
        let found = other.scores().into_iter().find(|score| score.name == like.name && score.better == like.better)?;
        Some((other.parts.dtype, found))
    })
}

/// Whether two records are evaluations of one network on the same items. Other cases have a time.
fn are_one_network(a: &Record, b: &Record) -> bool {
    [a, b].iter().all(|record| record.timing().is_none()) && a.parts.is_alike(&b.parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing;

    fn score(value: f64, half: f64, better: Better) -> Score {
        Score { name: "accuracy".to_owned(), value, low: value - half, high: value + half, better, items: 1000 }
    }

    #[test]
    fn synthetic_scores_get_the_verdicts_that_they_deserve() {
        for (base, other, half, higher, lower) in [
            (0.90, 0.95, 0.005, Change::Better, Change::Worse),
            (0.90, 0.85, 0.005, Change::Worse, Change::Better),
            (0.90, 0.901, 0.001, Change::Same, Change::Same),
            (0.90, 0.92, 0.02, Change::Undecided, Change::Undecided),
            (0.90, 0.90, 0.0, Change::Same, Change::Same),
        ] {
            for (better, want) in [(Better::Higher, higher), (Better::Lower, lower)] {
                let got = Difference::of(&score(base, half, better), &score(other, half, better), 0.01);
                assert_eq!(got.verdict, want, "{base} {other} {better:?}: {got}");
            }
        }
    }

    #[test]
    fn the_verdict_turns_at_the_minimum_detectable_effect() {
        let base = score(0.8, 0.01, Better::Higher);
        let least = Difference::of(&base, &base, 0.01).minimum_detectable_effect;
        assert!((least - 0.028).abs() < 1e-12, "{least}");
        let at = |by: f64| Difference::of(&base, &score(0.8 + by, 0.01, Better::Higher), 0.01).verdict;
        assert_eq!((at(least * 1.001), at(-least * 1.001)), (Change::Better, Change::Worse));
        assert_eq!((at(least * 0.999), at(-least * 0.999)), (Change::Undecided, Change::Undecided));
    }

    #[test]
    fn networks_are_paired_across_types_and_cases_with_a_time_are_not() {
        const CASE: &str = "image/fwd/n9/f32/convolutions";
        let named = |dtype: DType, timed: bool| {
            let case = CASE.replace("f32", dtype.name());
            let mut run = testing::run("cuda", "X", &[(&case, testing::spread(100.0, 0.01, 20))]);
            let measured = testing::measured(&mut run, &case);
            measured.scores = vec![score(0.9, 0.001, Better::Higher)];
            measured.timing = measured.timing.take().filter(|_| timed);
            run.records[0].parts.dtype = dtype;
            NamedRun::new(dtype.name(), run)
        };
        let paired = |timed: bool| pair(&[named(DType::F32, timed), named(DType::F16, timed)], 0, |_| 0.01);
        assert!(paired(true).is_empty());
        let [pair] = &paired(false)[..] else { panic!("one score") };
        assert_eq!((&*pair.case, pair.scores.iter().flatten().count()), (CASE, 2));
        let difference = pair.differences[1].as_ref().expect("against the base");
        assert_eq!(difference.notes, ["in f16 here and in f32 in the base"]);
    }

    #[test]
    fn few_items_decide_nothing_and_other_items_are_told() {
        let base = score(0.5, 0.0, Better::Higher);
        let few = Difference::of(&base, &Score { items: 5, ..score(0.9, 0.0, Better::Higher) }, 0.01);
        assert_eq!(few.verdict, Change::Undecided);
        assert_eq!(few.notes, ["over 5 items here and 1000 in the base", "5 of the 6 items that an interval takes"]);
    }
}
