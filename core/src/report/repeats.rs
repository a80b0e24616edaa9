//! Repeatability of cases, for readers.

use crate::record::{Repeatable, Run};
use crate::units::percent;

impl Repeatable {
    /// Returns the result in a few words: `bit by bit`, or the difference.
    pub fn words(&self) -> String {
        match self {
            Repeatable::Bitwise => "bit by bit".to_owned(),
            Repeatable::Differs(by) if by.by == 0.0 => "not bit by bit, and equal where compared".to_owned(),
            Repeatable::Differs(by) => {
                format!("not bit by bit: up to {:.1e} apart, {} of the bound", by.by, percent(by.of_bound))
            }
        }
    }
}

/// Returns a line for each case that does not repeat bit by bit, and the number of those that do.
pub fn repeats(run: &Run) -> Vec<String> {
    let known: Vec<(&str, Repeatable)> = run
        .as_planned()
        .into_iter()
        .filter_map(|record| Some((record.case.as_str(), record.measured()?.check.repeatable?)))
        .collect();
    let others = known.iter().filter(|(_, repeatable)| *repeatable != Repeatable::Bitwise);
    let lines: Vec<String> =
        others.map(|(case, repeatable)| format!("{case}: repeats {}", repeatable.words())).collect();
    let same = known.len() - lines.len();
    let tally = (!known.is_empty()).then(|| format!("repeated bit by bit: {same} of {}", known.len()));
    lines.into_iter().chain(tally).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Difference;
    use crate::testing::fixtures::{measured, run, spread};

    #[test]
    fn what_does_not_repeat_is_named_and_what_was_not_looked_at_is_not_counted() {
        let cases = ["a/fwd/n1/f32/x", "a/fwd/n1/f32/y", "a/fwd/n1/f32/z"];
        let mut run = run("cuda", "X", &cases.map(|case| (case, spread(100.0, 0.01, 20))));
        assert_eq!(repeats(&run), [""; 0], "a file of a version that did not look");
        measured(&mut run, cases[0]).check.repeatable = Some(Repeatable::Bitwise);
        let difference = Difference { by: 1.2e-7, of_bound: 0.03 };
        measured(&mut run, cases[2]).check.repeatable = Some(Repeatable::Differs(difference));
        let said = "a/fwd/n1/f32/z: repeats not bit by bit: up to 1.2e-7 apart, 3.00 % of the bound";
        assert_eq!(repeats(&run), [said, "repeated bit by bit: 1 of 2"]);
    }
}
