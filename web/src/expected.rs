//! The expected duration of a run, corrected by the durations of earlier runs in this browser.

use parallax_schema::record::stats::quantile;
use parallax_schema::session::{ExpectedDuration, Mode};
use parallax_schema::spec::Spec;

use crate::query;
use crate::shelf::RunMeta;

/// Ratio between the durations of two equal runs.
const APART: f64 = 1.2;

/// Number of earlier runs considered. Older ones come from another browser version.
const LOOKED_AT: usize = 8;

/// Returns the expected duration of a run of `cases` cases. Earlier runs of the device correct the estimate of the parts. Runs with
/// the same settings have priority.
pub fn of_run(spec: &Spec, cases: usize, emulated: bool, past: &[Past]) -> ExpectedDuration {
    let parts = ExpectedDuration::of_run(spec, cases, emulated);
    let same: Vec<&Past> = past.iter().filter(|past| past.asked == *spec && past.cases == cases).collect();
    let known = if same.is_empty() { past.iter().collect() } else { same };
    let off = |past: &&Past| past.seconds / ExpectedDuration::of_run(&past.asked, past.cases, emulated).middle();
    let mut off: Vec<f64> = known.iter().take(LOOKED_AT).map(off).collect();
    if off.is_empty() {
        return parts;
    }
    off.sort_by(f64::total_cmp);
    // A run during which the machine slept says nothing about the next.
    let [low, high] = [0.25, 0.75].map(|p| parts.middle() * quantile(&off, p));
    ExpectedDuration { low: low / APART, high: high * APART }
}

/// A finished run of this browser.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    asked: Spec,
    cases: usize,
    seconds: f64,
}

impl Past {
    /// Kept runs of a device that measured all of their planned cases.
    pub fn of(spines: &[RunMeta], device: &str) -> Vec<Past> {
        let whole = |spine: &&RunMeta| spine.ended && spine.cases >= spine.planned && spine.device == device;
        let past = |spine: &RunMeta| {
            let asked = query::parse(&spine.asked, false, |_| false);
            let measured = asked.mode == Mode::Measure && spine.measured > 0;
            let asked = asked.spec.ok().filter(|_| measured)?;
            Some(Past { asked, cases: spine.measured, seconds: (spine.heard - spine.id) / 1e3 })
        };
        spines.iter().filter(whole).filter_map(past).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spine(asked: &str, measured: usize, seconds: f64) -> RunMeta {
        RunMeta {
            id: 1e12,
            device: "X".to_owned(),
            name: None,
            asked: asked.to_owned(),
            cases: measured + 2,
            planned: measured + 2,
            measured,
            ended: true,
            heard: 1e12 + seconds * 1e3,
        }
    }

    #[test]
    fn every_part_counts() {
        let spec = Spec { budget: 10.0, ..Spec::default() };
        let of = |spec: &Spec, cases, emulated| of_run(spec, cases, emulated, &[]);
        let five = of(&spec, 5, false);
        assert!(
            five.low > 10.0 && five.high < 60.0 && five.low < five.middle() && five.middle() < five.high,
            "{five:?}"
        );
        assert!(of(&spec, 6, false).high > five.high);
        assert!(of(&spec, 5, true).high > 2.0 * five.high, "software is slow");
        assert!(of(&Spec { ceilings: false, ..spec.clone() }, 5, false).high < five.high);
        assert!(of(&Spec { budget: 20.0, ..spec }, 5, false).low > five.low);
    }

    #[test]
    fn earlier_runs_tell_how_slow_a_device_is() {
        let spec = Spec { budget: 10.0, ..Spec::default() };
        let past = Past::of(&[spine("budget=10", 5, 120.0)], "X");
        let again = of_run(&spec, 5, false, &past);
        assert!(again.low < 120.0 && 120.0 < again.high && again.high < 150.0, "{again:?}");
        // Another plan scales with it.
        let more = of_run(&spec, 10, false, &past);
        assert!(more.low > again.low && more.high < 2.5 * again.high, "{more:?}");
        // Runs of the same plan count. A run that slept does not.
        let spines = [120.0, 124.0, 122.0, 4000.0, 121.0].map(|seconds| spine("budget=10", 5, seconds));
        let spines = [vec![spine("budget=99", 40, 9000.0)], spines.to_vec()].concat();
        let same = of_run(&spec, 5, false, &Past::of(&spines, "X"));
        assert!(same.high < 150.0, "{same:?}");
    }

    #[test]
    fn runs_that_tell_nothing_are_left_out() {
        let whole = spine("budget=10", 5, 60.0);
        assert_eq!(Past::of(std::slice::from_ref(&whole), "X").len(), 1);
        for (why, other) in [
            ("another device", RunMeta { device: "Y".to_owned(), ..whole.clone() }),
            ("stopped", RunMeta { cases: 3, ..whole.clone() }),
            ("left", RunMeta { ended: false, ..whole.clone() }),
            ("only checked", RunMeta { asked: "mode=verify".to_owned(), ..whole.clone() }),
            ("kept by an older page", RunMeta { measured: 0, ..whole.clone() }),
            ("asked for a setting that no longer exists", RunMeta { asked: "presett=quick".to_owned(), ..whole }),
        ] {
            assert_eq!(Past::of(&[other], "X"), [], "{why}");
        }
    }
}
