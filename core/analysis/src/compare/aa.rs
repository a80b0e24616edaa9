//! A/A test of a machine: the frequency of wrong verdicts on equal runs, and the minimum detectable effect.

use std::collections::BTreeMap;

use parallax_schema::record::Run;
use parallax_schema::record::stats::quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::verdict::{RESOLUTION, Ratio, Verdict, resolution_between};
use crate::compare::{device_drift, judge, timed};

/// Verdicts, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Rightly called the same.
    pub same: u32,
    /// Wrongly called faster.
    pub faster: u32,
    /// Wrongly called slower.
    pub slower: u32,
    /// Not decided.
    pub undecided: u32,
}

impl Counts {
    fn add(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Same => &mut self.same,
            Verdict::Faster => &mut self.faster,
            Verdict::Slower => &mut self.slower,
            Verdict::Undecided => &mut self.undecided,
        } += 1;
    }

    /// Number of wrong verdicts: faster or slower between equal runs.
    pub fn wrong(&self) -> u32 {
        self.faster + self.slower
    }

    /// Number of pairs.
    pub fn pairs(&self) -> u32 {
        self.same + self.undecided + self.wrong()
    }
}

/// One case over all pairs of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AaCase {
    /// Canonical string.
    pub case: String,
    /// Its verdicts.
    pub counts: Counts,
    /// Median over its pairs of the smallest change that would have been called, as a share of the time; absent where
    /// no pair had enough samples.
    #[serde(rename = "minimum_detectable_effect", alias = "detectable")]
    pub detectable: Option<f64>,
    /// Largest difference between two runs' medians that was met, as a share of the time.
    pub worst: f64,
}

/// A machine against itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AaTable {
    /// Runs that went in.
    pub runs: usize,
    /// Requested resolution.
    pub resolution: f64,
    /// Cases with at least one pair, in the order in which the runs met them.
    pub cases: Vec<AaCase>,
    /// All verdicts.
    pub total: Counts,
    /// The machine's minimum detectable effect: the median over cases. Absent without any pair.
    #[serde(rename = "minimum_detectable_effect", alias = "detectable")]
    pub detectable: Option<f64>,
    /// The same for the case that is worst off.
    #[serde(rename = "minimum_detectable_effect_worst", alias = "detectable_worst")]
    pub detectable_worst: Option<f64>,
}

/// Compares each run with the next, for every case that both have timed. The runs are of one spec on one machine.
pub fn a_a(runs: &[Run]) -> AaTable {
    let mut coarsest = RESOLUTION;
    let mut order: Vec<&str> = Vec::new();
    let mut ratios: BTreeMap<&str, Vec<Ratio>> = BTreeMap::new();
    for pair in runs.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        let (finest, drift) = (resolution_between(first, second), device_drift(first, second));
        coarsest = coarsest.max(finest);
        for record in &first.records {
            let ratio =
                timed(second, &record.case).and_then(|other| judge((first, record), (second, other), finest, drift));
            let Some(ratio) = ratio else { continue };
            let of_case = ratios.entry(&record.case).or_insert_with(|| {
                order.push(&record.case);
                Vec::new()
            });
            of_case.push(ratio);
        }
    }
    let cases: Vec<AaCase> = order.into_iter().map(|case| one(case, &ratios[case])).collect();
    let total = cases.iter().fold(Counts::default(), |mut sum, case| {
        sum.same += case.counts.same;
        sum.faster += case.counts.faster;
        sum.slower += case.counts.slower;
        sum.undecided += case.counts.undecided;
        sum
    });
    let detectable: Vec<f64> = cases.iter().filter_map(|c| c.detectable).collect();
    AaTable {
        runs: runs.len(),
        resolution: coarsest,
        total,
        detectable: median(&detectable),
        detectable_worst: detectable.iter().copied().reduce(f64::max),
        cases,
    }
}

fn one(case: &str, ratios: &[Ratio]) -> AaCase {
    let mut counts = Counts::default();
    ratios.iter().for_each(|r| counts.add(r.verdict));
    let detectable: Vec<f64> = ratios.iter().filter_map(|r| r.detectable).collect();
    // The change is a share of the faster run's time, for either order of the two.
    let worst = ratios.iter().map(|r| r.value.max(1.0 / r.value) - 1.0).fold(0.0, f64::max);
    AaCase { case: case.to_owned(), counts, detectable: median(&detectable), worst }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| quantile(&sorted, 0.5))
}
