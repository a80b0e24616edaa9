//! Findings about a fleet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::card::Card;
use super::groups::{AttributeValue, Group};
use crate::history::Unreadable;

/// Cards of a fleet, and those that differ from the others of their kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Cards by host and address.
    pub cards: Vec<Card>,
    /// Cards that differ, faults first.
    pub alarms: Vec<Alarm>,
    /// Hosts, slots and drivers that several cards share.
    pub attributes: Vec<AttributeValue>,
    /// Cases and cards that are missing.
    pub missing: Vec<Missing>,
    /// Kinds of devices with too few cards for a test.
    pub untested: Vec<String>,
    /// Smallest difference that counts.
    pub resolution: f64,
    /// Smallest slow-down over all cases that the test would have found, for the kind of device with the most cards.
    pub detectable: Option<f64>,
    /// Number of runs.
    pub runs: usize,
    /// Files that are no readable runs.
    pub unreadable: Vec<Unreadable>,
    /// Files with a run that another file has, too.
    pub duplicates: usize,
}

/// Card that differs from the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alarm {
    /// Position of the card.
    pub card: usize,
    /// Kind of the difference.
    #[serde(flatten)]
    pub fault: Fault,
    /// Circumstances that may be the cause, in words.
    pub grounds: Vec<String>,
}

/// Kind of a difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// Results that are wrong, in cases that pass on most cards.
    Wrong {
        /// The cases.
        cases: Vec<String>,
    },
    /// Results that differ from execution to execution, in cases that have the same bits on most cards.
    Unrepeatable {
        /// The cases.
        cases: Vec<String>,
    },
    /// Slower than the others in all runs.
    Slow {
        /// The slow cases.
        group: Group,
        /// Level over the mean of the other cards.
        ratio: f64,
        /// Distance from this mean in standard deviations of the other cards.
        deviations: f64,
    },
    /// Slower than usual in some runs.
    Unsteady {
        /// Number of slow runs.
        slow: usize,
        /// Number of all runs.
        runs: usize,
        /// Median level of the slow runs over the card's own.
        ratio: f64,
    },
    /// Faster than the others in all runs.
    Fast {
        /// The fast cases.
        group: Group,
        /// Level over the mean of the other cards.
        ratio: f64,
        /// Distance from this mean in standard deviations of the other cards.
        deviations: f64,
    },
}

impl Fault {
    /// Name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Wrong { .. } => "wrong results",
            Fault::Unrepeatable { .. } => "unrepeatable results",
            Fault::Slow { .. } => "slow",
            Fault::Unsteady { .. } => "slow at times",
            Fault::Fast { .. } => "fast",
        }
    }

    /// Returns whether the card needs attention.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Fault::Fast { .. })
    }

    /// Place in the order of alarms.
    pub(super) fn place(&self) -> usize {
        match self {
            Fault::Wrong { .. } => 0,
            Fault::Unrepeatable { .. } => 1,
            Fault::Slow { .. } => 2,
            Fault::Unsteady { .. } => 3,
            Fault::Fast { .. } => 4,
        }
    }
}

/// Results that most of a fleet has, and a part has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "missing", rename_all = "lowercase")]
pub enum Missing {
    /// Cases without a time on a card.
    Cases {
        /// Position of the card.
        card: usize,
        /// Number of the cases.
        count: usize,
        /// Reason of the first one.
        reason: String,
    },
    /// Cards of a host.
    Cards {
        /// Name of the host.
        host: String,
        /// Number of its cards.
        has: usize,
        /// Number of cards of most hosts.
        usual: usize,
    },
}

impl Fleet {
    /// Returns the alarms that need attention.
    pub fn faults(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.iter().filter(|alarm| alarm.fault.is_fault())
    }
}
