//! Remarks below a row of the table.

use parallax_report::{CaseInfo, Row, advice};
use parallax_schema::record::{Discarded, Record, Run};
use parallax_schema::units::sentence;

/// Remarks on one case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remarks {
    /// Notes on the figure, or the reason of its absence.
    pub notes: Vec<String>,
    /// The limiting factor of the case, and advice.
    pub advice: Option<String>,
}

impl Remarks {
    /// Returns the remarks on a record of a run. Advice compares variants, so it may change with each record of the same problem.
    pub fn on(record: &Record, row: &Row, known: &CaseInfo, run: &Run) -> Remarks {
        let timing = record.timing();
        let caveat = timing.and_then(|t| t.caveat.clone());
        let aside = timing.and_then(|t| discarded(&t.discarded, t.samples.len()));
        let notes = [Some(row.note.clone()), caveat, aside].into_iter().flatten().filter(|n| !n.is_empty());
        Remarks {
            notes: notes.map(|n| sentence(&n)).collect(),
            advice: advice::advice_by(record, known, run).map(|a| sentence(&a)),
        }
    }

    /// Returns whether there are no remarks.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.advice.is_none()
    }
}

/// Number of discarded samples and their reasons, if there are any. Reasons that differ only in their figures are one kind,
/// represented by its first.
fn discarded(aside: &[Discarded], counted: usize) -> Option<String> {
    let mut kinds: Vec<(&str, usize, bool)> = Vec::new();
    for Discarded { reason, .. } in aside {
        match kinds.iter_mut().find(|(first, ..)| words(first).eq(words(reason))) {
            Some((first, n, same)) => {
                *n += 1;
                *same &= *first == reason;
            }
            None => kinds.push((reason, 1, true)),
        }
    }
    let several = kinds.len() > 1;
    let tell = |(first, n, same): &(&str, usize, bool)| {
        let similar = if *same { "" } else { ", or similar" };
        let n = if several { format!(" ({n})") } else { String::new() };
        format!("{first}{similar}{n}")
    };
    let reasons: Vec<String> = kinds.iter().map(tell).collect();
    let all = aside.len() + counted;
    (!aside.is_empty()).then(|| format!("{} of {all} samples discarded: {}", aside.len(), reasons.join("; ")))
}

/// Characters of a string without its figures.
fn words(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_ascii_digit() && *c != '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_discarded_are_counted_by_kind() {
        let of = |reasons: &[&str]| {
            let aside = reasons.iter().map(|r| Discarded { time: 1.0, reason: (*r).to_owned() }).collect::<Vec<_>>();
            discarded(&aside, 10)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["slow", "slow"]).expect("two"), "2 of 12 samples discarded: slow");
        assert_eq!(
            of(&["8.5 % slow", "hidden", "12 % slow"]).expect("three"),
            "3 of 13 samples discarded: 8.5 % slow, or similar (2); hidden (1)"
        );
    }
}
