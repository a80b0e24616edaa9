//! Losses of a run against the base: cases that failed in it, and figures that only the base has.
//!
//! A gate on ratios alone would pass a run in which every case failed, because such a run has no ratios.

use std::collections::HashSet;

use parallax_schema::record::{CheckResult, NamedRun, Outcome, Record, Run};
use parallax_schema::units::three_digits;

use super::compare::no_pair;
use super::comparison::{Pair, Unpaired};
use super::scores::ScorePair;

/// Returns all losses, run by run: failures first, then times of the base without a partner, then its scores.
pub(super) fn losses(runs: &[NamedRun], base: usize, pairs: &[Pair], scores: &[ScorePair]) -> Vec<Unpaired> {
    let others = runs.iter().enumerate().filter(|(i, _)| *i != base);
    others.flat_map(|(i, NamedRun { name, run })| of_run((i, name, run), &runs[base], pairs, scores)).collect()
}

fn of_run(
    (i, name, run): (usize, &str, &Run),
    NamedRun { name: base_name, run: base }: &NamedRun,
    pairs: &[Pair],
    scores: &[ScorePair],
) -> Vec<Unpaired> {
    let lost = |case: &str, reason: String| Unpaired { run: i, case: case.to_owned(), reason };
    // Failed cases count even if the base does not have them: no figure shows that they are as good as before.
    let mut found: Vec<Unpaired> =
        run.records.iter().filter(|r| failed(r)).map(|r| lost(&r.case, outcome(run, &r.case))).collect();
    let mut told: HashSet<&str> = run.records.iter().filter(|r| failed(r)).map(|r| r.case.as_str()).collect();
    let paired: HashSet<&str> = pairs.iter().filter(|p| p.ratios[i].is_some()).map(|p| p.case.as_str()).collect();
    for record in base.records.iter().filter(|r| r.timing().is_some() && !paired.contains(r.case.as_str())) {
        if told.insert(&record.case) {
            let has_time = super::timed(run, &record.case).is_some();
            let caches = || no_pair(record, std::iter::once((name, run)));
            let reason = if has_time { format!("{}; in {base_name}", caches()) } else { outcome(run, &record.case) };
            found.push(lost(&record.case, reason));
        }
    }
    for record in base.records.iter().filter(|r| !told.contains(r.case.as_str())) {
        for score in record.scores() {
            let same = |p: &&ScorePair| p.case == record.case && p.name == score.name && p.better == score.better;
            if scores.iter().find(same).is_none_or(|p| p.differences[i].is_none()) {
                let why = if run.records.iter().any(|r| r.case == record.case && r.measured().is_some()) {
                    "not among its scores".to_owned()
                } else {
                    outcome(run, &record.case)
                };
                found.push(lost(&record.case, format!("no score {}: {why}", score.name)));
            }
        }
    }
    found
}

/// Returns whether a case ended with an error or a wrong result.
pub(super) fn failed(record: &Record) -> bool {
    matches!(record.outcome, Outcome::Fail { .. } | Outcome::Error { .. })
}

/// Returns the outcome of a case without a time in a run.
fn outcome(run: &Run, case: &str) -> String {
    let Some(record) = run.records.iter().find(|r| r.case == case) else {
        return match &run.interrupted {
            Some(why) if run.planned.iter().any(|planned| planned == case) => format!("not reached: {why}"),
            _ => "missing".to_owned(),
        };
    };
    match &record.outcome {
        Outcome::Pass(_) => "checked, and not timed".to_owned(),
        Outcome::Fail { check } => format!("wrong: {}", wrong(check)),
        Outcome::Skipped { reason } => format!("skipped: {reason}"),
        Outcome::Refused { reason, .. } => format!("{}: {reason}", record.verdict()),
        Outcome::Error { reason } => format!("error: {reason}"),
    }
}

fn wrong(check: &CheckResult) -> String {
    match &check.mismatch {
        Some(m) => format!("{}[{}] is beyond its bound", m.output, m.index),
        None => format!("the largest error is {} times its bound", three_digits(check.worst_ratio)),
    }
}

#[cfg(test)]
mod tests {
    use crate::compare::{CompareError, Comparison, Gate, Options, compare};
    use parallax_schema::record::{Better, NamedRun, Outcome};
    use parallax_schema::testing::{measured, run, score, spread};

    const CASES: [&str; 4] = ["a/fwd/b1/f32/x", "a/fwd/b1/f32/y", "a/fwd/b1/f32/z", "a/fwd/b1/f32/w"];

    fn both() -> [NamedRun; 2] {
        let cases: Vec<(&str, Vec<f64>)> = CASES.iter().map(|case| (*case, spread(100.0, 0.002, 40))).collect();
        ["a", "b"].map(|name| NamedRun::new(name, run("cuda", "X", &cases)))
    }

    fn compared(runs: &[NamedRun]) -> Comparison {
        compare(runs, &Options::default()).expect("pairs")
    }

    #[test]
    fn failed_wrong_skipped_and_missing_cases_fail_the_gate() {
        let mut runs = both();
        let gate = Gate { slower: Some(0.05), undecided: false };
        assert!(compared(&runs).gate(gate).0);
        let check = measured(&mut runs[1].run, CASES[0]).check.clone();
        let records = &mut runs[1].run.records;
        records[0].outcome = Outcome::Fail { check };
        records[1].outcome = Outcome::Error { reason: "lost the device".to_owned() };
        records.remove(2);
        let (holds, lines) = compared(&runs).gate(gate);
        let said = lines.join("\n");
        assert!(!holds && !said.contains("no case is slower"), "{said}");
        for part in [
            format!("lost: b {}: wrong: ", CASES[0]),
            format!("lost: b {}: error: lost the device", CASES[1]),
            format!("lost: b {}: missing", CASES[2]),
        ] {
            assert!(said.contains(&part), "{said} lacks {part}");
        }
        runs[1].run.interrupted = Some("stopped".to_owned());
        assert_eq!(compared(&runs).lost[2].reason, "not reached: stopped");
        runs[1].run.records[2].outcome = Outcome::Skipped { reason: "no f32".to_owned() };
        let all = compare(&runs, &Options::default()).expect("failures are in common too");
        assert_eq!((all.pairs.len(), all.lost.len(), all.gate(gate).0), (0, 4, false));
        assert!(all.lost.iter().any(|l| l.reason == "skipped: no f32"), "{:?}", all.lost);
        // In the other direction, the new cases are not losses of the base.
        let back = compare(&runs, &Options { base: 1, ..Options::default() });
        assert!(matches!(back, Err(CompareError::NothingInCommon { .. })));
    }

    #[test]
    fn a_failure_counts_though_the_base_does_not_have_the_case() {
        let mut runs = both();
        runs[0].run.records.pop();
        assert!(compared(&runs).lost.is_empty(), "a case more is no loss");
        runs[1].run.records[3].outcome = Outcome::Error { reason: "x".to_owned() };
        assert_eq!(compared(&runs).lost.len(), 1);
    }

    #[test]
    fn a_score_that_vanished_fails_the_gate() {
        let mut runs = both();
        for NamedRun { run, .. } in &mut runs {
            measured(run, CASES[0]).scores = vec![score("accuracy", 0.9, Better::Higher)];
        }
        assert!(compared(&runs).lost.is_empty());
        measured(&mut runs[1].run, CASES[0]).scores.clear();
        let (holds, lines) = compared(&runs).gate(Gate { slower: Some(0.05), undecided: false });
        let said = lines.join("\n");
        assert!(!holds && said.contains(&format!("lost: b {}: no score accuracy", CASES[0])), "{said}");
    }
}
