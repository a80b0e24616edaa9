//! Contents of a link, and their validation: a link comes from an untrusted source.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::LinkError::Damaged;
use super::{CaseFigure, CaseSummary, ENDS, LinkError, RunSummary};
use crate::device::{BrowserMode, Clock};
use crate::record::{Suite, given_name};
use crate::units::Nanos;

/// Version of the contents of links; raised when a reader of the old one would misunderstand.
pub(super) const VERSION: u64 = 1;
/// Number of cases of the longest summary.
pub(super) const MOST_CASES: usize = 4096;
/// Characters of the longest name.
pub(super) const LONGEST_NAME: usize = 200;
/// Characters of the longest settings.
const LONGEST_SETTINGS: usize = 16 << 10;
/// Range of valid times, in nanoseconds.
const TIMES: std::ops::RangeInclusive<f64> = 1e-9..=1e18;

/// Contents of a link. Names are short, because every link has them.
#[derive(Serialize, Deserialize)]
pub(super) struct Wire {
    pub(super) v: u64,
    pub(super) device: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) api: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) browser: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) driver: Option<String>,
    pub(super) target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reach: Option<BrowserMode>,
    pub(super) clock: Clock,
    pub(super) at: u64,
    pub(super) suite: Suite,
    pub(super) asked: Option<String>,
    pub(super) cases: Vec<String>,
    pub(super) ends: String,
    pub(super) medians: Vec<Option<f64>>,
    pub(super) below: Vec<Option<f64>>,
    pub(super) above: Vec<Option<f64>>,
    pub(super) more: usize,
    pub(super) bad: usize,
}

impl Wire {
    /// Returns the summary, if it is valid.
    pub(super) fn checked(self) -> Result<RunSummary, LinkError> {
        let names = [&self.device, &self.api, &self.target, &self.suite.version, &self.suite.commit];
        let given = self.name.as_ref().is_none_or(|name| given_name(name).as_ref() == Some(name));
        let names = names.into_iter().chain(self.browser.iter()).chain(self.driver.iter());
        if !given || !names.into_iter().all(|name| is_name(name)) {
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
            let time = match (median, below.zip(above)) {
                (None, None) => None,
                (Some(median), reach) if *verdict == ENDS[0].0 => Some(figure(median, reach)?),
                _ => return Err(Damaged("a case has a time that it cannot have")),
            };
            Ok(CaseSummary { case, verdict, figure: time })
        });
        let cases = cases.collect::<Result<_, _>>()?;
        Ok(RunSummary {
            device: self.device,
            name: self.name,
            api: self.api,
            browser: self.browser,
            driver: self.driver,
            target: self.target,
            reach: self.reach,
            clock: self.clock,
            started: self.at,
            suite: self.suite,
            asked: self.asked,
            cases,
            left_out: self.more,
            left_out_bad: self.bad,
        })
    }
}

/// Returns the figure of a median and the distances of its interval below and above it.
fn figure(median: f64, reach: Option<(f64, f64)>) -> Result<CaseFigure, LinkError> {
    if !TIMES.contains(&median) {
        return Err(Damaged("a time cannot be"));
    }
    let possible = |(below, above): &(f64, f64)| [below, above].iter().all(|far| (0.0..=*TIMES.end()).contains(*far));
    if !reach.iter().all(possible) {
        return Err(Damaged("an interval cannot be"));
    }
    let interval =
        reach.map(|(below, above)| [Nanos((median - below).max(0.0)), Nanos((median + above).min(*TIMES.end()))]);
    Ok(CaseFigure { median: Nanos(median), interval })
}

fn is_name(name: &str) -> bool {
    name.chars().count() <= LONGEST_NAME && !name.contains(char::is_control)
}

/// Rounds to four digits: with three, the rounding would be as wide as many intervals.
pub(super) fn rounded(time: f64) -> f64 {
    format!("{time:.3e}").parse().expect("a number as it was just written")
}

/// Rounds up to two digits.
pub(super) fn rounded_up(time: f64) -> f64 {
    let near: f64 = format!("{time:.1e}").parse().expect("a number as it was just written");
    let unit = 10f64.powf(time.log10().floor() - 1.0);
    if near >= time { near } else { rounded(near + unit) }
}

/// Returns names of cases, each as the number of leading parts that it shares with the one before, and the rest.
pub(super) fn shared_parts<'a>(cases: impl Iterator<Item = &'a str>) -> Vec<String> {
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

    #[test]
    fn rounding_up_never_loses() {
        for (time, want) in [(0.0, 0.0), (1.0, 1.0), (1.01, 1.1), (9.91, 10.0), (123.0, 130.0), (0.00994, 0.01)] {
            assert!((rounded_up(time) - want).abs() <= want * 1e-9, "{time}: {}", rounded_up(time));
        }
    }
}
