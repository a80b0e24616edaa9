//! What a run comes to in few enough bytes for the fragment of a link: a figure and an outcome for each case, no samples.
//!
//! The fragment is compact JSON, deflated, in the letters that URLs leave alone. Whoever opens such a link takes it from a
//! stranger: it is inflated within a bound, and everything in it is checked. Nothing vouches for its figures.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::stats::{FEWEST, Summary};
use super::{Record, Run, Suite, way};
use crate::device::{Clock, Reach};
use crate::plan::{Spec, SpecError, query};
use crate::units::Nanos;

/// Version of what links hold; raised when a reader of the old one would misunderstand.
const VERSION: u64 = 1;
/// Letters that the summary in a link may take: with an address before it, the whole stays about two thousand.
pub const LINK_ROOM: usize = 2000;
/// Letters of the longest text that is looked at.
const LONGEST: usize = 64 << 10;
/// Bytes that it may become.
const INFLATED: usize = 256 << 10;
/// Cases of the longest summary.
const MOST_CASES: usize = 4096;
/// Characters of the longest name.
const LONGEST_NAME: usize = 200;
/// Characters of the longest settings.
const LONGEST_SETTINGS: usize = 16 << 10;
/// The least and the most nanoseconds that are a time.
const TIMES: std::ops::RangeInclusive<f64> = 1e-9..=1e18;
/// How hard deflate tries.
const EFFORT: u8 = 10;
/// The words of [`Record::verdict`] that a summary has, and the letter of each in a link. What was skipped is only counted.
const ENDS: [(&str, char); 5] =
    [("pass", 'p'), ("FAIL", 'f'), ("unresolved", 'u'), ("impossible", 'i'), ("ERROR", 'e')];

/// What a run comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Name of the device.
    pub device: String,
    /// Interface and version.
    pub api: String,
    /// What ran the cases.
    pub target: String,
    /// How far a browser let it, where one did; older links do not tell.
    pub reach: Option<Reach>,
    /// What took the samples.
    pub clock: Clock,
    /// When it began, in seconds since 1970 (UTC).
    pub started: u64,
    /// What wrote it.
    pub suite: Suite,
    /// What was asked for, in the words of an address; `None` where a link had no room for that.
    pub asked: Option<String>,
    /// Cases that ran, as planned.
    pub cases: Vec<CaseSummary>,
    /// Cases for which a link had no room.
    pub left_out: usize,
    /// How many of those did not pass.
    pub left_out_bad: usize,
}

/// What one case came to.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseSummary {
    /// Canonical string.
    pub case: String,
    /// How it ended, in the word of [`Record::verdict`].
    pub verdict: &'static str,
    /// Its time, where it has one.
    pub figure: Option<CaseFigure>,
}

/// The time of one execution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaseFigure {
    /// The median.
    pub median: Nanos,
    /// Both ends of its 95 % interval; `None` where there were too few samples for one.
    pub interval: Option<[Nanos; 2]>,
}

/// A text that is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Cut off, or changed on its way.
    #[error("the summary in this link is damaged: {0}; ask for the link again, whole")]
    Damaged(&'static str),
    /// Of a newer program.
    #[error(
        "the summary in this link is of a newer version ({0}, this page reads up to {VERSION}); load the page anew"
    )]
    Newer(u64),
    /// More than a summary can be.
    #[error("the summary in this link is larger than any that this page makes; it was not opened")]
    TooLarge,
}

use LinkError::Damaged;

impl RunSummary {
    /// Of a run, whole.
    pub fn of(run: &Run) -> RunSummary {
        let ran = run.as_planned().into_iter().filter_map(CaseSummary::of);
        let pairs = run.spec.to_pairs();
        RunSummary {
            device: run.device().name.chars().take(LONGEST_NAME).collect(),
            api: run.device().api.clone(),
            target: run.target.clone(),
            reach: run.reach,
            clock: run.clock.clock,
            started: run.started,
            suite: run.suite.clone(),
            asked: Some(query::write(&pairs)),
            cases: ran.collect(),
            left_out: 0,
            left_out_bad: 0,
        }
    }

    /// The way to the hardware, as [`Run::way`] has it.
    pub fn way(&self) -> String {
        way(&self.target, self.reach)
    }

    /// The settings, if they are there and this version knows them all.
    pub fn spec(&self) -> Option<Result<Spec, SpecError>> {
        let pairs = query::read(self.asked.as_ref()?);
        Some(Spec::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
    }

    /// As text for a link, of at most [`LINK_ROOM`] letters. Figures have four digits, and intervals are rounded outwards.
    /// Where there is no room for all cases, the fastest variant of each problem comes first, and what is left out is counted.
    pub fn to_link(&self) -> String {
        let order = self.by_importance();
        let named = self.asked.as_ref().is_some_and(|_| self.cut(&order, 0, true).len() <= LINK_ROOM / 2);
        let fits = |kept: usize| self.cut(&order, kept, named).len() <= LINK_ROOM;
        let (mut most, mut beyond) = (0, self.cases.len() + 1);
        while most + 1 < beyond {
            let middle = most.midpoint(beyond);
            if fits(middle) { most = middle } else { beyond = middle }
        }
        self.cut(&order, most, named)
    }

    /// Positions of the cases: the fastest variant of each problem, then the second of each, and so on; without a time last.
    fn by_importance(&self) -> Vec<usize> {
        let problem = |i: usize| self.cases[i].case.rsplit_once('/').map_or("", |(problem, _)| problem);
        let time = |i: usize| self.cases[i].figure.map_or(f64::INFINITY, |figure| figure.median.0);
        let mut fastest: Vec<usize> = (0..self.cases.len()).collect();
        fastest.sort_by(|a, b| time(*a).total_cmp(&time(*b)));
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut ranks = vec![0; self.cases.len()];
        for i in fastest {
            let place = places.entry(problem(i)).or_default();
            ranks[i] = *place;
            *place += 1;
        }
        let mut order: Vec<usize> = (0..self.cases.len()).collect();
        order.sort_by_key(|i| ranks[*i]);
        order
    }

    /// The text with the first `kept` cases of an order.
    fn cut(&self, order: &[usize], kept: usize, named: bool) -> String {
        let (here, gone) = order.split_at(kept);
        let mut here = here.to_vec();
        here.sort_unstable();
        let cases: Vec<&CaseSummary> = here.iter().map(|i| &self.cases[*i]).collect();
        let bad = gone.iter().filter(|i| self.cases[**i].verdict != ENDS[0].0).count();
        let letter =
            |case: &&CaseSummary| ENDS.iter().find(|(word, _)| *word == case.verdict).map(|(_, letter)| letter);
        let medians: Vec<Option<f64>> = cases.iter().map(|c| Some(rounded(c.figure?.median.0))).collect();
        let reach = |case: &CaseSummary, median: Option<f64>, end: usize| {
            Some(rounded_up((case.figure?.interval?[end].0 - median?).abs()))
        };
        let column = |end| cases.iter().zip(&medians).map(|(case, median)| reach(case, *median, end)).collect();
        let wire = Wire {
            v: VERSION,
            device: self.device.clone(),
            api: self.api.clone(),
            target: self.target.clone(),
            reach: self.reach,
            clock: self.clock,
            at: self.started,
            suite: self.suite.clone(),
            asked: self.asked.clone().filter(|_| named),
            cases: shared_parts(cases.iter().map(|case| case.case.as_str())),
            ends: cases.iter().filter_map(letter).collect(),
            below: column(0),
            above: column(1),
            medians,
            more: self.left_out.saturating_add(gone.len()),
            bad: self.left_out_bad.saturating_add(bad),
        };
        let json = serde_json::to_vec(&wire).expect("a summary is JSON");
        URL_SAFE_NO_PAD.encode(compress_to_vec(&json, EFFORT))
    }

    /// From the text of a link.
    ///
    /// # Errors
    /// When it is no summary that [`RunSummary::to_link`] could have written.
    pub fn from_link(text: &str) -> Result<RunSummary, LinkError> {
        if text.len() > LONGEST {
            return Err(LinkError::TooLarge);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| Damaged("it has other letters than it should"))?;
        let json = decompress_to_vec_with_limit(&bytes, INFLATED).map_err(|why| match why.status {
            miniz_oxide::inflate::TINFLStatus::HasMoreOutput => LinkError::TooLarge,
            _ => Damaged("it cannot be unpacked"),
        })?;
        let value: Value = serde_json::from_slice(&json).map_err(|_| Damaged("it is cut off or changed"))?;
        match value.get("v").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => return Err(LinkError::Newer(newer)),
            _ => return Err(Damaged("it is no summary")),
        }
        serde_json::from_value::<Wire>(value).map_err(|_| Damaged("a part is missing"))?.checked()
    }
}

impl CaseSummary {
    /// Of a case that was to run.
    fn of(record: &Record) -> Option<CaseSummary> {
        let (verdict, _) = ENDS.iter().find(|(word, _)| *word == record.verdict())?;
        let figure = record.timing().map(|timing| CaseFigure::of(&timing.summary));
        Some(CaseSummary { case: record.case.clone(), verdict, figure })
    }
}

impl CaseFigure {
    fn of(summary: &Summary) -> CaseFigure {
        let interval = (summary.n >= FEWEST).then_some([summary.low, summary.high]);
        CaseFigure { median: summary.median, interval }
    }

    /// Of a median, and how far its interval reaches below and above it.
    fn checked(median: f64, reach: Option<(f64, f64)>) -> Result<CaseFigure, LinkError> {
        if !TIMES.contains(&median) {
            return Err(Damaged("a time cannot be"));
        }
        let possible =
            |(below, above): &(f64, f64)| [below, above].iter().all(|far| (0.0..=*TIMES.end()).contains(*far));
        if !reach.iter().all(possible) {
            return Err(Damaged("an interval cannot be"));
        }
        let interval =
            reach.map(|(below, above)| [Nanos((median - below).max(0.0)), Nanos((median + above).min(*TIMES.end()))]);
        Ok(CaseFigure { median: Nanos(median), interval })
    }

    /// Half the width of the interval over the median.
    pub fn precision(&self) -> Option<f64> {
        let [low, high] = self.interval?;
        Some((high.0 - low.0) / 2.0 / self.median.0)
    }
}

/// What stands in a link. Short names, because they are in each.
#[derive(Serialize, Deserialize)]
struct Wire {
    v: u64,
    device: String,
    api: String,
    target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reach: Option<Reach>,
    clock: Clock,
    at: u64,
    suite: Suite,
    asked: Option<String>,
    cases: Vec<String>,
    ends: String,
    medians: Vec<Option<f64>>,
    below: Vec<Option<f64>>,
    above: Vec<Option<f64>>,
    more: usize,
    bad: usize,
}

impl Wire {
    fn checked(self) -> Result<RunSummary, LinkError> {
        let names = [&self.device, &self.api, &self.target, &self.suite.version, &self.suite.commit];
        if !names.into_iter().all(|name| is_name(name)) {
            return Err(Damaged("a name in it is too long or no text"));
        }
        if self.asked.as_ref().is_some_and(|asked| asked.len() > LONGEST_SETTINGS || asked.contains(char::is_control)) {
            return Err(Damaged("its settings are too long or no text"));
        }
        let count = self.cases.len();
        if count > MOST_CASES {
            return Err(LinkError::TooLarge);
        }
        if self.bad > self.more {
            return Err(Damaged("its counts do not agree"));
        }
        if [self.ends.chars().count(), self.medians.len(), self.below.len(), self.above.len()] != [count; 4] {
            return Err(Damaged("its columns are not alike"));
        }
        let names = whole_names(&self.cases)?;
        let columns = names.into_iter().zip(self.ends.chars());
        let figures = self.medians.into_iter().zip(self.below.into_iter().zip(self.above));
        let cases = columns.zip(figures).map(|((case, end), (median, (below, above)))| {
            let (verdict, _) =
                ENDS.iter().find(|(_, letter)| *letter == end).ok_or(Damaged("an outcome is unknown"))?;
            let figure = match (median, below.zip(above)) {
                (None, None) => None,
                (Some(median), reach) if *verdict == ENDS[0].0 => Some(CaseFigure::checked(median, reach)?),
                _ => return Err(Damaged("a case has a time that it cannot have")),
            };
            Ok(CaseSummary { case, verdict, figure })
        });
        let cases = cases.collect::<Result<_, _>>()?;
        let Wire { device, api, target, reach, clock, at: started, suite, asked, .. } = self;
        let (left_out, left_out_bad) = (self.more, self.bad);
        Ok(RunSummary { device, api, target, reach, clock, started, suite, asked, cases, left_out, left_out_bad })
    }
}

fn is_name(name: &str) -> bool {
    name.chars().count() <= LONGEST_NAME && !name.contains(char::is_control)
}

/// Four digits: with three, rounding would be as wide as many an interval.
fn rounded(time: f64) -> f64 {
    format!("{time:.3e}").parse().expect("a number as it was just written")
}

/// Two digits, never less than the number.
fn rounded_up(time: f64) -> f64 {
    let near: f64 = format!("{time:.1e}").parse().expect("a number as it was just written");
    let unit = 10f64.powf(time.log10().floor() - 1.0);
    if near >= time { near } else { rounded(near + unit) }
}

/// Names of cases, each as how many leading parts it shares with the one before, and the rest.
fn shared_parts<'a>(cases: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut before: Vec<&str> = Vec::new();
    cases
        .map(|case| {
            let parts: Vec<&str> = case.split('/').collect();
            let shared = parts.iter().zip(&before).take_while(|(a, b)| a == b).count().min(9);
            let rest = parts[shared..].join("/");
            before = parts;
            format!("{shared}{rest}")
        })
        .collect()
}

fn whole_names(cases: &[String]) -> Result<Vec<String>, LinkError> {
    let mut names: Vec<String> = Vec::new();
    for case in cases {
        let mut letters = case.chars();
        let shared = letters.next().and_then(|digit| digit.to_digit(10)).ok_or(Damaged("a case has no name"))? as usize;
        if letters.as_str().is_empty() {
            return Err(Damaged("a case has no name"));
        }
        let before = names.last().map(String::as_str).unwrap_or_default();
        let parts: Vec<&str> = before.split('/').take(shared).chain([letters.as_str()]).collect();
        let name = parts.join("/");
        if !is_name(&name) {
            return Err(Damaged("a case has no name"));
        }
        names.push(name);
    }
    let once: HashSet<&str> = names.iter().map(String::as_str).collect();
    if once.len() == names.len() { Ok(names) } else { Err(Damaged("a case is in it twice")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Profiler;
    use crate::plan::plan;
    use crate::record::Outcome;
    use crate::testing::fixtures::{run, spread};
    use crate::testing::mock::{Fault, Mock};
    use serde_json::json;

    const FLASH: &str = "attention/fwd/b1,h8,s512,d64/f32/flash";
    const MANUAL: &str = "attention/fwd/b1,h8,s512,d64/f32/manual";
    const TILED: &str = "matmul/fwd/m8,n8,k8/f32/tiled";

    /// A run whose cases end in several ways.
    fn sample() -> Run {
        let cases = [(FLASH, 123_456.0), (MANUAL, 777_777.0), (TILED, 99.96)];
        let mut run = run("browser", "NVIDIA H200", &cases.map(|(case, time)| (case, spread(time, 0.013, 40))));
        run.started = 1_795_306_744;
        run.records[1].outcome = Outcome::Error { reason: "the device said no".to_owned() };
        let mut skipped = run.records[1].clone();
        skipped.case = "matmul/fwd/m8,n8,k8/f32/vendor".to_owned();
        skipped.outcome = Outcome::Skipped { reason: "not in WGSL".to_owned() };
        run.planned.push(skipped.case.clone());
        run.records.push(skipped);
        // As they come: in another order than planned.
        run.records.reverse();
        run
    }

    /// What a link would be of this JSON.
    fn packed(json: &Value) -> String {
        URL_SAFE_NO_PAD.encode(compress_to_vec(json.to_string().as_bytes(), EFFORT))
    }

    fn unpacked(link: &str) -> Value {
        let bytes = URL_SAFE_NO_PAD.decode(link).expect("letters");
        serde_json::from_slice(&decompress_to_vec_with_limit(&bytes, INFLATED).expect("deflated")).expect("JSON")
    }

    #[test]
    fn a_summary_survives_its_link_and_intervals_only_widen() {
        let whole = RunSummary::of(&sample());
        let link = whole.to_link();
        assert!(link.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'), "{link}");
        let read = RunSummary::from_link(&link).expect("as written");
        let ends: Vec<(&str, &str)> = read.cases.iter().map(|c| (c.case.as_str(), c.verdict)).collect();
        assert_eq!(ends, [(FLASH, "pass"), (MANUAL, "ERROR"), (TILED, "pass")], "as planned, without what was skipped");
        for (before, after) in whole.cases.iter().zip(&read.cases) {
            let (Some(before), Some(after)) = (before.figure, after.figure) else {
                assert_eq!(before.figure, after.figure);
                continue;
            };
            assert!((after.median.0 / before.median.0 - 1.0).abs() <= 0.0005, "{after:?}");
            let (ours, theirs) = (before.interval.expect("one"), after.interval.expect("one"));
            assert!(theirs[0] <= ours[0] && ours[1] <= theirs[1], "{theirs:?} does not hold {ours:?}");
            assert!(after.precision() < before.precision().map(|p| p * 1.2 + 0.0005), "{after:?}");
        }
        let figures = |s: &RunSummary| RunSummary { cases: Vec::new(), ..s.clone() };
        assert_eq!(figures(&read), figures(&whole));
        assert_eq!(read.spec(), Some(Ok(sample().spec)));
    }

    #[test]
    fn rounding_up_never_loses() {
        for (time, want) in [(0.0, 0.0), (1.0, 1.0), (1.01, 1.1), (9.91, 10.0), (123.0, 130.0), (0.00994, 0.01)] {
            assert!((rounded_up(time) - want).abs() <= want * 1e-9, "{time}: {}", rounded_up(time));
        }
    }

    #[test]
    fn where_there_is_no_room_the_fastest_of_each_problem_stay() {
        let names: Vec<String> = (0..300)
            .flat_map(|i| {
                ["slow", "fast"].map(|variant| format!("op{}/fwd/n{}/f32/{variant}", i % 13, 7919 * i % 4801))
            })
            .collect();
        let cases: Vec<(&str, Vec<f64>)> = names
            .iter()
            .enumerate()
            .map(|(i, name)| {
                (
                    name.as_str(),
                    spread(1e3 * (1.0 + (i * 37 % 101) as f64) * if i % 2 == 0 { 9e3 } else { 1.0 }, 0.01, 20),
                )
            })
            .collect();
        let whole = RunSummary::of(&run("browser", "X", &cases));
        let link = whole.to_link();
        assert!(link.len() <= LINK_ROOM, "{}", link.len());
        let read = RunSummary::from_link(&link).expect("as written");
        assert!(read.cases.len() >= 100, "{} cases", read.cases.len());
        assert_eq!(read.cases.len() + read.left_out, 600);
        assert!(read.cases.iter().all(|case| case.case.ends_with("fast")), "a slow one before a fast one");
    }

    #[test]
    fn of_all_that_the_quick_preset_has_a_fifth_fits() {
        let mock = Mock::new(|_| 1.0, Fault::None);
        let plan = plan(&Spec::default(), &mock.device().caps).expect("a plan");
        let names: Vec<String> = plan.cases.iter().map(|case| case.name()).collect();
        let time = |i: usize| 1e3 * (1.0 + (i * 7919 % 4801) as f64 * 1.37);
        let cases: Vec<_> =
            names.iter().enumerate().map(|(i, name)| (name.as_str(), spread(time(i), 0.01, 20))).collect();
        let read = RunSummary::from_link(&RunSummary::of(&run("browser", "X", &cases)).to_link()).expect("as written");
        assert_eq!(read.cases.len() + read.left_out, names.len());
        assert!(read.cases.len() * 5 >= names.len(), "{} of {}", read.cases.len(), names.len());
    }

    #[test]
    fn settings_without_room_go_before_the_cases() {
        let mut run = sample();
        let scramble = |i: u64| format!("{:x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        run.spec.filter = (1..200).map(scramble).collect();
        let read = RunSummary::from_link(&RunSummary::of(&run).to_link()).expect("as written");
        assert_eq!((read.asked.clone(), read.cases.len(), read.spec()), (None, 3, None));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = unpacked(&RunSummary::of(&sample()).to_link());
        RunSummary::from_link(&packed(&good)).expect("sound");
        let long = "x".repeat(LONGEST_NAME + 1);
        for (pointer, value, want) in [
            ("/v", json!(9), "newer version"),
            ("/v", json!("1"), "no summary"),
            ("/device", json!(long), "a name"),
            ("/device", json!("H\u{1b}[2J"), "a name"),
            ("/suite/commit", json!("a\nb"), "a name"),
            ("/asked", json!("preset=quick\u{0}"), "settings"),
            ("/cases/0", json!(format!("0{long}")), "a case has no name"),
            ("/cases/0", json!("0a\u{7}b"), "a case has no name"),
            ("/cases/0", json!(""), "a case has no name"),
            ("/cases/1", json!("9"), "a case has no name"),
            ("/cases/1", json!(format!("0{FLASH}")), "twice"),
            ("/ends", json!("ppx"), "outcome"),
            ("/ends", json!("pp"), "columns"),
            ("/medians/0", json!(-1.0), "a time cannot be"),
            ("/medians/0", json!(0), "a time cannot be"),
            ("/medians/0", json!(1e300), "a time cannot be"),
            ("/medians/1", json!(5.0), "cannot have"),
            ("/below/0", json!(-1.0), "an interval"),
            ("/above/2", json!(1e300), "an interval"),
            ("/above", json!([null]), "columns"),
            ("/more", json!(-1), "missing"),
            ("/bad", json!(7), "do not agree"),
            ("/clock", json!("sundial"), "missing"),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
            let said = RunSummary::from_link(&packed(&bad)).expect_err(pointer).to_string();
            assert!(said.contains(want), "{pointer} = {value}: {said}");
        }
        // JSON has no numbers that are not finite, and one too large for a float is none either.
        for not_finite in ["1e999", "NaN", "Infinity"] {
            let text = good.to_string().replacen("\"medians\":[", &format!("\"medians\":[{not_finite},"), 1);
            let link = URL_SAFE_NO_PAD.encode(compress_to_vec(text.as_bytes(), EFFORT));
            assert!(matches!(RunSummary::from_link(&link), Err(Damaged(_))), "{not_finite}");
        }
    }

    #[test]
    fn bombs_are_not_inflated() {
        let bomb = URL_SAFE_NO_PAD.encode(compress_to_vec(&vec![b' '; 4 * INFLATED], EFFORT));
        assert!(bomb.len() < LONGEST, "{}", bomb.len());
        assert_eq!(RunSummary::from_link(&bomb), Err(LinkError::TooLarge));
        assert_eq!(RunSummary::from_link(&"A".repeat(LONGEST + 1)), Err(LinkError::TooLarge));
        let many = json!({"v": 1, "cases": vec!["0a"; MOST_CASES + 1]});
        assert!(RunSummary::from_link(&packed(&many)).is_err());
    }

    #[test]
    fn no_damage_is_taken_for_a_summary_with_other_names() {
        let link = RunSummary::of(&sample()).to_link();
        for end in 0..link.len() {
            assert!(RunSummary::from_link(&link[..end]).is_err(), "cut off at {end}");
        }
        let bytes = URL_SAFE_NO_PAD.decode(&link).expect("letters");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // What still reads is sound as far as anybody can tell: it reads back, and its names are text.
            if let Ok(read) = RunSummary::from_link(&URL_SAFE_NO_PAD.encode(flipped)) {
                assert!(RunSummary::from_link(&read.to_link()).is_ok(), "bit {bit}");
            }
        }
        for not_ours in ["", "!", "%00", "é", "AAAA", "eJw"] {
            assert!(RunSummary::from_link(not_ours).is_err(), "{not_ours}");
        }
    }
}
