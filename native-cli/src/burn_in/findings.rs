//! Findings of a burn-in, and their verdict.

use std::collections::BTreeMap;

use parallax_schema::device::{Conditions, UNHEALTHY};
use parallax_schema::record::stats::quantile;
use parallax_schema::units::{counted, percent};
use serde::Serialize;

/// Share of readings with clocks reduced by heat or hardware, above which a card is suspect.
const THROTTLED: f64 = 0.01;
/// Growth of the time of a case between the first and the last fifth of its rounds, above which a card is suspect.
const SLOWER: f64 = 0.05;
/// Smallest number of rounds for a growth.
const FEWEST_ROUNDS: usize = 25;

/// Health of a device after a burn-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No finding.
    Healthy,
    /// Right results, with signs of bad cooling, power or memory.
    Suspect,
    /// Wrong results, or memory errors that were not corrected.
    Faulty,
}

impl Verdict {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Suspect => "suspect",
            Verdict::Faulty => "faulty",
        }
    }
}

/// Memory errors that the device counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MemoryErrors {
    /// Errors of one bit, which were corrected.
    pub corrected: u64,
    /// Errors that were not.
    pub uncorrected: u64,
}

impl MemoryErrors {
    /// Returns the errors since earlier readings. A counter that was reset begins again.
    pub fn since(self, earlier: MemoryErrors) -> MemoryErrors {
        MemoryErrors {
            corrected: self.corrected.saturating_sub(earlier.corrected),
            uncorrected: self.uncorrected.saturating_sub(earlier.uncorrected),
        }
    }
}

/// Findings about one case.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CaseFindings {
    /// The case.
    pub case: String,
    /// Number of rounds.
    pub rounds: u64,
    /// Number of executions.
    pub executions: u64,
    /// Number of rounds with other bits than the first one.
    pub different: u64,
    /// Time of an execution in each round, in nanoseconds.
    pub times_ns: Vec<f64>,
}

impl CaseFindings {
    /// Returns the median time of the last fifth of the rounds over that of the first fifth; `None` for few rounds. The first round of all
    /// is left out, because the device may still be cold.
    pub fn growth(&self) -> Option<f64> {
        let times = self.times_ns.get(1..).filter(|times| times.len() >= FEWEST_ROUNDS)?;
        let fifth = times.len() / 5;
        let median = |times: &[f64]| {
            let mut sorted = times.to_vec();
            sorted.sort_by(f64::total_cmp);
            quantile(&sorted, 0.5)
        };
        Some(median(&times[times.len() - fifth..]) / median(&times[..fifth]))
    }
}

/// Readings of the sensors during a burn-in.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Readings {
    /// Number of readings.
    pub readings: u64,
    /// Readings by reason of clocks reduced by heat or hardware.
    pub throttled: BTreeMap<String, u64>,
    /// Highest temperature in degrees Celsius.
    pub hottest_c: Option<f64>,
}

impl Readings {
    /// Adds a reading.
    pub(super) fn take(&mut self, conditions: &Conditions) {
        self.readings += 1;
        self.hottest_c = [self.hottest_c, conditions.temperature_c].into_iter().flatten().reduce(f64::max);
        for reason in conditions.throttle.iter().filter(|reason| UNHEALTHY.contains(&reason.as_str())) {
            *self.throttled.entry(reason.clone()).or_default() += 1;
        }
    }
}

/// Findings of a burn-in.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Findings {
    /// Duration in seconds.
    pub wall_s: f64,
    /// Findings by case.
    pub cases: Vec<CaseFindings>,
    /// Readings of the sensors.
    #[serde(flatten)]
    pub sensors: Readings,
    /// Memory errors during the burn-in; absent where nothing counts them.
    pub memory_errors: Option<MemoryErrors>,
    /// Cases with wrong results before the first round, and the failure of the device, with reasons.
    pub failed: Vec<String>,
}

impl Findings {
    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        self.all().into_iter().map(|(verdict, _)| verdict).max().unwrap_or(Verdict::Healthy)
    }

    /// Returns the reasons of the verdict, faults first.
    pub fn reasons(&self) -> Vec<String> {
        let mut all = self.all();
        all.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
        all.into_iter().map(|(_, reason)| reason).collect()
    }

    fn all(&self) -> Vec<(Verdict, String)> {
        let mut all: Vec<(Verdict, String)> = self.failed.iter().map(|why| (Verdict::Faulty, why.clone())).collect();
        for case in &self.cases {
            if case.different > 0 {
                let rounds = counted(case.rounds as usize, "round");
                all.push((Verdict::Faulty, format!("{}: other bits in {} of {rounds}", case.case, case.different)));
            }
            if let Some(growth) = case.growth().filter(|growth| *growth > 1.0 + SLOWER) {
                all.push((Verdict::Suspect, format!("{}: {} slower at the end", case.case, percent(growth - 1.0))));
            }
        }
        if let Some(errors) = self.memory_errors {
            if errors.uncorrected > 0 {
                all.push((Verdict::Faulty, format!("memory errors that were not corrected: {}", errors.uncorrected)));
            }
            if errors.corrected > 0 {
                all.push((Verdict::Suspect, format!("corrected memory errors: {}", errors.corrected)));
            }
        }
        for (reason, count) in &self.sensors.throttled {
            let share = *count as f64 / self.sensors.readings.max(1) as f64;
            if share > THROTTLED {
                all.push((Verdict::Suspect, format!("{reason} in {} of the readings", percent(share))));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings of forty equal rounds of a case.
    fn equal() -> Findings {
        let case = CaseFindings {
            case: "a/b/c/d/e".to_owned(),
            rounds: 40,
            executions: 4000,
            different: 0,
            times_ns: vec![100.0; 40],
        };
        let memory_errors = Some(MemoryErrors::default());
        Findings {
            wall_s: 10.0,
            cases: vec![case],
            sensors: Readings { readings: 400, ..Readings::default() },
            memory_errors,
            ..Findings::default()
        }
    }

    #[test]
    fn each_finding_has_its_verdict_and_a_reason() {
        let changed = |change: &dyn Fn(&mut Findings)| {
            let mut findings = equal();
            change(&mut findings);
            (findings.verdict(), findings.reasons().join("; "))
        };
        let hot = |count: u64| {
            changed(&move |found: &mut Findings| {
                _ = found.sensors.throttled.insert("hw thermal slowdown".to_owned(), count)
            })
        };
        assert_eq!(changed(&|_| ()), (Verdict::Healthy, String::new()));
        assert_eq!(hot(4), (Verdict::Healthy, String::new()));
        assert_eq!(hot(8), (Verdict::Suspect, "hw thermal slowdown in 2.00 % of the readings".to_owned()));
        for (found, verdict, reason) in [
            (
                changed(&|found| found.cases[0].different = 2),
                Verdict::Faulty,
                "a/b/c/d/e: other bits in 2 of 40 rounds",
            ),
            (
                changed(&|found| found.cases[0].times_ns[30..].fill(107.0)),
                Verdict::Suspect,
                "a/b/c/d/e: 7.00 % slower at the end",
            ),
            (
                changed(&|found| found.memory_errors = Some(MemoryErrors { corrected: 3, uncorrected: 1 })),
                Verdict::Faulty,
                "memory errors that were not corrected: 1; corrected memory errors: 3",
            ),
            (changed(&|found| found.failed.push("x: wrong".to_owned())), Verdict::Faulty, "x: wrong"),
        ] {
            assert_eq!(found, (verdict, reason.to_owned()));
        }
    }

    #[test]
    fn errors_since_a_reading_are_differences() {
        let [before, after] = [(5, 1), (9, 1)].map(|(corrected, uncorrected)| MemoryErrors { corrected, uncorrected });
        assert_eq!(after.since(before), MemoryErrors { corrected: 4, uncorrected: 0 });
        assert_eq!(before.since(after), MemoryErrors::default());
    }
}
