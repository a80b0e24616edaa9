//! Cards of a fleet, and facts of their runs besides times.

use parallax_schema::device::UNHEALTHY;
use parallax_schema::record::{Outcome, Repeatable};
use parallax_schema::record::{Run, host};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Identity of a card.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct CardKey {
    /// Name of the device.
    pub device: String,
    /// Name of the host; empty if unknown.
    pub host: String,
    /// PCI address; empty if unknown.
    pub slot: String,
    /// Identifier in the driver; empty if unknown.
    pub uuid: String,
}

impl CardKey {
    /// Returns the identity of the card of a run.
    pub(super) fn of(run: &Run) -> CardKey {
        let device = run.device();
        CardKey {
            device: device.name.clone(),
            host: run.environment.get(host::NAME).cloned().unwrap_or_default(),
            slot: device.identity.pci.clone().unwrap_or_default(),
            uuid: device.identity.uuid.clone().unwrap_or_default(),
        }
    }

    /// Returns the identifier by which runs of one card are put together.
    pub(super) fn identifier(&self) -> String {
        match (self.uuid.as_str(), self.slot.as_str()) {
            ("", "") => format!("{} of {}", self.device, self.host),
            ("", slot) => format!("{slot} of {}", self.host),
            (uuid, _) => uuid.to_owned(),
        }
    }

    /// Returns the name of the card in tables: host and address, as far as they are known.
    pub fn name(&self) -> String {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let parts: Vec<String> =
            [known(&self.host), known(&self.slot).or_else(|| known(&self.uuid))].into_iter().flatten().collect();
        if parts.is_empty() { self.device.clone() } else { parts.join(" ") }
    }
}

/// Card of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// Identity; host, address and driver are those of the newest run.
    #[serde(flatten)]
    pub key: CardKey,
    /// Interface and driver.
    pub driver: String,
    /// Number of runs.
    pub runs: usize,
    /// Number of cases with a time in any run.
    pub cases: usize,
    /// Level over that of the median card, over all cases: above 1 is slower. Absent for a card without a case in common with others.
    pub level: Option<f64>,
    /// Median temperature after samples, in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Share of samples with clocks reduced by heat or by the hardware.
    pub slowed: f64,
}

/// Facts of a run besides its times.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// Cases with wrong results.
    pub wrong: Vec<String>,
    /// Cases with results that differ from execution to execution.
    pub unrepeatable: Vec<String>,
    /// Cases without a time, and the reasons.
    pub absent: Vec<(String, String)>,
    /// Cases with right results.
    pub right: Vec<String>,
    pub temperatures: Vec<f64>,
    pub samples: usize,
    /// Samples with clocks reduced by heat or by the hardware.
    pub slowed: usize,
}

impl Facts {
    /// Returns the facts of a run, in the cases that `keep` accepts.
    pub fn of(run: &Run, keep: impl Fn(&str) -> bool) -> Facts {
        let mut facts = Facts::default();
        for record in run.records.iter().filter(|record| keep(&record.case)) {
            match &record.outcome {
                Outcome::Fail { .. } => facts.wrong.push(record.case.clone()),
                Outcome::Pass(measured) => {
                    match measured.check.repeatable {
                        Some(Repeatable::Differs(_)) => facts.unrepeatable.push(record.case.clone()),
                        _ => facts.right.push(record.case.clone()),
                    }
                    let Some(timing) = &measured.timing else { continue };
                    facts
                        .temperatures
                        .extend(timing.conditions.iter().filter_map(|conditions| conditions.temperature_c));
                    let unhealthy = |reasons: &str| UNHEALTHY.iter().any(|reason| reasons.contains(reason));
                    let kept = timing.conditions.iter().filter(|conditions| unhealthy(&conditions.throttle.join(", ")));
                    let discarded = timing.discarded.iter().filter(|discarded| unhealthy(&discarded.reason));
                    facts.slowed += kept.count() + discarded.count();
                    facts.samples += timing.samples.len() + timing.discarded.len();
                }
                Outcome::Skipped { reason } | Outcome::Error { reason } | Outcome::Refused { reason, .. } => {
                    facts.absent.push((record.case.clone(), reason.clone()));
                }
            }
        }
        facts
    }
}
