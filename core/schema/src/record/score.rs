//! Scores of a case besides its time: accuracies, F1, items per second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One score of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// Name, with its unit where it has one: `accuracy`, `F1`, `samples/s`.
    pub name: String,
    /// The score.
    pub value: f64,
    /// 95 % interval of it, low end; the value itself where nothing about it is random.
    pub low: f64,
    /// 95 % interval of it, high end.
    pub high: f64,
    /// Which way is better.
    pub better: Better,
    /// How many items it was taken over: images, sentences, batches.
    pub items: u64,
}

/// Names of the scores of networks.
pub mod of_networks {
    /// Rate of rows and images.
    pub const SAMPLES: &str = "samples/s";
    /// Rate of the tokens of texts.
    pub const TOKENS: &str = "tokens/s";
    /// Median of the latency of one request.
    pub const LATENCY_P50: &str = "latency p50, ms";
    /// 95th percentile of it.
    pub const LATENCY_P95: &str = "latency p95, ms";
    /// Share of predictions that equal those of the processor in f32.
    pub const EQUAL: &str = "equal predictions";
    /// Largest difference of a logit from that of the processor in f32.
    pub const LOGIT_DIFFERENCE: &str = "logit difference";
}

/// Names of the scores of collectives, in 10⁹ bytes per second.
pub mod of_collectives {
    /// Bytes of a message over the time of the collective.
    pub const ALGORITHM: &str = "algorithm bandwidth, GB/s";
    /// Algorithm bandwidth times the factor of the collective, for a comparison with the rate of a link.
    pub const BUS: &str = "bus bandwidth, GB/s";
}

/// Which of two scores is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The higher one.
    Higher,
    /// The lower one.
    Lower,
}

impl Score {
    /// Returns the name of a score at a step of a training.
    pub fn name_at(score: &str, step: u64) -> String {
        format!("{score}{AT_STEP}{step}")
    }

    /// Returns the score and the step of a name from [`Score::name_at`]; `None` for other names.
    pub fn step(&self) -> Option<(&str, u64)> {
        let (score, step) = self.name.rsplit_once(AT_STEP)?;
        Some((score, step.parse().ok()?))
    }
}

/// Text between the name of a score and its step.
const AT_STEP: &str = " at step ";

impl Better {
    /// Returns one word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Better::Higher => "higher",
            Better::Lower => "lower",
        }
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [value, low, high] = [self.value, self.low, self.high].map(crate::units::four_digits);
        write!(f, "{} {value} [{low}, {high}] over {} items", self.name, self.items)
    }
}
