//! Cost of a target farther from the hardware on one GPU, per problem: the same kernel on both, and the fastest kernel of each.
//!
//! The ratio of the same kernel shows the cost of the target itself. The ratio of the fastest kernels shows the loss of a user,
//! because some kernels cannot be written for a target. Both are ratios of medians with intervals, as in every comparison
//! ([`crate::compare::compare`]).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use parallax_schema::case::{problem_of, variant_of};
use parallax_schema::record::stats::{geometric_mean, quantile};
use parallax_schema::record::{NamedRun, Record, Route};
use parallax_schema::units::Nanos;

use crate::compare::compare::{device_drift, judge};
use crate::compare::one_gpu::{TaxError, distance, on_the_processor, one_gpu};
use crate::compare::pairing::{as_asked, fastest};
use crate::compare::tax::Call;
use crate::compare::timed;
use crate::compare::verdict::{Ratio, resolution_between};
use crate::compare::voices::Implementation;

/// One run against a run nearer to the hardware, on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Run nearer to the hardware.
    pub base: CostRun,
    /// Run farther from the hardware.
    pub other: CostRun,
    /// Problems with a time in both runs, the costliest first.
    pub problems: Vec<ProblemCost>,
    /// Single calls of the cases that have calls in both runs.
    pub calls: Vec<CallPair>,
}

/// One call of a case in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPair {
    /// Canonical string of the case.
    pub case: String,
    /// Call in the run nearer to the hardware.
    pub base: Call,
    /// Call in the other run.
    pub other: Call,
}

/// Calls of the other run against calls of the base, over cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallCost {
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// Number of cases.
    pub cases: usize,
    /// Median duration of a call in the base.
    pub base: Nanos,
    /// Median duration of a call in the other run.
    pub other: Nanos,
    /// Shares of the extra time: kernel, completion and readback.
    pub shares: [f64; 3],
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostRun {
    /// Name of the run.
    pub name: String,
    /// Route of the run.
    pub route: Route,
    /// [`Run::browser`](parallax_schema::record::Run::browser).
    pub browser: Option<String>,
}

impl CostRun {
    /// Returns the name of the run, with the properties of its route.
    pub fn title(&self) -> String {
        self.route.titled(&self.name)
    }
}

/// One problem in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ProblemCost {
    /// Canonical string without the variant.
    pub problem: String,
    /// Ratio of the same kernel; absent if no variant has a time in both. Of several variants, the fastest of the other run.
    pub same: Option<Against>,
    /// Ratio of the fastest variants; absent if the caches were in another state.
    pub best: Option<Against>,
}

/// One variant against another.
#[derive(Debug, Clone, PartialEq)]
pub struct Against {
    /// Variant of the base.
    pub base: String,
    /// Variant of the other run.
    pub other: String,
    /// Time over the base's time.
    pub ratio: Ratio,
}

impl Cost {
    /// Returns the name of the hardware of both targets: processor or GPU.
    pub fn hardware(&self) -> &'static str {
        if on_the_processor(&self.base.route.target) { "processor" } else { "GPU" }
    }

    /// Merges costs of the same two targets. A problem or call of several costs is taken from the first. `None` without costs.
    pub fn together(costs: impl IntoIterator<Item = Cost>) -> Option<Cost> {
        costs.into_iter().reduce(|mut all, cost| {
            let new = |problem: &ProblemCost| all.problems.iter().all(|known| known.problem != problem.problem);
            let further: Vec<ProblemCost> = cost.problems.into_iter().filter(new).collect();
            all.problems.extend(further);
            let new = |pair: &CallPair| all.calls.iter().all(|known| known.case != pair.case);
            let further: Vec<CallPair> = cost.calls.into_iter().filter(new).collect();
            all.calls.extend(further);
            all.sort();
            all
        })
    }

    /// Sorts the problems, the costliest first.
    fn sort(&mut self) {
        self.problems.sort_by(|a, b| b.largest().total_cmp(&a.largest()));
    }

    /// Returns the geometric mean of the same kernel's ratios and their number.
    pub fn same(&self) -> Option<(f64, usize)> {
        self.mean(|problem| problem.same.as_ref())
    }

    /// Returns the geometric mean of the ratios of the fastest variants and their number.
    pub fn best(&self) -> Option<(f64, usize)> {
        self.mean(|problem| problem.best.as_ref())
    }

    /// Number of problems with a ratio of fastest variants for which the base's fastest is the vendor library.
    pub fn by_library(&self) -> usize {
        let of_base = self.problems.iter().filter_map(|problem| problem.best.as_ref());
        of_base.filter(|against| Implementation::of(&against.base) == Implementation::Vendor).count()
    }

    /// Returns the cost of one call; `None` if no case has calls in both runs.
    pub fn call(&self) -> Option<CallCost> {
        self.call_of(|_| true)
    }

    /// Returns the cost of one call over the cases with the wanted strings.
    pub fn call_of(&self, wanted: impl Fn(&str) -> bool) -> Option<CallCost> {
        let calls: Vec<&CallPair> = self.calls.iter().filter(|pair| wanted(&pair.case)).collect();
        let wholes = || calls.iter().filter_map(|pair| Some((pair.base.whole()?.0, pair.other.whole()?.0)));
        let (ratio, cases) = geometric_mean(wholes().map(|(base, other)| other / base))?;
        let typical = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            Nanos(quantile(&times, 0.5))
        };
        let extra = |part: fn(&Call) -> Option<Nanos>| -> f64 {
            calls.iter().filter_map(|pair| Some(part(&pair.other)?.0 - part(&pair.base)?.0)).sum()
        };
        let parts = [extra(|call| Some(call.kernel)), extra(|call| call.completion), extra(|call| call.readback)];
        let whole: f64 = parts.iter().sum();
        Some(CallCost {
            ratio,
            cases,
            base: typical(wholes().map(|(base, _)| base).collect()),
            other: typical(wholes().map(|(_, other)| other).collect()),
            shares: parts.map(|part| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }),
        })
    }

    fn mean(&self, of: fn(&ProblemCost) -> Option<&Against>) -> Option<(f64, usize)> {
        geometric_mean(self.problems.iter().filter_map(of).map(|against| against.ratio.value))
    }
}

impl ProblemCost {
    /// Returns the larger of both ratios.
    fn largest(&self) -> f64 {
        [&self.same, &self.best].into_iter().flatten().map(|against| against.ratio.value).fold(0.0, f64::max)
    }
}

/// Returns the cost of `other` against `base`.
///
/// # Errors
/// Runs that are not two targets on one GPU, or without a common problem.
pub fn cost(base: &NamedRun, other: &NamedRun) -> Result<Cost, TaxError> {
    cost_on(base, other, false)
}

/// Returns the cost of `other` against `base`. `same_gpu` asserts that both ran on one GPU, if names do not show it.
///
/// # Errors
/// The errors of [`cost`].
pub fn cost_on(base: &NamedRun, other: &NamedRun, same_gpu: bool) -> Result<Cost, TaxError> {
    one_gpu(&[base, other], same_gpu)?;
    let (NamedRun { name: near_name, run: near }, NamedRun { run: far, .. }) = (base, other);
    let (resolution, drift) = (resolution_between(near, far), device_drift(near, far));
    let against = |a: &Record, b: &Record| {
        let ratio = judge((near, a), (far, b), resolution, drift)?;
        let usable = ratio.value.is_finite() && ratio.value > 0.0;
        let variant = |record: &Record| variant_of(&record.case).to_owned();
        usable.then(|| Against { base: variant(a), other: variant(b), ratio })
    };
    let timed_here = near.records.iter().filter(|record| record.timing().is_some());
    let names: BTreeSet<&str> = timed_here.map(|record| problem_of(&record.case)).collect();
    let one = |problem: &str| {
        let cache = |record: &Record| record.timing().map(|timing| timing.cache);
        let on_both = as_asked(far, problem).filter_map(|record| {
            let partner = timed(near, &record.case).filter(|partner| partner.actual.is_none())?;
            Some((record.timing()?.summary.median.0, against(partner, record)?))
        });
        let same = on_both.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, against)| against);
        // A run keeps caches in one state from its first case to its last. Any timed case of the problem therefore gives the state
        // for the comparison of the fastest variants.
        let state = near.records.iter().filter(|record| problem_of(&record.case) == problem).find_map(cache);
        let best = |run| fastest(run, problem, |record| cache(record) == state);
        let best = best(near).zip(best(far)).and_then(|(a, b)| against(a, b));
        (same.is_some() || best.is_some()).then(|| ProblemCost { problem: problem.to_owned(), same, best })
    };
    let problems: Vec<ProblemCost> = names.into_iter().filter_map(one).collect();
    if problems.is_empty() {
        return Err(TaxError::NothingInCommon(near_name.clone()));
    }
    let of =
        |NamedRun { name, run }: &NamedRun| CostRun { name: name.clone(), route: run.route(), browser: run.browser() };
    let call = |record: &Record| {
        let partner = timed(far, &record.case).filter(|partner| {
            let cache = |record: &Record| record.timing().map(|timing| timing.cache);
            cache(partner) == cache(record)
        })?;
        let (base, other) = (Call::of(near, record)?, Call::of(far, partner)?);
        (base.whole().is_some() && other.whole().is_some()).then(|| CallPair { case: record.case.clone(), base, other })
    };
    let calls = near.records.iter().filter_map(call).collect();
    let mut cost = Cost { base: of(base), other: of(other), problems, calls };
    cost.sort();
    Ok(cost)
}

/// Returns the cost of each run against the run on its GPU that is nearest to the hardware. Of several such runs, the one with the
/// most problems in common. Kernels with checks or faster arithmetic are farther than those without.
pub fn costs(runs: &[NamedRun]) -> Vec<Cost> {
    let away = |NamedRun { run, .. }: &NamedRun| (distance(&run.target), !run.compiled_as_usual());
    let against = |far: &NamedRun| {
        let nearer = runs.iter().filter(|near| away(near) < away(far));
        let found = nearer.filter_map(|near| Some((away(near), cost(near, far).ok()?)));
        found.min_by_key(|(away, cost)| (*away, Reverse(cost.problems.len()))).map(|(_, cost)| cost)
    };
    runs.iter().filter_map(against).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::Outcome;
    use parallax_schema::testing::{run, spread};

    /// Returns a named run of cases, each with a median.
    fn named(target: &str, device: &str, cases: &[(&str, f64)]) -> NamedRun {
        let cases: Vec<_> = cases.iter().map(|(case, median)| (*case, spread(*median, 0.002, 40))).collect();
        NamedRun::new(target, run(target, device, &cases))
    }

    const TILED: &str = "matmul/fwd/m8,n8,k8/f32/tiled";
    const NAIVE: &str = "matmul/fwd/m8,n8,k8/f32/naive";
    const VENDOR: &str = "matmul/fwd/m8,n8,k8/f32/vendor";
    const COPY: &str = "copy/fwd/n64/f32/vec4";

    #[test]
    fn a_processor_is_no_gpu() {
        let hardware = |near: &str, far: &str| {
            let [near, far] = [near, far].map(|target| named(target, "X", &[(TILED, 100.0)]));
            cost(&near, &far).expect("one device").hardware()
        };
        assert_eq!((hardware("cpu", "wasm"), hardware("cuda", "browser")), ("processor", "GPU"));
    }

    #[test]
    fn a_problem_has_the_same_kernel_and_the_best_of_each() {
        let near = named("cuda", "NVIDIA H200", &[(TILED, 100.0), (NAIVE, 400.0), (VENDOR, 50.0), (COPY, 10.0)]);
        let far = named("browser", "h200", &[(TILED, 150.0), (NAIVE, 800.0), (COPY, 40.0)]);
        let cost = cost(&near, &far).expect("one GPU");
        let names: Vec<&str> = cost.problems.iter().map(|problem| problem.problem.as_str()).collect();
        assert_eq!(names, ["copy/fwd/n64/f32", "matmul/fwd/m8,n8,k8/f32"], "the costliest first");
        let matmul = &cost.problems[1];
        let (same, best) = (matmul.same.as_ref().expect("tiled"), matmul.best.as_ref().expect("a fastest of each"));
        assert_eq!((same.base.as_str(), same.other.as_str()), ("tiled", "tiled"), "the fastest there");
        assert!((same.ratio.value - 1.5).abs() < 0.01, "{}", same.ratio.value);
        assert_eq!((best.base.as_str(), best.other.as_str()), ("vendor", "tiled"));
        assert!((best.ratio.value - 3.0).abs() < 0.02, "{}", best.ratio.value);
        let (mean, count) = cost.same().expect("two");
        assert!((mean - 6f64.sqrt()).abs() < 0.02 && count == 2, "{mean} of {count}");
        assert!((cost.best().expect("two").0 - 12f64.sqrt()).abs() < 0.05);
    }

    #[test]
    fn a_case_without_a_time_hides_no_best() {
        let mut near = named("cuda", "NVIDIA H200", &[(TILED, 100.0)]);
        let mut skipped = near.run.records[0].clone();
        skipped.case = VENDOR.to_owned();
        skipped.outcome = Outcome::Skipped { reason: "not here".to_owned() };
        near.run.records.insert(0, skipped);
        let cost = cost(&near, &named("browser", "h200", &[(TILED, 150.0)])).expect("one GPU");
        assert!(cost.problems[0].best.is_some(), "{:?}", cost.problems);
    }

    #[test]
    fn of_several_pairs_of_runs_a_problem_counts_once() {
        let of = |tiled: f64, copy: Option<f64>| {
            let cases: Vec<_> = [(TILED, 100.0)].into_iter().chain(copy.map(|_| (COPY, 10.0))).collect();
            let near = named("cuda", "NVIDIA H200", &cases);
            let cases: Vec<_> = [(TILED, tiled)].into_iter().chain(copy.map(|time| (COPY, time))).collect();
            cost(&near, &named("browser", "NVIDIA H200", &cases)).expect("one GPU")
        };
        let all = Cost::together([of(150.0, None), of(900.0, Some(50.0))]).expect("two");
        let ratios: Vec<f64> = all.problems.iter().map(|p| p.largest().round()).collect();
        assert_eq!(ratios, [5.0, 2.0], "matmul is the first pair's, and the costliest stands first");
        assert_eq!(Cost::together([]), None);
    }

    #[test]
    fn each_run_is_held_against_the_nearest_on_its_gpu() {
        let runs = [
            named("browser", "h200", &[(TILED, 150.0)]),
            named("wgpu", "NVIDIA H200", &[(TILED, 120.0)]),
            named("cuda", "NVIDIA H200", &[(TILED, 100.0)]),
            named("cpu", "a processor", &[(TILED, 900.0)]),
        ];
        let pairs = |runs: &[NamedRun]| {
            costs(runs).iter().map(|c| format!("{} {}", c.other.name, c.base.name)).collect::<Vec<_>>()
        };
        assert_eq!(pairs(&runs), ["browser cuda", "wgpu cuda"]);
        assert_eq!(pairs(&runs[..2]), ["browser wgpu"]);
        assert_eq!(pairs(&runs[2..]), [""; 0], "one alone on each");
        let page = named("wasm", "a processor", &[(TILED, 1200.0)]);
        assert_eq!(pairs(&[page, runs[3].clone()]), ["wasm cpu"], "the browser's cost on the processor");
    }

    #[test]
    fn other_cards_and_runs_with_nothing_in_common_are_refused() {
        let near = named("cuda", "NVIDIA H200", &[(TILED, 100.0)]);
        let other = cost(&near, &named("browser", "Apple M4", &[(TILED, 100.0)]));
        assert!(matches!(other, Err(TaxError::DifferentGpus { .. })), "{other:?}");
        let nothing = cost(&near, &named("browser", "NVIDIA H200", &[(COPY, 100.0)]));
        assert!(matches!(nothing, Err(TaxError::NothingInCommon(_))), "{nothing:?}");
    }
}
