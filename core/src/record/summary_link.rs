//! What a run comes to in few enough bytes for the fragment of a link: a figure and an outcome for each case, no samples.
//!
//! The fragment is compact JSON, deflated, in the letters that URLs leave alone. Whoever opens such a link takes it from a
//! stranger: it is inflated within a bound, and everything in it is checked. Nothing vouches for its figures.

mod packing;
mod wire;

use super::stats::{FEWEST, Summary};
use super::{Record, Run, Suite, way};
use crate::device::{BrowserMode, Clock};
use crate::plan::{Spec, SpecError, query};
use crate::units::Nanos;
pub use packing::LINK_ROOM;
use wire::{LONGEST_NAME, VERSION};

/// The words of [`Record::verdict`] that a summary has, and the letter of each in a link. What was skipped is only counted.
const ENDS: [(&str, char); 5] =
    [("pass", 'p'), ("FAIL", 'f'), ("unresolved", 'u'), ("impossible", 'i'), ("ERROR", 'e')];

/// What a run comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Name of the device.
    pub device: String,
    /// What somebody calls it.
    pub name: Option<String>,
    /// Interface and version.
    pub api: String,
    /// Browser, major version and operating system; `None` outside a browser, and in older links.
    pub browser: Option<String>,
    /// Driver and version, where the interface names them.
    pub driver: Option<String>,
    /// What ran the cases.
    pub target: String,
    /// How far a browser let it, where one did; older links do not tell.
    pub reach: Option<BrowserMode>,
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

impl RunSummary {
    /// Of a run, whole.
    pub fn of(run: &Run) -> RunSummary {
        let ran = run.as_planned().into_iter().filter_map(CaseSummary::of);
        let pairs = run.spec.to_pairs();
        RunSummary {
            device: run.device().name.chars().take(LONGEST_NAME).collect(),
            name: run.given_name(),
            api: run.device().api.clone(),
            browser: run.browser(),
            driver: Some(run.device().driver.chars().take(LONGEST_NAME).collect())
                .filter(|driver: &String| !driver.is_empty()),
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

    /// The way to the hardware, as [`Run::way`] has it, with the browser by its name where the link has it.
    pub fn way(&self) -> String {
        way(self.browser.as_ref().unwrap_or(&self.target), self.reach)
    }

    /// What to call the device: as somebody does, or else as its interface does.
    pub fn called(&self) -> &str {
        self.name.as_ref().unwrap_or(&self.device)
    }

    /// The settings, if they are there and this version knows them all.
    pub fn spec(&self) -> Option<Result<Spec, SpecError>> {
        let pairs = query::read(self.asked.as_ref()?);
        Some(Spec::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
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

    /// Half the width of the interval over the median.
    pub fn precision(&self) -> Option<f64> {
        let [low, high] = self.interval?;
        Some((high.0 - low.0) / 2.0 / self.median.0)
    }
}
