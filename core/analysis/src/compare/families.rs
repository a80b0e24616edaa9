//! Runs against each other by workload: the geometric mean of the ratios of its problems.
//!
//! There is no score over all workloads: the reader decides their weights.

use std::collections::BTreeMap;

use parallax_schema::case::workload_of;
use parallax_schema::record::NamedRun;
use parallax_schema::record::stats::geometric_mean;

use crate::compare::cost::{Against, Cost, ProblemCost};
use crate::compare::verdict::Ratio;
use crate::compare::{Comparison, Pair, timed};

/// Mean ratios of the problems of one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadCost {
    /// Name of the workload.
    pub workload: String,
    /// Mean ratio of the same kernel on both.
    pub same: Option<MeanRatio>,
    /// Mean ratio of the fastest variants of each.
    pub best: Option<MeanRatio>,
}

/// Geometric mean of ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanRatio {
    /// The mean.
    pub value: f64,
    /// Its 95 % interval, from the measurement errors of these problems only; absent if a ratio has none. It does not cover the
    /// choice of problems.
    pub interval: Option<(f64, f64)>,
    /// Number of ratios.
    pub problems: usize,
}

impl MeanRatio {
    /// Returns the mean of these ratios; `None` without ratios. Their errors are independent, so the half widths of their
    /// logarithms add in quadrature.
    pub fn of<'a>(ratios: impl Iterator<Item = &'a Ratio> + Clone) -> Option<MeanRatio> {
        let (value, problems) = geometric_mean(ratios.clone().map(|ratio| ratio.value))?;
        let half = |end: fn(&Ratio) -> Option<f64>| {
            let widths = ratios.clone().map(|ratio| Some((end(ratio)? / ratio.value).ln().powi(2)));
            Some(widths.sum::<Option<f64>>()?.sqrt() / problems as f64)
        };
        let interval = half(|ratio| ratio.low).zip(half(|ratio| ratio.high));
        let interval = interval.map(|(below, above)| (value * (-below).exp(), value * above.exp()));
        Some(MeanRatio { value, interval, problems })
    }
}

impl Cost {
    /// Returns the costs by workload, the costliest first.
    pub fn by_workload(&self) -> Vec<WorkloadCost> {
        let mut members: BTreeMap<&str, Vec<&ProblemCost>> = BTreeMap::new();
        for problem in &self.problems {
            members.entry(workload_of(&problem.problem)).or_default().push(problem);
        }
        let family = |(workload, problems): (&str, Vec<&ProblemCost>)| {
            let mean = |of: fn(&ProblemCost) -> Option<&Against>| {
                MeanRatio::of(problems.iter().filter_map(|problem| of(problem)).map(|against| &against.ratio))
            };
            let (same, best) = (mean(|problem| problem.same.as_ref()), mean(|problem| problem.best.as_ref()));
            WorkloadCost { workload: workload.to_owned(), same, best }
        };
        let mut families: Vec<WorkloadCost> = members.into_iter().map(family).collect();
        let largest = |family: &WorkloadCost| {
            [family.same, family.best].into_iter().flatten().map(|mean| mean.value).fold(0.0, f64::max)
        };
        families.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
        families
    }
}

/// One workload in the runs of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadRow {
    /// Name of the workload.
    pub workload: String,
    /// Mean ratio over the base for each run; absent for the base itself, and for a run without a valid case.
    pub means: Vec<Option<MeanRatio>>,
}

impl Comparison {
    /// Returns the workloads of the compared runs, by name. A case counts if it was measured to its end and found correct on both
    /// sides. An emulated device has no figure, because its times show nothing about a GPU.
    pub fn by_workload(&self, runs: &[NamedRun]) -> Vec<WorkloadRow> {
        let counts = |run: usize, case: &str| {
            let NamedRun { run, .. } = &runs[run];
            !run.device().kind.is_emulated() && timed(run, case).is_some_and(|record| !record.cut_off())
        };
        let mut members: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
        for pair in self.pairs.iter().filter(|pair| counts(self.base, &pair.case)) {
            members.entry(workload_of(&pair.case)).or_default().push(pair);
        }
        let mean = |run: usize, pairs: &[&Pair]| {
            let ratios =
                pairs.iter().filter(|pair| counts(run, &pair.case)).filter_map(|pair| pair.ratios[run].as_ref());
            MeanRatio::of(ratios)
        };
        let row = |(workload, pairs): (&str, Vec<&Pair>)| {
            let means: Vec<Option<MeanRatio>> = (0..runs.len()).map(|run| mean(run, &pairs)).collect();
            means.iter().any(Option::is_some).then(|| WorkloadRow { workload: workload.to_owned(), means })
        };
        members.into_iter().filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cost::cost;
    use crate::compare::{Options, compare};
    use parallax_schema::device::DeviceKind;
    use parallax_schema::record::StopReason;
    use parallax_schema::testing::{measured, run, spread};

    #[test]
    fn a_workloads_problems_make_one_figure_with_an_interval() {
        let of = |target: &str, times: [f64; 3]| {
            let names = ["copy/fwd/n64/f32/vec4", "matmul/fwd/m8,n8,k8/f32/tiled", "matmul/fwd/m8,n8,k8/f16/tiled"];
            let cases: Vec<_> = names.into_iter().zip(times.map(|time| spread(time, 0.01, 40))).collect();
            NamedRun::new(target, run(target, "NVIDIA H200", &cases))
        };
        let cost = cost(&of("cuda", [10.0; 3]), &of("browser", [15.0, 20.0, 80.0])).expect("one GPU");
        let families = cost.by_workload();
        let names: Vec<&str> = families.iter().map(|family| family.workload.as_str()).collect();
        assert_eq!(names, ["matmul", "copy"], "the costliest first");
        let (matmul, copy) = (families[0].same.expect("two"), families[1].best.expect("one"));
        assert_eq!((matmul.problems, copy.problems), (2, 1));
        assert!((matmul.value - 4.0).abs() < 0.05 && (copy.value - 1.5).abs() < 0.02, "{matmul:?} {copy:?}");
        let width = |mean: MeanRatio| mean.interval.map(|(low, high)| (high / low).ln()).expect("enough samples");
        let alone = cost.problems.iter().find(|problem| problem.problem.starts_with("copy")).expect("there");
        let Ratio { low, high, .. } = &alone.best.as_ref().expect("a best").ratio;
        let (low, high) = low.zip(*high).expect("enough samples");
        let (least, most) = copy.interval.expect("of one ratio, as it is");
        assert!((least / low - 1.0).abs() < 1e-9 && (most / high - 1.0).abs() < 1e-9, "{least} {most}");
        assert!((width(matmul) * 2f64.sqrt() / width(copy) - 1.0).abs() < 0.1, "two are √2 times as sure as one");
    }

    #[test]
    fn devices_stand_beside_each_other_by_workload() {
        const CASES: [&str; 3] =
            ["copy/fwd/n64/f32/vec4", "matmul/fwd/m8,n8,k8/f32/tiled", "matmul/fwd/m8,n8,k8/f16/tiled"];
        let of = |device: &str, times: [f64; 3]| {
            let cases: Vec<_> = CASES.into_iter().zip(times.map(|time| spread(time, 0.01, 40))).collect();
            NamedRun::new(device, run("browser", device, &cases))
        };
        let held = |runs: &[NamedRun]| compare(runs, &Options::default()).expect("pairs").by_workload(runs);
        let mut runs = vec![of("X", [10.0; 3]), of("Y", [5.0, 20.0, 80.0]), of("Z", [10.0; 3])];
        let rows = held(&runs);
        assert_eq!(rows.iter().map(|row| row.workload.as_str()).collect::<Vec<_>>(), ["copy", "matmul"]);
        assert_eq!(rows[0].means[0], None, "the base itself");
        let matmul = rows[1].means[1].expect("two");
        assert!((matmul.value - 4.0).abs() < 0.05 && matmul.problems == 2 && matmul.interval.is_some(), "{matmul:?}");
        // A case that was cut off on either side does not count.
        measured(&mut runs[1].run, CASES[2]).timing.as_mut().expect("timed").stopped = StopReason::Killed;
        measured(&mut runs[0].run, CASES[0]).timing.as_mut().expect("timed").stopped = StopReason::Killed;
        let rows = held(&runs);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!([1, 2].map(|run| rows[0].means[run].expect("some").problems), [1, 2]);
        // Neither does a case of an emulated device.
        runs[1].run.devices[0].kind = DeviceKind::Software;
        assert_eq!(held(&runs)[0].means[1], None);
        runs[0].run.devices[0].kind = DeviceKind::Software;
        assert_eq!(held(&runs), []);
    }

    #[test]
    fn a_ratio_without_an_interval_leaves_the_mean_without_one() {
        let of = |target: &str| {
            let cases = [("copy/fwd/n64/f32/vec4", spread(10.0, 0.01, 40)), ("copy/fwd/n8/f32/vec4", vec![10.0])];
            NamedRun::new(target, run(target, "NVIDIA H200", &cases))
        };
        let families = cost(&of("cuda"), &of("browser")).expect("one GPU").by_workload();
        let mean = families[0].same.expect("two");
        assert_eq!((mean.problems, mean.interval), (2, None));
    }
}
