//! Conversion between a summary and the letters of a link: choice of cases, and compression.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde_json::Value;

use super::LinkError::Damaged;
use super::wire::{VERSION, Wire};
use super::{CaseSummary, ENDS, LinkError, RunSummary, wire};

/// Largest number of letters of a summary in a link. With an address before it, the link has about two thousand.
pub const LINK_ROOM: usize = 2000;
/// Largest number of letters that are read.
const LONGEST: usize = 64 << 10;
/// Largest number of inflated bytes.
const INFLATED: usize = 256 << 10;
/// Compression level of deflate.
const EFFORT: u8 = 10;

impl RunSummary {
    /// Returns the letters of a link, at most [`LINK_ROOM`]. Figures have four digits, and intervals are rounded outwards.
    /// Without room for all cases, the fastest variant of each problem has priority, and omitted cases are counted.
    #[inline]
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

    /// Returns positions of the cases: the fastest variant of each problem, then the second of each, and so on; cases without a
    /// time are last.
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

    /// Returns the letters of a summary with the first `kept` cases of an order.
    #[inline]
    fn cut(&self, order: &[usize], kept: usize, named: bool) -> String {
        let (here, gone) = order.split_at(kept);
        let mut here = here.to_vec();
        here.sort_unstable();
        let cases: Vec<&CaseSummary> = here.iter().map(|i| &self.cases[*i]).collect();
        let bad = gone.iter().filter(|i| self.cases[**i].verdict != ENDS[0].0).count();
        let letter =
            |case: &&CaseSummary| ENDS.iter().find(|(word, _)| *word == case.verdict).map(|(_, letter)| letter);
        let medians: Vec<Option<f64>> = cases.iter().map(|c| Some(wire::rounded(c.figure?.median.0))).collect();
        let reach = |case: &CaseSummary, median: Option<f64>, end: usize| {
            Some(wire::rounded_up((case.figure?.interval?[end].0 - median?).abs()))
        };
        let column = |end| cases.iter().zip(&medians).map(|(case, median)| reach(case, *median, end)).collect();
        let wire = Wire {
            v: VERSION,
            device: self.device.clone(),
            name: self.name.clone(),
            api: self.api.clone(),
            browser: self.browser.clone(),
            driver: self.driver.clone(),
            target: self.target.clone(),
            reach: self.reach,
            clock: self.clock,
            at: self.started,
            suite: self.suite.clone(),
            asked: self.asked.clone().filter(|_| named),
            cases: wire::shared_parts(cases.iter().map(|case| case.case.as_str())),
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

    /// Reads a summary from the letters of a link.
    ///
    /// # Errors
    /// Letters that [`RunSummary::to_link`] cannot have written.
    #[inline]
    pub fn from_link(text: &str) -> Result<RunSummary, LinkError> {
        if text.len() > LONGEST {
            return Err(LinkError::TooLarge);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| Damaged("it has invalid letters"))?;
        let json = decompress_to_vec_with_limit(&bytes, INFLATED).map_err(|why| match why.status {
            miniz_oxide::inflate::TINFLStatus::HasMoreOutput => LinkError::TooLarge,
            _ => Damaged("it cannot be decompressed"),
        })?;
        let value: Value = serde_json::from_slice(&json).map_err(|_| Damaged("it is cut off or changed"))?;
        match value.get("v").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => return Err(LinkError::Newer(newer)),
            _ => return Err(Damaged("it is not a summary")),
        }
        serde_json::from_value::<Wire>(value).map_err(|_| Damaged("a part is missing"))?.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::LONGEST_NAME;
    use super::*;
    use crate::record::{Outcome, Run};
    use crate::testing::{run, spread};
    use serde_json::json;

    const FLASH: &str = "attention/fwd/b1,h8,s512,d64/f32/flash";
    const MANUAL: &str = "attention/fwd/b1,h8,s512,d64/f32/manual";
    const TILED: &str = "matmul/fwd/m8,n8,k8/f32/tiled";

    /// Returns a run with several kinds of outcomes.
    fn sample() -> Run {
        let cases = [(FLASH, 123_456.0), (MANUAL, 777_777.0), (TILED, 99.96)];
        let mut run = run("browser", "NVIDIA H200", &cases.map(|(case, time)| (case, spread(time, 0.013, 40))));
        run.started = 1_795_306_744;
        run.environment.insert("user_agent".to_owned(), "(X11; Linux x86_64) Chrome/156.0".to_owned());
        run.name_device("Ann's laptop");
        run.records[1].outcome = Outcome::Error { reason: "the device said no".to_owned() };
        let mut skipped = run.records[1].clone();
        skipped.case = "matmul/fwd/m8,n8,k8/f32/vendor".to_owned();
        skipped.outcome = Outcome::Skipped { reason: "not in WGSL".to_owned() };
        run.planned.push(skipped.case.clone());
        run.records.push(skipped);
        // In another order than planned, as in practice.
        run.records.reverse();
        run
    }

    /// Returns the link of this JSON.
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
        assert_eq!(ends, [(FLASH, "pass"), (MANUAL, "ERROR"), (TILED, "pass")], "as planned, without skipped cases");
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
        assert_eq!(read.called(), "Ann's laptop");
        assert_eq!(read.way(), "Chromium 156 on Linux");
        let mut older = unpacked(&link);
        for newer in ["name", "browser"] {
            older.as_object_mut().expect("an object").remove(newer);
        }
        let older = RunSummary::from_link(&packed(&older)).expect("of an older page");
        assert_eq!((older.called(), older.way().as_str()), ("NVIDIA H200", "browser"));
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
            ("/v", json!("1"), "not a summary"),
            ("/device", json!(long), "a name"),
            ("/name", json!("x".repeat(61)), "a name"),
            ("/name", json!("a\nb"), "a name"),
            ("/name", json!(""), "a name"),
            ("/browser", json!(long), "a name"),
            ("/browser", json!("a\nb"), "a name"),
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
        // JSON has no numbers that are not finite, and a number too large for a float is invalid too.
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
        let many = json!({"v": 1, "cases": vec!["0a"; wire::MOST_CASES + 1]});
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
            // A summary that still reads is valid: it survives a second link, and its names are printable.
            if let Ok(read) = RunSummary::from_link(&URL_SAFE_NO_PAD.encode(flipped)) {
                assert!(RunSummary::from_link(&read.to_link()).is_ok(), "bit {bit}");
            }
        }
        for not_ours in ["", "!", "%00", "é", "AAAA", "eJw"] {
            assert!(RunSummary::from_link(not_ours).is_err(), "{not_ours}");
        }
    }
}
