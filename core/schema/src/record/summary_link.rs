//! Summary of a run, small enough for the fragment of a link: a figure and an outcome for each case, no samples.
//!
//! The fragment is compact JSON, deflated, in letters that URLs need not escape. A link comes from an untrusted source: its size
//! is bounded when it is inflated, and every value is checked. Its figures have no guarantee.

mod packing;
mod wire;

use super::stats::{FEWEST, Summary};
use super::{Record, Run, Suite, way};
use crate::device::{BrowserMode, Clock};
use crate::spec::{Spec, SpecError, query};
use crate::units::Nanos;
pub use packing::LINK_ROOM;
use wire::{LONGEST_NAME, VERSION};

/// Words of [`Record::verdict`] in a summary, and the letter of each in a link. Skipped cases are only counted.
const ENDS: [(&str, char); 5] =
    [("pass", 'p'), ("FAIL", 'f'), ("unresolved", 'u'), ("impossible", 'i'), ("ERROR", 'e')];

/// Summary of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Name of the device.
    pub device: String,
    /// User-given name of the device.
    pub name: Option<String>,
    /// Interface and version.
    pub api: String,
    /// Browser, major version and operating system; `None` outside a browser, and in older links.
    pub browser: Option<String>,
    /// Driver and version, where the interface names them.
    pub driver: Option<String>,
    /// Target of the run.
    pub target: String,
    /// Browser mode; `None` outside a browser, and in older links.
    pub reach: Option<BrowserMode>,
    /// Clock of the samples.
    pub clock: Clock,
    /// Begin of the run, in seconds since 1970 (UTC).
    pub started: u64,
    /// The program that wrote the run.
    pub suite: Suite,
    /// Settings of the run as an address query; `None` where a link had no room for them.
    pub asked: Option<String>,
    /// Cases that ran, in planned order.
    pub cases: Vec<CaseSummary>,
    /// Number of cases for which a link had no room.
    pub left_out: usize,
    /// Number of those cases that did not pass.
    pub left_out_bad: usize,
}

/// Summary of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseSummary {
    /// Canonical string.
    pub case: String,
    /// Verdict, in the word of [`Record::verdict`].
    pub verdict: &'static str,
    /// Time of one execution, if any.
    pub figure: Option<CaseFigure>,
}

/// Time of one execution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaseFigure {
    /// The median.
    pub median: Nanos,
    /// Both ends of its 95 % interval; `None` with too few samples for one.
    pub interval: Option<[Nanos; 2]>,
}

/// Error of a link without a valid summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Truncated or changed.
    #[error("the summary in this link is damaged: {0}; ask for the link again, whole")]
    Damaged(&'static str),
    /// Written by a newer program.
    #[error(
        "the summary in this link is of a newer version ({0}, this page reads up to {VERSION}); load the page anew"
    )]
    Newer(u64),
    /// Larger than any summary.
    #[error("the summary in this link is larger than any that this page makes; it was not opened")]
    TooLarge,
}

impl RunSummary {
    /// Returns the summary of a run, with all cases.
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

    /// Returns the target and browser mode as in [`Run::way`], with the name of the browser if the link has it.
    pub fn way(&self) -> String {
        way(self.browser.as_ref().unwrap_or(&self.target), self.reach)
    }

    /// Returns the user-given name of the device, or else the interface's.
    pub fn called(&self) -> &str {
        self.name.as_ref().unwrap_or(&self.device)
    }

    /// Returns the settings, if the link has them; an error if this version does not know them all.
    pub fn spec(&self) -> Option<Result<Spec, SpecError>> {
        let pairs = query::read(self.asked.as_ref()?);
        Some(Spec::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
    }
}

impl CaseSummary {
    /// Returns the summary of a case that was to run.
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

    /// Returns half the width of the interval over the median.
    pub fn precision(&self) -> Option<f64> {
        let [low, high] = self.interval?;
        Some((high.0 - low.0) / 2.0 / self.median.0)
    }
}
