//! Repeatability of cases, for readers.

use parallax_schema::record::{Repeatable, Run};

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
    use parallax_schema::record::Difference;
    use parallax_schema::testing::{measured, run, spread};

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
