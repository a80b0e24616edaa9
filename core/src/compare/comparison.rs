//! What a comparison consists of: the runs, the cases on them, the verdicts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::scores::ScorePair;
use crate::compare::verdict::{Ratio, Verdict};
use crate::record::roofline::Bound;
use crate::units::{Nanos, percent};

/// Several runs against one of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Position of the base among the runs.
    pub base: usize,
    /// The resolution that was asked for, as a share of the time.
    pub resolution: f64,
    /// The runs, in the order given.
    pub runs: Vec<RunHead>,
    /// Cases that the base and at least one other run have timed.
    pub pairs: Vec<Pair>,
    /// Scores that the base and at least one other run have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScorePair>,
    /// Timed cases of a run that have no partner.
    pub unpaired: Vec<Unpaired>,
    /// What the other runs lost: cases that failed in them, and times and scores of the base that they do not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Unpaired>,
    /// Pairs of which one side was another kernel than its name says today.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What tells one run of a comparison from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHead {
    /// Its name in tables.
    pub name: String,
    /// What ran the cases.
    pub target: String,
    /// Name of the device.
    pub device: String,
    /// When it began, in seconds since 1970 (UTC).
    pub started: u64,
    /// The commit that the suite was built from.
    pub commit: String,
    /// How far the device's own speed wandered in this run or the base's, or was from the base's, by the reference kernels; zero
    /// where it cannot be told.
    #[serde(rename = "canary")]
    pub drift: f64,
}

/// One case on several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Canonical string.
    pub case: String,
    /// The figure in each run; absent where the run has none for it.
    pub figures: Vec<Option<Figure>>,
    /// Against the base, for each run; absent for the base itself.
    pub ratios: Vec<Option<Ratio>>,
}

/// What one run found for a case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Median time of one execution, in nanoseconds.
    pub median: Nanos,
    /// 95 % interval of it, low end.
    pub low: Nanos,
    /// 95 % interval of it, high end.
    pub high: Nanos,
    /// Number of samples.
    pub n: u32,
    /// Share of the binding ceiling that is reached, where it is known.
    pub utilisation: Option<f64>,
    /// What binds it, where that is known.
    pub bound: Option<Bound>,
}

/// A case without a partner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unpaired {
    /// Position of the run.
    pub run: usize,
    /// Canonical string.
    pub case: String,
    /// Why there is no pair.
    pub reason: String,
}

impl Comparison {
    /// How many ratios got a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.ratios().filter(|(_, _, r)| r.verdict == verdict).count()
    }

    /// Every ratio with its run's position and its case.
    pub fn ratios(&self) -> impl Iterator<Item = (usize, &str, &Ratio)> {
        self.pairs.iter().flat_map(|pair| {
            pair.ratios.iter().enumerate().filter_map(|(i, r)| Some((i, pair.case.as_str(), r.as_ref()?)))
        })
    }

    /// The ratio of one run for one case.
    pub fn ratio(&self, run: usize, case: &str) -> Option<&Ratio> {
        self.pairs.iter().find(|p| p.case == case)?.ratios.get(run)?.as_ref()
    }

    /// Verdicts counted, as a sentence.
    pub fn tally(&self) -> String {
        let all = [Verdict::Same, Verdict::Faster, Verdict::Slower, Verdict::Undecided];
        let counted = all.map(|v| format!("{} {}", self.count(v), v.name()));
        format!("{} (resolution {} or coarser where noted)", counted.join(", "), percent(self.resolution))
    }
}
