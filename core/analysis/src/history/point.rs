//! Point of a history: the figures of one case in one run.

use parallax_schema::case::{meant, variant_of};
use parallax_schema::device::BROWSER;
use parallax_schema::record::roofline::{Analysis, Bound};
use parallax_schema::record::stats::{FEWEST, Summary};
use parallax_schema::record::{Record, Route, Run};
use parallax_schema::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::step::DEVIATIONS;
use crate::compare::SPLIT;
use crate::compare::identity::normalised;
use crate::compare::verdict::{drift_within, launch_resolution};

/// Time with its 95 % interval, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Median.
    pub median: Nanos,
    /// Low end of the interval.
    pub low: Nanos,
    /// High end of the interval.
    pub high: Nanos,
}

impl Level {
    /// Returns the level of a summary. `None` for too few samples, and for times that have no logarithm.
    pub fn of(summary: &Summary) -> Option<Level> {
        let Summary { median, low, high, .. } = *summary;
        let fits = summary.n >= FEWEST && low.0 > 0.0 && median.0 >= low.0 && high.0 >= median.0 && high.0.is_finite();
        fits.then_some(Level { median, low, high })
    }

    /// Returns the natural logarithm of the median in nanoseconds.
    pub fn log(&self) -> f64 {
        self.median.0.ln()
    }

    /// Returns the standard error of the logarithm, by the width of the interval.
    pub fn error(&self) -> f64 {
        (self.high.0 / self.low.0).ln() / 2.0 / DEVIATIONS
    }
}

/// Rate of the binding ceiling of a case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BoundRate {
    /// Limited quantity: memory, compute or transfer.
    pub bound: Bound,
    /// Bytes or operations per second.
    pub rate: f64,
}

impl BoundRate {
    /// Returns the ceiling that sets the floor of a case. `None` if it was not measured.
    fn of(analysis: &Analysis, record: &Record) -> Option<BoundRate> {
        let time = |amount: u64, rate: Option<f64>| rate.map_or(0.0, |rate| amount as f64 / rate);
        let (bytes, flops) = (record.cost.moved().0, record.cost.flops.0);
        let arithmetic = time(flops, analysis.peak_flops) > time(bytes, analysis.peak_bandwidth);
        let (bound, rate) = match analysis.bound {
            Bound::Transfer => (Bound::Transfer, analysis.peak_link),
            _ if arithmetic => (Bound::Compute, analysis.peak_flops),
            _ => (Bound::Memory, analysis.peak_bandwidth),
        };
        rate.filter(|rate| *rate > 0.0 && rate.is_finite()).map(|rate| BoundRate { bound, rate })
    }
}

/// Figures of one case in one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Position of the run in the history.
    pub run: usize,
    /// Time of one execution.
    #[serde(flatten)]
    pub level: Level,
    /// Binding ceiling of the case in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<BoundRate>,
    /// Error of a sample by the clock's step, as a share of the sample.
    pub clock_error: f64,
    /// Share of the time by which launches may differ from run to run.
    pub launch: f64,
}

impl Point {
    /// Returns the point of a record in the run at this position. `None` without a time or an interval.
    pub(crate) fn of(run: &Run, record: &Record, position: usize) -> Option<Point> {
        let timing = record.timing()?;
        let analysis = record.measured()?.analysis.as_ref();
        Some(Point {
            run: position,
            level: Level::of(&timing.summary)?,
            ceiling: analysis.and_then(|analysis| BoundRate::of(analysis, record)),
            clock_error: timing.clock_error,
            launch: launch_resolution(&run.clock, record),
        })
    }
}

/// Properties that all points of a series share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SeriesKey {
    /// Canonical string of the case.
    pub case: String,
    /// Class of the device; in a browser, which has one class, the device's name.
    pub device: String,
    /// Route to the hardware: target, browser mode, checks.
    pub route: Route,
    /// Variant that ran in place of the named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// State of the caches: `hot` or `cold`.
    pub cache: String,
    /// Tunables of the variant that differ from the defaults, as in `BLOCK_K=8, STAGES=3`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tuning: String,
}

impl SeriesKey {
    /// Returns the key of a record with a time.
    pub(crate) fn of(run: &Run, record: &Record) -> Option<SeriesKey> {
        let device = run.device_of(record);
        let class = device.class();
        let older = (run.version < SPLIT).then(|| meant(&record.case, device.caps.dialect)).flatten();
        Some(SeriesKey {
            case: record.case.clone(),
            device: if class == BROWSER { normalised(&device.name) } else { class },
            route: run.route(),
            actual: record.actual.as_ref().map(|actual| actual.variant.clone()).or(older.map(str::to_owned)),
            cache: record.timing()?.cache.name().to_owned(),
            tuning: device.caps.tuning.of_variant(&record.parts.workload, variant_of(&record.case)),
        })
    }
}

/// Properties of a run that may change a time, besides the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Setup {
    /// Interface and driver.
    pub driver: String,
    /// Browser with its version; empty elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub browser: String,
    /// Identifier or address of the card; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub card: String,
    /// Clock of the samples.
    pub clock: String,
    /// Tunables of all variants that differ from the defaults.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tuning: String,
}

impl Setup {
    fn of(run: &Run) -> Setup {
        let device = run.device();
        let tuning = device.caps.tuning.values().map(|(name, value)| format!("{name}={value}"));
        Setup {
            driver: device.interface(),
            browser: run.browser_in_full().unwrap_or_default(),
            card: device.identity.card().unwrap_or_default().to_owned(),
            clock: run.clock.clock.label().to_owned(),
            tuning: tuning.collect::<Vec<_>>().join(", "),
        }
    }

    /// Returns the properties that differ in a later run, each with both values. An unknown card differs from none.
    pub fn differences(&self, later: &Setup) -> Vec<String> {
        let all = [
            ("driver", &self.driver, &later.driver),
            ("browser", &self.browser, &later.browser),
            ("card", &self.card, &later.card),
            ("clock", &self.clock, &later.clock),
            ("tuning", &self.tuning, &later.tuning),
        ];
        let known = |(name, a, b): &(&str, &String, &String)| *name != "card" || !(a.is_empty() || b.is_empty());
        let value = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        let differ = all.into_iter().filter(|(_, a, b)| a != b).filter(known);
        differ.map(|(name, a, b)| format!("{name}: {} → {}", value(a), value(b))).collect()
    }
}

/// One run of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRun {
    /// File of the run.
    pub file: String,
    /// Seconds since 1970 (UTC) at the begin.
    pub started: u64,
    /// Commit of the program, with `-dirty` for a changed tree; empty if unknown.
    pub commit: String,
    /// Name of the device.
    pub device: String,
    /// Driver, browser, card, clock and tuning.
    pub setup: Setup,
    /// Time of the reference kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Level>,
    /// Drift of the reference kernel within the run, as a share of its time.
    pub drift: f64,
    /// Whether the device is a processor, or emulated on one.
    pub emulated: bool,
}

impl HistoryRun {
    /// Returns the description of a run.
    pub(super) fn of(file: String, run: &Run) -> HistoryRun {
        let times: Vec<f64> = run.drift.iter().map(|reading| reading.reference_kernel.0).collect();
        HistoryRun {
            file,
            started: run.started,
            commit: run.suite.commit.clone(),
            device: run.called_in_full(),
            setup: Setup::of(run),
            reference: Summary::of(&times).and_then(|summary| Level::of(&summary)),
            drift: drift_within(&run.drift),
            emulated: run.device().kind.is_emulated(),
        }
    }
}
