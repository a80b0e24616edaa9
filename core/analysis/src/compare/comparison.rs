//! Parts of a comparison: the runs, their cases, the verdicts.

use parallax_schema::case::by_case;
use parallax_schema::device::BrowserMode;
use parallax_schema::record::Errors;
use parallax_schema::record::roofline::Bound;
use parallax_schema::spec::filter::any_keeps;
use parallax_schema::units::{Nanos, percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::scores::ScorePair;
use crate::compare::verdict::{RESOLUTION, Ratio, Verdict, digits};

/// Several runs against one of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Position of the base among the runs.
    pub base: usize,
    /// The runs, in the order given.
    pub runs: Vec<RunHead>,
    /// Cases that the base and at least one other run have timed.
    pub pairs: Vec<Pair>,
    /// Scores that the base and at least one other run have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScorePair>,
    /// Timed cases of a run that have no partner.
    pub unpaired: Vec<Unpaired>,
    /// Losses of the other runs: cases that failed in them, and times and scores of the base that they do not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Unpaired>,
    /// Pairs of which one side was another kernel than its name says today.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Identity of a run within a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHead {
    /// Its name in tables.
    pub name: String,
    /// Target that ran the cases.
    pub target: String,
    /// How far a browser let it, where one did and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<BrowserMode>,
    /// Name of the device.
    pub device: String,
    /// When it began, in seconds since 1970 (UTC).
    pub started: u64,
    /// The commit that the suite was built from.
    pub commit: String,
    /// The smallest difference from the base that counts, as a share of the time, where a pair has no reason for a coarser one.
    pub resolution: f64,
    /// How far the device's own speed wandered in this run or the base's, or was from the base's, by the reference kernels; zero
    /// where it is unknown.
    #[serde(rename = "canary")]
    pub drift: f64,
}

/// One case on several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Canonical string.
    pub case: String,
    /// The figure in each run; absent where the run has none for it.
    pub figures: Vec<Option<Figure>>,
    /// Against the base, for each run; absent for the base itself.
    pub ratios: Vec<Option<Ratio>>,
}

/// Result of one run for a case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Median time of one execution, in nanoseconds.
    pub median: Nanos,
    /// 95 % interval of it, low end.
    pub low: Nanos,
    /// 95 % interval of it, high end.
    pub high: Nanos,
    /// Number of samples.
    pub n: u32,
    /// Share of the binding ceiling that is reached, where it is known.
    pub utilisation: Option<f64>,
    /// Its bound, where that is known.
    pub bound: Option<Bound>,
    /// Errors of its outputs, where they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
}

/// A case without a partner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unpaired {
    /// Position of the run.
    pub run: usize,
    /// Canonical string.
    pub case: String,
    /// Why there is no pair.
    pub reason: String,
}

impl Comparison {
    /// Number of ratios with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.ratios().filter(|(_, _, r)| r.verdict == verdict).count()
    }

    /// Returns every ratio with its run's position and its case.
    pub fn ratios(&self) -> impl Iterator<Item = (usize, &str, &Ratio)> {
        self.pairs.iter().flat_map(|pair| {
            pair.ratios.iter().enumerate().filter_map(|(i, r)| Some((i, pair.case.as_str(), r.as_ref()?)))
        })
    }

    /// Returns the ratio of one run for one case.
    pub fn ratio(&self, run: usize, case: &str) -> Option<&Ratio> {
        self.pairs.iter().find(|p| p.case == case)?.ratios.get(run)?.as_ref()
    }

    /// Keeps the pairs, scores and unpaired cases that any word of the filter keeps. An empty filter keeps all.
    pub fn filtered(mut self, words: &[String]) -> Comparison {
        let kept = |case: &str| any_keeps(words, case);
        self.pairs.retain(|pair| kept(&pair.case));
        self.scores.retain(|pair| kept(&pair.case));
        self.unpaired.retain(|alone| kept(&alone.case));
        self
    }

    /// Sorts the pairs and the unpaired cases in the order of cases.
    pub fn by_case(mut self) -> Comparison {
        self.pairs.sort_by(|a, b| by_case(&a.case, &b.case));
        self.unpaired.sort_by(|a, b| by_case(&a.case, &b.case));
        self
    }

    /// Sorts the pairs by their largest ratio, the slowest first.
    pub fn by_ratio(mut self) -> Comparison {
        let largest = |pair: &Pair| pair.ratios.iter().flatten().map(|ratio| ratio.value).fold(0.0, f64::max);
        self.pairs.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
        self
    }

    /// Returns the number of each verdict as a sentence that names the slowest cases, the worst first.
    pub fn tally(&self) -> String {
        let base = self.runs.get(self.base).map_or("the base", |run| run.name.as_str());
        let count = match self.ratios().count() {
            1 => "1 comparison".to_owned(),
            several => format!("{several} comparisons"),
        };
        let of = |verdict| self.count(verdict);
        format!(
            "of {count} with {base}: {} slower, {} faster, {} same, {} too close to call (resolution {} or coarser where noted){}",
            of(Verdict::Slower),
            of(Verdict::Faster),
            of(Verdict::Same),
            of(Verdict::Undecided),
            self.resolutions(),
            self.slowest()
        )
    }

    /// Keeps the pairs with the largest differences that have a verdict, the slowest first: up to `most` slower and `most` faster
    /// pairs.
    pub fn extremes(&self, most: usize) -> Comparison {
        let of = |pair: &&Pair, verdict| {
            let ratios = pair.ratios.iter().flatten().filter(|ratio| ratio.verdict == verdict);
            ratios.map(|ratio| ratio.value.ln().abs()).fold(0.0, f64::max)
        };
        let largest = |verdict| {
            let mut pairs: Vec<&Pair> = self.pairs.iter().filter(|pair| of(pair, verdict) > 0.0).collect();
            pairs.sort_by(|a, b| of(b, verdict).total_cmp(&of(a, verdict)));
            pairs.truncate(most);
            pairs
        };
        let slower = largest(Verdict::Slower);
        let mut faster = largest(Verdict::Faster);
        faster.retain(|pair| slower.iter().all(|known| known.case != pair.case));
        faster.reverse();
        let pairs = slower.into_iter().chain(faster).cloned().collect();
        Comparison { pairs, ..self.clone() }
    }

    /// Returns the resolution of each run against the base. It stands once if all runs share it, and by the runs' names otherwise.
    pub fn resolutions(&self) -> String {
        let others: Vec<&RunHead> =
            self.runs.iter().enumerate().filter(|(i, _)| *i != self.base).map(|(_, run)| run).collect();
        match others.windows(2).all(|pair| pair[0].resolution == pair[1].resolution) {
            true => percent(others.first().map_or(RESOLUTION, |run| run.resolution)),
            false => {
                let of = |run: &&RunHead| format!("{} for {}", percent(run.resolution), run.name);
                others.iter().map(of).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Returns the slowest cases by name and ratio; empty if none is slower.
    fn slowest(&self) -> String {
        let mut slower: Vec<_> = self.ratios().filter(|(_, _, ratio)| ratio.verdict == Verdict::Slower).collect();
        slower.sort_by(|a, b| b.2.value.total_cmp(&a.2.value));
        let name = |(run, case, ratio): &(usize, &str, &Ratio)| {
            let of = if self.runs.len() > 2 { format!(" in {}", self.runs[*run].name) } else { String::new() };
            format!("{case} {}×{of}", digits(ratio.value))
        };
        let named: Vec<String> = slower.iter().take(NAMED).map(name).collect();
        if named.is_empty() { String::new() } else { format!("; slowest: {}", named.join(", ")) }
    }
}

/// Number of slowest cases that a sentence names.
const NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use crate::compare::{Options, compare};
    use parallax_schema::record::NamedRun;
    use parallax_schema::testing::{run, spread};

    #[test]
    fn pairs_are_filtered_by_whole_words_and_sorted_by_ratio() {
        let cases = ["a/fwd/b1/f32/x", "a/fwd/b1/f16/x", "c/fwd/b1/f32/x"];
        let of = |times: [f64; 3]| {
            let timed: Vec<_> = cases.iter().zip(times).map(|(case, time)| (*case, spread(time, 0.002, 40))).collect();
            run("cuda", "X", &timed)
        };
        let runs = [NamedRun::new("a", of([100.0; 3])), NamedRun::new("b", of([90.0, 200.0, 120.0]))];
        let comparison = compare(&runs, &Options::default()).expect("pairs").by_ratio();
        let left = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let filtered = comparison.clone().filtered(&words);
            filtered.pairs.into_iter().map(|pair| pair.case).collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), [cases[1], cases[2], cases[0]]);
        assert_eq!(left(&["f32"]), [cases[2], cases[0]]);
        assert_eq!(left(&["f16", "c"]), [cases[1], cases[2]]);
        assert_eq!(left(&["f3"]), [""; 0]);
    }

    #[test]
    fn extremes_are_the_largest_differences_each_way() {
        let cases: Vec<String> = (0..9).map(|i| format!("a/fwd/b1/f32/{i}")).collect();
        let of = |times: [f64; 9]| {
            let timed: Vec<_> =
                cases.iter().zip(times).map(|(case, time)| (case.as_str(), spread(time, 0.002, 40))).collect();
            run("cuda", "X", &timed)
        };
        let times = [100.0, 50.0, 300.0, 20.0, 150.0, 100.0, 110.0, 90.0, 400.0];
        let runs = [NamedRun::new("a", of([100.0; 9])), NamedRun::new("b", of(times))];
        let comparison = compare(&runs, &Options::default()).expect("pairs");
        let shown = |most| {
            let pairs = comparison.extremes(most).pairs;
            pairs.iter().map(|pair| pair.case.rsplit('/').next().expect("a part").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shown(2), ["8", "2", "1", "3"]);
        assert_eq!(shown(9), ["8", "2", "4", "6", "7", "1", "3"], "a verdict of `same` is no extreme");
    }

    #[test]
    fn the_tally_names_what_is_slower_and_of_many_the_worst() {
        let tally = |times: &[f64]| {
            let cases: Vec<String> = (0..times.len()).map(|i| format!("a/fwd/b1/f32/{i}")).collect();
            let of = |by: &dyn Fn(usize) -> f64| {
                let timed = |(i, case): (usize, &String)| (case.clone(), spread(100.0 * by(i), 0.002, 40));
                let timed: Vec<(String, Vec<f64>)> = cases.iter().enumerate().map(timed).collect();
                let timed: Vec<(&str, Vec<f64>)> = timed.iter().map(|(case, t)| (case.as_str(), t.clone())).collect();
                run("cuda", "X", &timed)
            };
            let runs = [NamedRun::new("a", of(&|_| 1.0)), NamedRun::new("b", of(&|i| times[i]))];
            compare(&runs, &Options::default()).expect("pairs").tally()
        };
        let resolution = "(resolution 1.00 % or coarser where noted)";
        for (times, counts, slowest) in [
            (&[0.5, 1.0, 1.0][..], "of 3 comparisons with a: 0 slower, 1 faster, 2 same, 0 too close to call", ""),
            (
                &[0.5, 1.0, 1.08],
                "of 3 comparisons with a: 1 slower, 1 faster, 1 same, 0 too close to call",
                "; slowest: a/fwd/b1/f32/2 1.080×",
            ),
            (
                &[1.1, 1.4, 1.2, 1.3, 1.5],
                "of 5 comparisons with a: 5 slower, 0 faster, 0 same, 0 too close to call",
                "; slowest: a/fwd/b1/f32/4 1.500×, a/fwd/b1/f32/1 1.400×, a/fwd/b1/f32/3 1.300×",
            ),
        ] {
            assert_eq!(tally(times), format!("{counts} {resolution}{slowest}"));
        }
    }
}
