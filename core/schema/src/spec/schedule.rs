//! Schedule of a traced run. A cycle has executions that run untraced, executions that are traced and discarded, and executions
//! that are kept. The cycle repeats. The words and their meaning are those of PyTorch's profiler.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schedule of traced executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// Number of untraced executions at the beginning of a cycle.
    pub wait: u32,
    /// Number of executions that are traced and discarded, because tracing itself has to warm up.
    pub warmup: u32,
    /// Number of executions that are traced and kept.
    pub active: u32,
    /// Number of cycles.
    pub repeat: u32,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule { wait: 0, warmup: 1, active: 1, repeat: 1 }
    }
}

/// Treatment of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Untraced.
    Wait,
    /// Traced and discarded.
    WarmUp,
    /// Traced and kept.
    Active,
}

/// Largest number of executions, beyond any practical wait and any viewer's capacity.
const MOST: u64 = 1_000_000;

/// Error of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A part is none of the four words with a number.
    #[error("schedule: `{0}` is not wait=N, warmup=N, active=N or repeat=N")]
    Part(String),
    /// A part is given twice.
    #[error("schedule: `{0}` is given twice")]
    Twice(String),
    /// No execution would be kept.
    #[error("schedule: {0} must be at least 1, or nothing is traced")]
    Nothing(&'static str),
    /// The number of iterations is too large.
    #[error("schedule: (wait + warmup + active) x repeat is {0} iterations; at most {MOST} are run")]
    TooMany(u64),
    /// The caller's number of iterations does not suffice.
    #[error(
        "schedule: {schedule} takes {needed} iterations, of which --iterations allows {allowed}; raise it to {needed} or shorten the schedule"
    )]
    TooFew {
        /// Schedule.
        schedule: Schedule,
        /// Number of iterations that it takes.
        needed: u64,
        /// Number of iterations allowed.
        allowed: u64,
    },
}

impl Schedule {
    /// Returns the number of iterations: (wait + warmup + active) x repeat.
    pub fn iterations(&self) -> u64 {
        self.cycle() * u64::from(self.repeat)
    }

    fn cycle(&self) -> u64 {
        u64::from(self.wait) + u64::from(self.warmup) + u64::from(self.active)
    }

    /// Returns the treatment of each execution, in order.
    pub fn phases(&self) -> impl Iterator<Item = Phase> + use<> {
        let Schedule { wait, warmup, .. } = *self;
        let cycle = self.cycle();
        (0..self.iterations()).map(move |i| match i % cycle {
            at if at < u64::from(wait) => Phase::Wait,
            at if at < u64::from(wait) + u64::from(warmup) => Phase::WarmUp,
            _ => Phase::Active,
        })
    }

    /// Whether `allowed` iterations suffice.
    pub fn fits(&self, allowed: u64) -> Result<(), ScheduleError> {
        let needed = self.iterations();
        if needed > allowed { Err(ScheduleError::TooFew { schedule: *self, needed, allowed }) } else { Ok(()) }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wait={},warmup={},active={},repeat={}", self.wait, self.warmup, self.active, self.repeat)
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    /// Parses parts in any order; missing parts keep their default.
    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let mut schedule = Schedule::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let wrong = || ScheduleError::Part(part.to_owned());
            let (key, number) = part.split_once('=').ok_or_else(wrong)?;
            let number = number.parse().map_err(|_| wrong())?;
            if seen.contains(&key) {
                return Err(ScheduleError::Twice(key.to_owned()));
            }
            seen.push(key);
            match key {
                "wait" => schedule.wait = number,
                "warmup" => schedule.warmup = number,
                "active" => schedule.active = number,
                "repeat" => schedule.repeat = number,
                _ => return Err(wrong()),
            }
        }
        if schedule.active == 0 {
            return Err(ScheduleError::Nothing("active"));
        }
        if schedule.repeat == 0 {
            return Err(ScheduleError::Nothing("repeat"));
        }
        match schedule.iterations() {
            n if n > MOST => Err(ScheduleError::TooMany(n)),
            _ => Ok(schedule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_the_words() {
        use Phase::{Active, Wait, WarmUp};
        let schedule: Schedule = "wait=1,warmup=1,active=2,repeat=2".parse().expect("valid");
        let cycle = [Wait, WarmUp, Active, Active];
        assert_eq!(schedule.phases().collect::<Vec<_>>(), [cycle, cycle].concat());
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
        assert_eq!("active=3".parse(), Ok(Schedule { active: 3, ..Schedule::default() }));
    }

    #[test]
    fn mistakes_say_what_would_do() {
        for (text, part) in [
            ("", "`` is not wait=N"),
            ("wait=3;active=1", "is not wait=N"),
            ("skip=1", "`skip=1` is not"),
            ("wait=-1", "is not"),
            ("wait=1,wait=2", "given twice"),
            ("active=0", "active must be at least 1"),
            ("repeat=0", "repeat must be at least 1"),
            ("wait=4000000000,repeat=4", "at most 1000000"),
        ] {
            let error = text.parse::<Schedule>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn iterations_are_held_against_what_there_is() {
        let schedule: Schedule = "wait=3,warmup=1,active=3,repeat=2".parse().expect("valid");
        assert_eq!((schedule.iterations(), schedule.fits(14)), (14, Ok(())));
        let error = schedule.fits(13).expect_err("one short").to_string();
        assert!(error.contains("takes 14 iterations") && error.contains("allows 13"), "{error}");
    }
}
