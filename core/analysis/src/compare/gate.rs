//! Gate over a comparison: fails on a case that is certainly slower or worse by more than a limit, and on a lost case.

use parallax_schema::units::percent;

use crate::compare::comparison::Comparison;
use crate::compare::scores::{Change, Difference, ScorePair};
use crate::compare::verdict::{Ratio, Verdict, digits};

/// Conditions of a gate. In all cases nothing may be lost: a lost figure is neither fast nor decided.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gate {
    /// Limit, as a share, for cases that are certainly slower or worse.
    pub slower: Option<f64>,
    /// Whether every time and every score must have a verdict.
    pub undecided: bool,
}

impl Comparison {
    /// Returns the slower ratios with the low end of their interval above `1 + limit`; never an undecided one.
    pub fn slower_than(&self, limit: f64) -> Vec<(usize, &str, &Ratio)> {
        let beyond = |r: &Ratio| r.verdict == Verdict::Slower && r.low.is_some_and(|low| low > 1.0 + limit);
        self.ratios().filter(|(_, _, r)| beyond(r)).collect()
    }

    /// Returns the worse scores with the near end of their interval beyond `limit` as a share of the base's score.
    pub fn worse_than(&self, limit: f64) -> Vec<(usize, &ScorePair, &Difference)> {
        let beyond = |(_, pair, d): &(usize, &ScorePair, &Difference)| {
            let base = pair.scores[self.base].as_ref().map_or(0.0, |s| s.value.abs());
            d.verdict == Change::Worse && d.worse_by_at_least(pair.better) > limit * base
        };
        self.differences().filter(beyond).collect()
    }

    /// Returns whether the gate holds, and the lines of its report.
    pub fn gate(&self, gate: Gate) -> (bool, Vec<String>) {
        let mut lines = Vec::new();
        let slower = gate.slower.is_none_or(|limit| self.none_slower(limit, &mut lines));
        let decided = !gate.undecided || self.all_decided(&mut lines);
        for lost in &self.lost {
            lines.push(format!("lost: {} {}: {}", self.runs[lost.run].name, lost.case, lost.reason));
        }
        (slower && decided && self.lost.is_empty(), lines)
    }

    fn none_slower(&self, limit: f64, lines: &mut Vec<String>) -> bool {
        let slower = self.slower_than(limit);
        let undecided = self.count(Verdict::Undecided);
        for (i, case, ratio) in &slower {
            let least = ratio.low.map(digits).unwrap_or_default();
            lines.push(format!(
                "slower by more than {}: {} {case}: {ratio}, at least {least}×",
                percent(limit),
                self.runs[*i].name
            ));
        }
        if slower.is_empty() {
            // The result of a lost case is unknown.
            let what = if self.lost.is_empty() { "no case is" } else { "of the remaining cases none is" };
            lines.push(format!("{what} slower by more than {}; {undecided} undecided", percent(limit)));
        }
        let worse = self.worse_than(limit);
        for (i, pair, difference) in &worse {
            let (run, ScorePair { case, name, .. }) = (&self.runs[*i].name, pair);
            lines.push(format!("worse by more than {}: {run} {case}: {name} {difference}", percent(limit)));
        }
        if worse.is_empty() && !self.scores.is_empty() {
            let open = self.open_scores().count();
            let what = if self.lost.is_empty() { "no score is" } else { "of the remaining scores none is" };
            lines.push(format!("{what} worse by more than {}; {open} undecided", percent(limit)));
        }
        slower.is_empty() && worse.is_empty()
    }

    fn all_decided(&self, lines: &mut Vec<String>) -> bool {
        let before = lines.len();
        for (i, case, ratio) in self.ratios().filter(|(_, _, r)| r.verdict == Verdict::Undecided) {
            lines.push(format!("undecided: {} {case}: {ratio}", self.runs[i].name));
        }
        for (i, pair, difference) in self.open_scores() {
            lines.push(format!("undecided: {} {}: {} {difference}", self.runs[i].name, pair.case, pair.name));
        }
        lines.len() == before
    }

    /// Returns every difference of a score with its run's position and its pair.
    fn differences(&self) -> impl Iterator<Item = (usize, &ScorePair, &Difference)> {
        self.scores
            .iter()
            .flat_map(|pair| pair.differences.iter().enumerate().filter_map(move |(i, d)| Some((i, pair, d.as_ref()?))))
    }

    fn open_scores(&self) -> impl Iterator<Item = (usize, &ScorePair, &Difference)> {
        self.differences().filter(|(_, _, d)| d.verdict == Change::Undecided)
    }
}

#[cfg(test)]
mod tests {
    use crate::compare::{Gate, Options, compare};
    use parallax_schema::record::NamedRun;
    use parallax_schema::testing::{run, spread};

    const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";

    fn named(name: &str, target: &str, device: &str, median: f64) -> NamedRun {
        NamedRun::new(name, run(target, device, &[(CASE, spread(median, 0.002, 40))]))
    }

    #[test]
    fn the_gate_looks_at_the_low_end_and_never_at_the_undecided() {
        let base = named("a", "cuda", "X", 100.0);
        let compared = |other| compare(&[base.clone(), other], &Options::default()).expect("pairs");
        let gate = |other: NamedRun, limit| compared(other).gate(Gate { slower: Some(limit), undecided: false });
        let (holds, lines) = gate(named("b", "cuda", "X", 110.0), 0.05);
        assert!(!holds && lines[0].contains(CASE), "{lines:?}");
        assert!(gate(named("b", "cuda", "X", 105.1), 0.05).0, "the interval starts below the limit");
        let noisy = NamedRun::new("b", run("cuda", "X", &[(CASE, spread(120.0, 0.6, 12))]));
        let (holds, lines) = gate(noisy.clone(), 0.05);
        assert!(holds && lines[0].contains("1 undecided"), "{lines:?}");
        let strict = Gate { slower: None, undecided: true };
        let (holds, lines) = compared(noisy).gate(strict);
        assert!(!holds && lines[0].contains(&format!("undecided: b {CASE}")), "{lines:?}");
        assert_eq!(compared(named("b", "cuda", "X", 150.0)).gate(strict), (true, Vec::new()), "slower is a verdict");
    }
}
