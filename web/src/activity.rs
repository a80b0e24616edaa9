//! Current activity of a run, as a line of text. It follows the engine's events and has no clock.

use std::collections::BTreeMap;

use parallax_schema::session::Mode;

use crate::words::count;

/// Stage of a single case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The case is compiled, uploaded, run once and checked.
    Preparing,
    /// The case is sampled in rounds with the others.
    Measuring,
    /// The case is traced and checked again. With verification only, this is its only check.
    Checking,
}

impl Stage {
    /// Label for the case's row.
    pub fn word(self) -> &'static str {
        match self {
            Stage::Preparing => "preparing",
            Stage::Measuring => "measuring",
            Stage::Checking => "checking",
        }
    }
}

/// Stage of the whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Doing {
    Testing,
    Case(Stage, String),
    Rounds,
}

/// Tracks a run from event to event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    mode: Mode,
    /// Whether the ceilings are requested and not measured so far. They are measured when the first case needs them.
    ceilings_due: bool,
    doing: Doing,
    /// Cases that have begun and not ended.
    open: BTreeMap<String, Stage>,
    /// Number of finished rounds of this group.
    rounds: u32,
}

impl Activity {
    /// Returns the activity of a run that begins or resumes with a fresh device.
    pub fn new(mode: Mode, ceilings: bool) -> Activity {
        let ceilings_due = ceilings && mode != Mode::Verify;
        Activity { mode, ceilings_due, doing: Doing::Testing, open: BTreeMap::new(), rounds: 0 }
    }

    /// Records that the ceilings are measured.
    pub fn ceilings_end(&mut self) {
        self.ceilings_due = false;
    }

    /// Records the start of a case: its preparation, or its completion after the rounds. Returns its stage.
    pub fn started(&mut self, case: &str) -> Stage {
        let stage = match (self.mode, self.open.get(case)) {
            (Mode::Verify, _) | (_, Some(Stage::Measuring | Stage::Checking)) => Stage::Checking,
            _ => Stage::Preparing,
        };
        if stage == Stage::Preparing {
            self.rounds = 0;
        }
        self.open.insert(case.to_owned(), stage);
        self.doing = Doing::Case(stage, case.to_owned());
        stage
    }

    /// Records the start of a round. Returns whether it is the first of its group.
    pub fn round_begins(&mut self) -> bool {
        let first = self.doing != Doing::Rounds && self.mode == Mode::Measure;
        if first {
            self.doing = Doing::Rounds;
            self.open.values_mut().for_each(|stage| *stage = Stage::Measuring);
        }
        first
    }

    /// Records the end of a round. Returns whether it is the first round event of its group, as on devices without a reference
    /// kernel.
    pub fn round_ends(&mut self) -> bool {
        let first = self.round_begins();
        self.rounds += 1;
        first
    }

    /// Records the end of a case.
    pub fn finished(&mut self, case: &str) {
        self.open.remove(case);
    }

    /// One line for the user.
    pub fn words(&self) -> String {
        match &self.doing {
            Doing::Testing if self.mode == Mode::Verify => "Starting".to_owned(),
            Doing::Testing => "Testing clocks".to_owned(),
            Doing::Case(Stage::Checking, case) if self.ceilings_due => {
                format!("Measuring ceilings, then checking {case}")
            }
            Doing::Case(Stage::Checking, case) => format!("Checking {case}"),
            Doing::Case(_, case) => format!("Preparing {case}"),
            Doing::Rounds => {
                let rounds = match self.rounds {
                    0 => "first round".to_owned(),
                    1 => "1 round done".to_owned(),
                    n => format!("{n} rounds done"),
                };
                format!("Measuring {} in rounds: {rounds}", count(self.open.len()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_prepared_measured_in_rounds_and_checked() {
        let mut activity = Activity::new(Mode::Measure, true);
        assert_eq!(activity.words(), "Testing clocks");
        assert_eq!((activity.started("a"), activity.started("b")), (Stage::Preparing, Stage::Preparing));
        assert_eq!(activity.words(), "Preparing b");
        assert!(activity.round_begins());
        assert_eq!(activity.words(), "Measuring 2 cases in rounds: first round");
        assert!(!activity.round_ends() && !activity.round_begins() && !activity.round_ends());
        assert_eq!(activity.words(), "Measuring 2 cases in rounds: 2 rounds done");
        assert_eq!(activity.started("a"), Stage::Checking);
        assert_eq!(activity.words(), "Measuring ceilings, then checking a");
        activity.ceilings_end();
        activity.finished("a");
        assert_eq!(activity.started("b"), Stage::Checking);
        assert_eq!(activity.words(), "Checking b");
        activity.finished("b");
        // The next group begins anew.
        assert_eq!(activity.started("c"), Stage::Preparing);
        assert!(activity.round_ends(), "a device without a reference kernel tells of rounds by their ends only");
        assert_eq!(activity.words(), "Measuring 1 case in rounds: 1 round done");
    }

    #[test]
    fn verifying_checks_each_case_once() {
        let mut activity = Activity::new(Mode::Verify, true);
        assert_eq!(activity.words(), "Starting");
        assert_eq!(activity.started("a"), Stage::Checking);
        assert!(!activity.round_ends(), "there are no rounds");
        assert_eq!(activity.words(), "Checking a");
    }
}
