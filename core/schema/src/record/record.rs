//! The one serialised schema: a run and its records.
//!
//! Measured values are kept raw; derived values can be recomputed. Skipped and failed cases are records too.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::roofline::Analysis;
use super::{CheckResult, CounterFigures, Counters, Energy, EnergyFigure, Items, OneCall, Score, StopReason, Timing};
use crate::case::{Cost, DType};
use crate::device::{Compiled, Launch, MemoryStats, Trace};
use crate::units::Nanos;

/// Record of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Canonical string of the case as asked for: the key for comparing.
    pub case: String,
    /// Its parts, so that readers need no parser.
    pub parts: Parts,
    /// The variant that ran and why, where it is not the one asked for.
    pub actual: Option<ActualVariant>,
    /// Position in the run's devices of the one that ran it.
    #[serde(default, skip_serializing_if = "is_first")]
    pub device: u32,
    /// The least work that the problem needs.
    pub cost: Cost,
    /// Items that an execution processes, for workloads that count them. Their rate is items per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Items>,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Whether a device is the run's first, which is the default.
fn is_first(device: &u32) -> bool {
    *device == 0
}

/// The parts of a case string.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Operation.
    pub workload: String,
    /// `fwd`, `bwd` or `fwd+bwd`.
    pub direction: String,
    /// Extents in elements, defaults filled in.
    pub shape: BTreeMap<String, u64>,
    /// Numbers with decimal places, such as a dropped share, defaults filled in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decimals: BTreeMap<String, f64>,
    /// Options chosen, such as `causal` or `nhwc`.
    pub options: Vec<String>,
    /// Element type.
    pub dtype: DType,
    /// Variant asked for.
    pub variant: String,
}

impl Parts {
    /// Whether another case differs at most in its element type.
    pub fn is_alike(&self, other: &Parts) -> bool {
        Parts { dtype: other.dtype, ..self.clone() } == *other
    }
}

/// A variant that ran in place of the one asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActualVariant {
    /// Its name.
    pub variant: String,
    /// Why it ran.
    pub reason: String,
}

/// How a case ended. Files before version 3 said `ok` for pass, `wrong` for fail and `failed` for error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// Its outputs agree with the reference; timed unless only verified.
    #[serde(alias = "ok")]
    Pass(Box<Measured>),
    /// Ran, and its outputs do not agree with the reference; there are no times.
    #[serde(alias = "wrong")]
    Fail {
        /// The first comparison that failed.
        check: CheckResult,
    },
    /// Did not run, as planned.
    Skipped {
        /// Why not.
        reason: String,
    },
    /// Passed, and gave a time that cannot be believed; there is no figure.
    Refused {
        /// Kind of the refusal.
        kind: Refusal,
        /// The figures that led to it.
        reason: String,
        /// The comparison with the reference.
        check: CheckResult,
    },
    /// Was to run and could not.
    #[serde(alias = "failed")]
    Error {
        /// Description of the error.
        reason: String,
    },
}

/// Why a time is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Refusal {
    /// The clock's error is too large a part of the longest sample that can be taken.
    Unresolvable,
    /// It is shorter than the ceilings of the device allow.
    Impossible,
}

/// Everything measured about a case that passed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Compilation.
    pub compiled: Compiled,
    /// The comparison with the reference before the first sample; the one after the last sample passed too.
    pub check: CheckResult,
    /// Times, absent after `verify`.
    pub timing: Option<Timing>,
    /// Times of one call, absent where it was not timed or takes long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<OneCall>,
    /// Energy of an execution, or the reason of its absence; absent where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// Hardware counters of the stages, or the reason of their absence; absent where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// Scores besides time, such as an accuracy; usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<Score>,
    /// Device memory.
    pub memory: MemoryStats,
    /// Launches of an execution.
    #[serde(default)]
    pub launches: Vec<Launch>,
    /// The case under the roofline, where ceilings and a time are known.
    #[serde(default)]
    pub analysis: Option<Analysis>,
    /// Executions in detail, as many as the schedule kept; a run file keeps the first 200 spans, its trace all.
    pub trace: Option<Trace>,
    /// Work of the host for this case, with times on the profiler's host clock.
    pub phases: Vec<Phase>,
}

/// A stretch of host time spent on a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// prepare, check, warm-up and sampling, loading and transfer of a batch, trace, recheck.
    pub name: String,
    /// Begin.
    pub start: Nanos,
    /// End.
    pub end: Nanos,
}

/// Phase of the creation of a batch on the host. It and [`TRANSFER`] occur once for each traced execution.
pub const LOADING: &str = "loading";
/// Phase of the transfer of a batch to the device, and of its results back to the host.
pub const TRANSFER: &str = "transfer";

impl Record {
    /// Returns the measured part, if the case passed.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Pass(measured) => Some(measured),
            _ => None,
        }
    }

    /// Returns the timing, if any.
    pub fn timing(&self) -> Option<&Timing> {
        self.measured()?.timing.as_ref()
    }

    /// Whether the case was cut off with its run: its samples were kept, and it was not checked a second time.
    pub fn cut_off(&self) -> bool {
        self.timing().is_some_and(|timing| timing.stopped == StopReason::Killed)
    }

    /// Returns the scores of the record, and those that follow from its energy.
    pub fn scores(&self) -> Vec<Score> {
        let kept = self.measured().into_iter().flat_map(|m| m.scores.iter().cloned());
        let energy = self.energy().into_iter().flat_map(|energy| energy.scores(self.cost.flops, self.items.as_ref()));
        kept.chain(energy).collect()
    }

    /// Returns the measured energy, if any.
    pub fn energy(&self) -> Option<&EnergyFigure> {
        match self.measured()?.energy.as_ref()? {
            Energy::Measured(figure) => Some(figure),
            Energy::Absent(_) => None,
        }
    }

    /// Returns the reason of the absence of energy, where it was asked for.
    pub fn no_energy(&self) -> Option<&str> {
        match self.measured()?.energy.as_ref()? {
            Energy::Measured(_) => None,
            Energy::Absent(reason) => Some(reason),
        }
    }

    /// Returns the hardware counters, if any.
    pub fn counters(&self) -> Option<&CounterFigures> {
        match self.measured()?.counters.as_ref()? {
            Counters::Measured(figures) => Some(figures),
            Counters::Absent(_) => None,
        }
    }

    /// Returns the reason of the absence of counters, where they were asked for.
    pub fn no_counters(&self) -> Option<&str> {
        match self.measured()?.counters.as_ref()? {
            Counters::Measured(_) => None,
            Counters::Absent(reason) => Some(reason),
        }
    }

    /// Returns formatted items per second of a passed case with a figure.
    pub fn items_rate(&self) -> Option<String> {
        Some(self.items.as_ref()?.rate(self.timing()?.summary.median))
    }

    /// Returns the reason why there is no figure; `None` for a case that passed or was wrong.
    pub fn reason(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Pass(_) | Outcome::Fail { .. } => None,
            Outcome::Skipped { reason } | Outcome::Error { reason } | Outcome::Refused { reason, .. } => Some(reason),
        }
    }

    /// Returns the verdict as one word for tables.
    pub fn verdict(&self) -> &'static str {
        match self.outcome {
            Outcome::Pass(_) => "pass",
            Outcome::Fail { .. } => "FAIL",
            Outcome::Skipped { .. } => "skipped",
            Outcome::Refused { kind: Refusal::Unresolvable, .. } => "unresolved",
            Outcome::Refused { kind: Refusal::Impossible, .. } => "impossible",
            Outcome::Error { .. } => "ERROR",
        }
    }
}
