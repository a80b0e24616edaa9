//! Verdict from two sets of samples: faster, slower, same or undecided.
//!
//! # The interval of a ratio
//!
//! Each median has a distribution-free 95 % interval from order statistics ([`parallax_schema::record::stats`]). The interval of the ratio
//! `b / a` takes their far ends: `[b.low / a.high, b.high / a.low]`. By Bonferroni's inequality it covers the true ratio at least
//! 90 % of the time, for any distributions. It is far more cautious when both intervals are about equally wide and the medians
//! about normal. Its half width is then 1.96 (σ + σ), and the standard deviation of the ratio is √2 σ. It reaches 2.77 standard
//! deviations to either side and covers about 99.4 %.
//!
//! Consecutive samples on an emulated device are alike for seconds. Other load on the host's processors slows a whole run, or half
//! of one. Many samples then carry hardly more information than one. The interval of such a figure is the middle 90 % of its
//! samples, which does not shrink with their number. A short run may lie in a slow stretch as a whole. The interval of the ratio is
//! therefore wider by the [`reference_spread`] of the reference kernels of both runs.
//!
//! A GPU case has the same problem when its spread (interquartile range over median) exceeds the requested resolution, or 1 % if
//! that is larger. Its time depends on the host, for example one that launches short kernels. The host's pace can differ for a
//! whole run. Two runs can differ by as much as the samples of one. The interval of the ratio is therefore wider once more by the
//! range of the samples of either side.
//!
//! # Resolution
//!
//! A difference smaller than the resolution δ does not count. δ is the largest of these:
//!
//! - the requested resolution (1 % by default),
//! - the sum of the clock errors of both figures,
//! - the gaps between launches,
//! - the drift of the reference kernel within either run,
//! - for two runs on one device through one target, the difference of their reference kernels.
//!
//! The verdict is *faster* or *slower* when the whole interval lies outside `[1 / (1 + δ), 1 + δ]`. It is *same* when the whole
//! interval lies inside, and *undecided* otherwise.

use parallax_schema::device::{ClockInfo, DeviceKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use parallax_schema::record::stats::FEWEST;
use parallax_schema::record::stats::{Summary, quantile};
use parallax_schema::record::{Drift, Record, Run, Timing};
use parallax_schema::units::percent;

/// Minimum number of samples for tails of 5 %: two samples then lie beyond either end of the middle 90 %.
const FEW: usize = 40;

/// Default resolution.
pub const RESOLUTION: f64 = 0.01;

/// Default resolution for emulated devices. Other load on their processor slows whole runs, and the interval of a single run does
/// not contain that.
pub const RESOLUTION_EMULATED: f64 = 0.05;

/// Returns the default resolution for a kind of device.
pub fn resolution_on(kind: DeviceKind) -> f64 {
    if kind.is_emulated() { RESOLUTION_EMULATED } else { RESOLUTION }
}

/// Returns the default resolution of a pair of runs. It does not depend on the other runs of a comparison.
pub fn resolution_between(a: &Run, b: &Run) -> f64 {
    resolution_on(a.device().kind).max(resolution_on(b.device().kind))
}

/// Inputs of a verdict besides the samples.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct VerdictInputs {
    /// Requested resolution.
    pub asked: f64,
    /// Drift of the device by [`drift_within`] and [`drift_between`].
    pub drift: f64,
    /// Share of the time by which launches may differ.
    pub launch: f64,
    /// The [`reference_spread`], if one of the devices is emulated.
    pub reference_spread: Option<f64>,
}

/// Returns the ends of the interval of a figure, and the factor by which another run of the same case may differ from it.
fn interval(timing: &Timing, grounds: VerdictInputs) -> (f64, f64, f64) {
    if grounds.reference_spread.is_none() && timing.summary.spread <= grounds.asked.max(RESOLUTION) {
        return (timing.summary.low.0, timing.summary.high.0, 1.0);
    }
    let mut sorted = timing.samples.clone();
    sorted.sort_by(f64::total_cmp);
    // With few samples, hardly one lies outside the middle 90 %: the interval spans all of them.
    let tail = if sorted.len() < FEW { 0.0 } else { 0.05 };
    let (low, high) = (quantile(&sorted, tail), quantile(&sorted, 1.0 - tail));
    // The reference kernel shows the difference between runs of an emulated device.
    (low, high, if grounds.reference_spread.is_some() { 1.0 } else { high / low })
}

/// Verdict on two figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval is within the resolution of one.
    Same,
    /// The whole interval is below it.
    Faster,
    /// The whole interval is above it.
    Slower,
    /// The interval reaches across an edge, or there are too few samples for one.
    Undecided,
}

impl Verdict {
    /// Returns the verdict for an interval and a resolution.
    pub fn of(low: f64, high: f64, resolution: f64) -> Verdict {
        let edge = 1.0 + resolution;
        if low > edge {
            Verdict::Slower
        } else if high < 1.0 / edge {
            Verdict::Faster
        } else if low >= 1.0 / edge && high <= edge {
            Verdict::Same
        } else {
            Verdict::Undecided
        }
    }

    /// Returns the verdict as one word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Undecided => "undecided",
        }
    }
}

/// Source of a pair's resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Requested, or the default.
    Asked,
    /// The errors of both clocks.
    Clock,
    /// The device itself ran at another speed.
    #[serde(rename = "canary")]
    Drift,
    /// Gaps between kernels, which differ from run to run.
    Launch,
}

/// Returns the share of a case's time by which its launches may differ from run to run.
pub(crate) fn launch_resolution(clock: &ClockInfo, record: &Record) -> f64 {
    match (record.measured(), record.timing()) {
        (Some(measured), Some(timing)) => {
            clock.launch_jitter.0 * measured.launches.len() as f64 / timing.summary.median.0
        }
        _ => 0.0,
    }
}

/// The smallest difference that a pair is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resolution {
    /// As a share of the time.
    pub value: f64,
    /// Its source.
    pub source: Source,
}

impl Resolution {
    /// Returns the largest of the requested resolution, the clock errors, the drift of the reference kernels and the jitter of
    /// launches.
    pub fn of(base: &Timing, other: &Timing, grounds: VerdictInputs) -> Resolution {
        Resolution::with_clocks(base.clock_error + other.clock_error, grounds)
    }

    /// Returns the resolution for a sum of clock errors.
    pub fn with_clocks(clock: f64, VerdictInputs { asked, drift, launch, .. }: VerdictInputs) -> Resolution {
        let mut resolution = Resolution { value: asked, source: Source::Asked };
        for (value, source) in [(clock, Source::Clock), (drift, Source::Drift), (launch, Source::Launch)] {
            if value > resolution.value {
                resolution = Resolution { value, source };
            }
        }
        resolution
    }

    /// Returns the reason for a resolution coarser than the requested one, if it is coarser.
    pub fn why(&self) -> Option<&'static str> {
        match self.source {
            Source::Asked => None,
            Source::Clock => Some("the clocks' errors add up to that"),
            Source::Launch => Some("the gaps between launches differ by that from run to run"),
            Source::Drift => Some("the device's own speed differed by that within or between the runs"),
        }
    }

    /// Returns the reason together with the resolution.
    pub fn note(&self) -> Option<String> {
        self.why().map(|why| format!("resolution {}: {why}", percent(self.value)))
    }
}

/// Drift of a device's speed during a run: half the interquartile range of the reference kernel's times over their median. Half of
/// the readings of an unchanging kernel are off by this share, so an equal difference of another kernel is no evidence. Zero
/// without readings.
pub fn drift_within(drift: &[Drift]) -> f64 {
    reference_kernel_times(drift).map_or(0.0, |s| s.spread / 2.0)
}

fn reference_kernel_times(drift: &[Drift]) -> Option<Summary> {
    Summary::of(&drift.iter().map(|d| d.reference_kernel.0).collect::<Vec<_>>())
}

/// Difference of the reference kernels of two runs: the larger median over the smaller, less one. Zero if either run has no
/// reference kernel, or if the 95 % intervals of both medians overlap.
pub fn drift_between(a: &[Drift], b: &[Drift]) -> f64 {
    let (Some(a), Some(b)) = (reference_kernel_times(a), reference_kernel_times(b)) else { return 0.0 };
    let overlap = a.low.0 <= b.high.0 && b.low.0 <= a.high.0;
    if overlap || a.median.0 <= 0.0 || b.median.0 <= 0.0 {
        return 0.0;
    }
    (b.median.0 / a.median.0).ln().abs().exp_m1()
}

/// Variation of a device's speed in two runs: the 95th percentile of the reference kernel's times over the 5th, less one. The
/// readings are pooled if both runs had the same reference kernel on the same device. Otherwise the larger variation of the two
/// runs counts. Zero without readings.
pub fn reference_spread(a: &[Drift], b: &[Drift], same_kernel: bool) -> f64 {
    let of = |drift: &mut dyn Iterator<Item = &Drift>| {
        let mut times: Vec<f64> = drift.map(|d| d.reference_kernel.0).filter(|time| *time > 0.0).collect();
        times.sort_by(f64::total_cmp);
        if times.is_empty() { 0.0 } else { quantile(&times, 0.95) / quantile(&times, 0.05) - 1.0 }
    };
    match same_kernel {
        true => of(&mut a.iter().chain(b)),
        false => of(&mut a.iter()).max(of(&mut b.iter())),
    }
}

/// Time over the base's time, with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Median over median: 2 means twice as long.
    pub value: f64,
    /// Low end of its interval; absent when there are too few samples for one.
    pub low: Option<f64>,
    /// High end of its interval; absent when there are too few samples for one.
    pub high: Option<f64>,
    /// The smallest difference that counts.
    pub resolution: Resolution,
    /// The minimum detectable effect: the smallest change that these two runs would have called, as a share of the time.
    /// See [`detectable`].
    #[serde(rename = "minimum_detectable_effect", alias = "detectable")]
    pub detectable: Option<f64>,
    /// Verdict on the ratio.
    pub verdict: Verdict,
    /// Remarks on the verdict; empty when it is plain.
    pub notes: Vec<String>,
}

/// Smallest change that two runs would have called faster or slower, as a share of the time.
///
/// A change multiplies the times of one side, the ratio r and both ends of its interval. The half widths on the logarithmic scale,
/// `r / low` and `high / r`, stay the same. The verdict is slower once `low > 1 + δ`, which is `r > (1 + δ) · (r / low)`. It is
/// faster once `1 / r > (1 + δ) · (high / r)`. The larger of the two bounds, less one, holds for either direction. With the same
/// noise, a measured ratio this far from one would have had a verdict. A true change of this size is measured as larger or smaller
/// by chance, and gets a verdict about every other time. A change larger by a further half width is hardly ever missed.
pub fn detectable(value: f64, low: f64, high: f64, resolution: f64) -> f64 {
    (1.0 + resolution) * (value / low).max(high / value) - 1.0
}

impl Ratio {
    /// Returns the ratio of two timings on one device, taken side by side. `launches` is the number of launches of one execution.
    pub fn side_by_side(base: &Timing, other: &Timing, launches: usize, kind: DeviceKind, clock: &ClockInfo) -> Ratio {
        let launch = clock.launch_jitter.0 * launches as f64 / base.summary.median.0;
        let reference_spread = kind.is_emulated().then_some(0.0);
        Ratio::of(base, other, VerdictInputs { asked: resolution_on(kind), drift: 0.0, launch, reference_spread })
    }

    /// Returns the ratio of two timings.
    pub fn of(base: &Timing, other: &Timing, grounds: VerdictInputs) -> Ratio {
        let (a, b) = (&base.summary, &other.summary);
        let resolution = Resolution::of(base, other, grounds);
        let value = b.median.0 / a.median.0;
        let mut notes: Vec<String> = resolution.note().into_iter().collect();
        let undecided = |notes: Vec<String>| Ratio {
            value,
            low: None,
            high: None,
            resolution,
            detectable: None,
            verdict: Verdict::Undecided,
            notes,
        };
        let fewest = a.n.min(b.n);
        if fewest < FEWEST {
            notes.push(format!("{fewest} of the {FEWEST} samples that an interval takes"));
            return undecided(notes);
        }
        let ((a_low, a_high, a_runs), (b_low, b_high, b_runs)) = (interval(base, grounds), interval(other, grounds));
        if !(a_low > 0.0 && b_low > 0.0 && a_high.is_finite() && b_high.is_finite()) {
            notes.push("an interval reaches down to no time at all".to_owned());
            return undecided(notes);
        }
        let wider = grounds.reference_spread.map_or(a_runs * b_runs, |reference_spread| 1.0 + reference_spread);
        let (low, high) = (b_low / a_high / wider, b_high / a_low * wider);
        let detectable = detectable(value, low, high, resolution.value);
        let verdict = Verdict::of(low, high, resolution.value);
        if verdict == Verdict::Undecided {
            notes.push(match wider - 1.0 > resolution.value {
                true if grounds.reference_spread.is_some() => {
                    format!("the device's own speed varied by {} in these runs", percent(wider - 1.0))
                }
                true => {
                    "its samples scatter: the host or the link sets the pace of the device, and that differs from run to run"
                        .to_owned()
                }
                false => "the interval reaches across the edge of the resolution".to_owned(),
            });
        }
        Ratio { value, low: Some(low), high: Some(high), resolution, detectable: Some(detectable), verdict, notes }
    }
}

/// Formats a ratio with the digits that a verdict of one per cent needs.
pub fn digits(ratio: f64) -> String {
    if ratio < 9.9995 { format!("{ratio:.3}") } else { parallax_schema::units::three_digits(ratio) }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let interval = match (self.low, self.high) {
            (Some(low), Some(high)) => format!("[{}, {}]", digits(low), digits(high)),
            _ => "[no interval]".to_owned(),
        };
        f.pad(&format!("{}× {interval} {}", digits(self.value), self.verdict.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::{drift, spread, timing};

    fn ratio(base: &[f64], other: &[f64]) -> Ratio {
        Ratio::of(&timing(base), &timing(other), VerdictInputs { asked: RESOLUTION, ..VerdictInputs::default() })
    }

    #[test]
    fn synthetic_distributions_get_the_verdicts_that_they_deserve() {
        let base = spread(1000.0, 0.004, 60);
        let scaled = |by: f64| base.iter().map(|t| t * by).collect::<Vec<_>>();
        let wide = spread(1000.0, 0.4, 20);
        let wide_slower: Vec<f64> = wide.iter().map(|t| t * 1.03).collect();
        for (other, want) in [
            (scaled(1.0), Verdict::Same),
            (scaled(1.003), Verdict::Same),
            (scaled(1.03), Verdict::Slower),
            (scaled(0.97), Verdict::Faster),
            (scaled(1.0101), Verdict::Undecided),
        ] {
            let got = ratio(&base, &other);
            assert_eq!(got.verdict, want, "{got}");
        }
        assert_eq!(ratio(&wide, &wide_slower).verdict, Verdict::Undecided, "noise hides 3 %");
        assert_eq!(ratio(&wide, &wide).verdict, Verdict::Undecided, "and hides that nothing changed");
    }

    #[test]
    fn on_an_emulated_device_many_samples_are_no_more_than_one() {
        // The second run shared its processor except for moments: its median shows little more than half the speed.
        let scale = |i: usize| if i.is_multiple_of(10) { 1.0 } else { 1.6 };
        let base = spread(1000.0, 0.02, 60);
        let other: Vec<f64> = base.iter().enumerate().map(|(i, t)| t * scale(i)).collect();
        let judged = |other: &[f64], emulated: bool| {
            let grounds =
                VerdictInputs { asked: 0.05, reference_spread: emulated.then_some(0.0), ..VerdictInputs::default() };
            Ratio::of(&timing(&base), &timing(other), grounds).verdict
        };
        assert_eq!((judged(&other, false), judged(&other, true)), (Verdict::Slower, Verdict::Undecided));
        assert_eq!(
            judged(&spread(1600.0, 0.02, 60), true),
            Verdict::Slower,
            "a difference without drift is still seen"
        );
    }

    #[test]
    fn a_case_that_its_host_sets_the_pace_of_is_judged_by_all_of_its_samples() {
        // Measured times of a kernel of 6 µs in two runs on one GPU. The medians' intervals are more than 7.5 % apart.
        let run = |times: &[f64]| timing(&times.iter().copied().cycle().take(280).collect::<Vec<_>>());
        let quick = run(&[5955.0, 6292.0, 6450.0, 6506.0, 6600.0, 6671.0, 6700.0, 6913.0, 8062.0, 8836.0]);
        let slow = run(&[6908.0, 7145.0, 7350.0, 7401.0, 7600.0, 7700.0, 9046.0, 9400.0, 9751.0, 10313.0]);
        let grounds = VerdictInputs { asked: RESOLUTION, launch: 0.075, ..VerdictInputs::default() };
        assert!(slow.summary.low.0 > 1.075 * quick.summary.high.0, "the medians alone would say slower");
        let got = Ratio::of(&quick, &slow, grounds);
        assert!(
            got.verdict == Verdict::Undecided && got.notes.iter().any(|n| n.contains("its samples scatter")),
            "{got:?}"
        );
        // Short runs, each within one pace of the host. Their samples do not overlap.
        let brief = |middle: f64| timing(&spread(middle, 0.07, 12));
        assert_eq!(Ratio::of(&brief(6300.0), &brief(7900.0), grounds).verdict, Verdict::Undecided);
        assert_eq!(Ratio::of(&brief(6300.0), &brief(12_600.0), grounds).verdict, Verdict::Slower, "twice is twice");
    }

    #[test]
    fn a_short_run_in_a_slow_stretch_of_an_emulated_device_decides_nothing() {
        // Ten samples within a moment, all of them beside other load.
        let (quick, slow) = (spread(1000.0, 0.02, 10), spread(1700.0, 0.02, 10));
        let judged = |before: &[f64], after: &[f64], emulated: bool| {
            let reference_spread = emulated.then(|| reference_spread(&drift(before), &drift(after), true));
            let grounds = VerdictInputs { asked: 0.05, reference_spread, ..VerdictInputs::default() };
            Ratio::of(&timing(&quick), &timing(&slow), grounds)
        };
        let (calm, stirred) = (spread(500.0, 0.01, 20), spread(850.0, 0.3, 20));
        let got = judged(&calm, &stirred, true);
        assert_eq!(got.verdict, Verdict::Undecided, "{got}");
        assert!(got.notes[0].contains("own speed varied"), "{:?}", got.notes);
        assert_eq!(judged(&calm, &calm, true).verdict, Verdict::Slower, "the device was calm");
        assert_eq!(judged(&calm, &stirred, false).verdict, Verdict::Slower, "a GPU has one user");
        let (two, one) = (drift(&spread(500.0, 0.01, 20)), drift(&spread(850.0, 0.01, 20)));
        assert!(reference_spread(&two, &one, false) < 0.05, "kernels of two targets are not compared");
        assert_eq!((reference_spread(&[], &[], true), reference_spread(&[], &one, true) < 0.05), (0.0, true));
    }

    #[test]
    fn few_samples_decide_nothing() {
        let few = ratio(&[100.0; 5], &[300.0; 50]);
        assert_eq!((few.verdict, few.low, few.detectable), (Verdict::Undecided, None, None));
        assert!(few.notes[0].contains("5 of the 6"), "{:?}", few.notes);
        assert_eq!(ratio(&[100.0; 6], &[300.0; 50]).verdict, Verdict::Slower, "six do");
    }

    #[test]
    fn a_coarse_clock_widens_the_resolution() {
        let base = spread(1000.0, 0.004, 60);
        let other: Vec<f64> = base.iter().map(|t| t * 1.03).collect();
        let coarse = |samples: &[f64]| Timing { clock_error: 0.025, ..timing(samples) };
        let got =
            Ratio::of(&coarse(&base), &coarse(&other), VerdictInputs { asked: RESOLUTION, ..VerdictInputs::default() });
        assert_eq!((got.verdict, got.resolution.source), (Verdict::Same, Source::Clock));
        assert!((got.resolution.value - 0.05).abs() < 1e-12, "both errors add up");
        assert!(got.notes[0].contains("clock"), "{:?}", got.notes);
    }

    #[test]
    fn reference_kernels_that_disagree_widen_the_resolution() {
        let (cool, hot) = (drift(&spread(500.0, 0.002, 12)), drift(&spread(530.0, 0.002, 12)));
        let apart = drift_between(&cool, &hot);
        assert!((apart - 0.06).abs() < 0.003, "{apart}");
        assert!((drift_between(&hot, &cool) - apart).abs() < 1e-12, "whichever comes first");
        assert_eq!(drift_between(&cool, &cool), 0.0);
        assert_eq!(drift_between(&cool, &drift(&spread(501.0, 0.02, 12))), 0.0, "their intervals overlap");
        assert_eq!(drift_between(&cool, &[]), 0.0);
        assert!(drift_within(&cool) < 0.002 && drift_within(&[]) == 0.0);
        let wander = drift_within(&drift(&spread(500.0, 0.2, 12)));
        assert!((0.03..0.2).contains(&wander), "half of the readings of a noisy device: {wander}");
        let base = spread(1000.0, 0.004, 60);
        let other: Vec<f64> = base.iter().map(|t| t * 1.05).collect();
        let grounds = |drift| VerdictInputs { asked: RESOLUTION, drift, ..VerdictInputs::default() };
        let judged = |drift| Ratio::of(&timing(&base), &timing(&other), grounds(drift));
        assert_eq!(judged(0.0).verdict, Verdict::Slower);
        assert_eq!(judged(apart).verdict, Verdict::Same);
        assert_eq!(judged(apart).resolution.source, Source::Drift);
    }

    #[test]
    fn the_detectable_change_is_where_the_verdict_turns() {
        for noise in [0.001, 0.01, 0.1] {
            let base = spread(1000.0, noise, 41);
            let same = ratio(&base, &base);
            let detectable = same.detectable.expect("enough samples");
            let scaled = |by: f64| ratio(&base, &base.iter().map(|t| t * by).collect::<Vec<_>>()).verdict;
            // In one direction the verdict changes exactly there, in the other no later.
            let beyond = 1.0 + detectable * 1.001;
            assert_eq!((scaled(beyond), scaled(1.0 / beyond)), (Verdict::Slower, Verdict::Faster), "{noise}");
            let short = 1.0 + detectable * 0.999;
            let called = |v: Verdict| matches!(v, Verdict::Slower | Verdict::Faster);
            assert!(!(called(scaled(short)) && called(scaled(1.0 / short))), "{noise}");
        }
    }
}
