//! Expected duration of a run, as the sum of its parts.

use std::fmt;

use crate::spec::Spec;

/// Range of seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedDuration {
    /// Approximate minimum.
    pub low: f64,
    /// Approximate maximum.
    pub high: f64,
}

/// Seconds of the parts of a run, without its budget.
struct Parts {
    /// Self-test of the clocks.
    test: ExpectedDuration,
    /// Ceilings.
    ceilings: ExpectedDuration,
    /// Per case: inputs, the reference on the processor, compilation, two checks and a trace.
    case: ExpectedDuration,
}

/// Measured on GPUs of all sizes.
const ON_A_GPU: Parts = Parts { test: range(0.5, 2.0), ceilings: range(3.0, 9.0), case: range(0.25, 2.0) };
/// Measured on software that emulates a GPU.
const EMULATED: Parts = Parts { test: range(1.0, 4.0), ceilings: range(8.0, 40.0), case: range(1.0, 12.0) };

/// Shares of the budget: of a run with cases that soon reach their precision, and of a run with late rounds.
const OF_THE_BUDGET: ExpectedDuration = range(0.7, 1.3);

const fn range(low: f64, high: f64) -> ExpectedDuration {
    ExpectedDuration { low, high }
}

impl ExpectedDuration {
    /// Returns the duration of a run with `cases` cases.
    pub fn of_run(spec: &Spec, cases: usize, emulated: bool) -> ExpectedDuration {
        let parts = if emulated { EMULATED } else { ON_A_GPU };
        let sum = |of: fn(&ExpectedDuration) -> f64| {
            let ceilings = if spec.ceilings { of(&parts.ceilings) } else { 0.0 };
            of(&parts.test) + ceilings + of(&parts.case) * cases as f64 + of(&OF_THE_BUDGET) * spec.budget
        };
        ExpectedDuration { low: sum(|part| part.low), high: sum(|part| part.high) }
    }

    /// Returns the geometric mean of both ends.
    pub fn middle(&self) -> f64 {
        (self.low * self.high).sqrt()
    }

    /// Returns the middle in words, as in `about 20 s`, for a button with space for one figure.
    pub fn about(&self) -> String {
        match self.middle() {
            seconds if seconds < 90.0 => format!("about {:.0} s", ((seconds / 5.0).round() * 5.0).max(5.0)),
            seconds => format!("about {:.0} min", seconds / 60.0),
        }
    }
}

/// Formats the range in words: one figure if rounding makes both ends equal.
impl fmt::Display for ExpectedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&between(self.low, self.high))
    }
}

fn between(low: f64, high: f64) -> String {
    let (unit, step) = match high {
        s if s < 20.0 => ("s", 1.0),
        s if s < 100.0 => ("s", 5.0),
        _ => ("min", 60.0),
    };
    let scale = if unit == "min" { 60.0 } else { 1.0 };
    let [least, most] = [(low / step).floor().max(1.0), (high / step).ceil().max(1.0)].map(|n| n * step / scale);
    match least < most {
        // A minimum below a minute is not written as "1 to 3 min".
        true if unit == "min" && low < 45.0 => format!("{} s to {most} min", ((low / 5.0).floor() * 5.0).max(1.0)),
        true => format!("{least} to {most} {unit}"),
        false => format!("about {most} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_round_and_wide_enough() {
        for (low, high, words) in [
            (0.3, 0.9, "about 1 s"),
            (7.2, 11.5, "7 to 12 s"),
            (26.0, 41.0, "25 to 45 s"),
            (25.0, 25.0, "about 25 s"),
            (31.0, 130.0, "30 s to 3 min"),
            (65.0, 130.0, "1 to 3 min"),
            (2.0, 130.0, "1 s to 3 min"),
            (121.0, 179.0, "2 to 3 min"),
        ] {
            assert_eq!(between(low, high), words);
        }
    }
}
