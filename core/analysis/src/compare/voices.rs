//! One problem in all its implementations on one GPU: our WGSL, our CUDA, one source for both, the vendor library.
//!
//! The table shows the overhead of one source: kernels from CubeCL's compilers against the fastest hand-written kernel for the same
//! target. Both sides of that ratio ran on the same target, by the same engine. All other ratios of a problem are over its fastest
//! hand-written CUDA kernel, or over WGSL if no run has CUDA.

use std::collections::{BTreeMap, BTreeSet};

use parallax_schema::case::{CUBE_VARIANT, CUBEK_VARIANT, of_cubecl, problem_of, variant_of, workload_of};
use parallax_schema::device::Dialect;
use parallax_schema::record::{NamedRun, Record, Run};
use parallax_schema::units::Nanos;

use crate::compare::compare::{device_drift, judge};
use crate::compare::families::MeanRatio;
use crate::compare::one_gpu::{TaxError, away, one_gpu};
use crate::compare::pairing::fastest;
use crate::compare::verdict::{Ratio, resolution_between};

/// Origin of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Implementation {
    /// Our kernel source, in the target's dialect.
    Hand,
    /// Our single source in CubeCL.
    Cube,
    /// Kernel in CubeCL from CubeK.
    CubeK,
    /// Vendor library.
    Vendor,
}

impl Implementation {
    /// Returns the implementation of a variant.
    pub fn of(variant: &str) -> Implementation {
        match variant {
            CUBE_VARIANT => Implementation::Cube,
            CUBEK_VARIANT => Implementation::CubeK,
            _ if variant.starts_with("vendor") => Implementation::Vendor,
            _ => Implementation::Hand,
        }
    }
}

/// Column of the table: an implementation in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct ImplementationColumn {
    /// Position of the run.
    pub run: usize,
    /// Implementation of the column.
    pub voice: Implementation,
    /// Title of the column in tables.
    pub title: String,
}

/// Fastest variant of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The variant.
    pub variant: String,
    /// Median of the variant.
    pub time: Nanos,
    /// Ratio over the problem's base; absent for the base itself.
    pub ratio: Option<Ratio>,
}

/// One problem in every column.
#[derive(Debug, Clone, PartialEq)]
pub struct ImplementationRow {
    /// Canonical string without the variant.
    pub problem: String,
    /// Fastest variant per column; absent if a run has no such time.
    pub said: Vec<Option<Best>>,
    /// Ratio of one source over our own kernel source on the same target, for each run.
    pub price: Vec<Option<Ratio>>,
}

/// Overhead of one source over the problems of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Overhead {
    /// Workload; absent for the mean over all workloads.
    pub workload: Option<String>,
    /// Mean ratio of each run.
    pub means: Vec<Option<MeanRatio>>,
}

/// Runs of one GPU by implementation.
#[derive(Debug, Clone, PartialEq)]
pub struct ImplementationTable {
    /// Names of the runs, nearest to the hardware first.
    pub runs: Vec<String>,
    /// Columns: our kernel sources of each run, then one source on each (ours, then CubeK's), then the vendor library.
    pub columns: Vec<ImplementationColumn>,
    /// Problems that one source computes in some run, by name.
    pub problems: Vec<ImplementationRow>,
    /// Overheads by workload, the one over all workloads last.
    pub prices: Vec<Overhead>,
}

/// Compares the implementations in the runs of one GPU. `same_gpu` asserts an identity that names do not show.
///
/// # Errors
/// Runs of several GPUs, or no run with a time of one source.
pub fn voices(runs: &[NamedRun], same_gpu: bool) -> Result<ImplementationTable, TaxError> {
    if let [_, _, ..] = runs {
        one_gpu(&runs.iter().collect::<Vec<_>>(), same_gpu)?;
    }
    let mut runs: Vec<&NamedRun> = runs.iter().collect();
    runs.sort_by_key(|run| away(&run.run));
    let against = |(a, of_a): (usize, &Record), (b, of_b): (usize, &Record)| {
        let (run_a, run_b) = (&runs[a].run, &runs[b].run);
        let (finest, drift) = (resolution_between(run_a, run_b), device_drift(run_a, run_b));
        let ratio = judge((run_a, of_a), (run_b, of_b), finest, drift)?;
        (ratio.value.is_finite() && ratio.value > 0.0).then_some(ratio)
    };
    let best = |run: usize, voice: Implementation, problem: &str| {
        fastest(&runs[run].run, problem, |record| Implementation::of(variant_of(&record.case)) == voice)
    };
    let of_voice = |voice: Implementation| (0..runs.len()).map(move |run| (run, voice));
    let all: Vec<(usize, Implementation)> =
        [Implementation::Hand, Implementation::Cube, Implementation::CubeK, Implementation::Vendor]
            .into_iter()
            .flat_map(of_voice)
            .collect();
    let told =
        runs.iter().flat_map(|NamedRun { run, .. }| run.records.iter()).filter(|record| record.timing().is_some());
    let spoken = told.filter(|record| of_cubecl(variant_of(&record.case)));
    let names: BTreeSet<&str> = spoken.map(|record| problem_of(&record.case)).collect();
    if names.is_empty() {
        return Err(TaxError::NoOneSource);
    }
    let one = |problem: &str| {
        let found: Vec<Option<&Record>> = all.iter().map(|(run, voice)| best(*run, *voice, problem)).collect();
        // The base is the hand-written kernel nearest to the hardware.
        let base = found.iter().position(Option::is_some)?;
        let said = |(i, record): (usize, &Option<&Record>)| {
            let record = (*record)?;
            let ratio = (i != base).then(|| against((all[base].0, found[base]?), (all[i].0, record))).flatten();
            Some(Best { variant: variant_of(&record.case).to_owned(), time: record.timing()?.summary.median, ratio })
        };
        let price = |run: usize| {
            let of = |voice| best(run, voice, problem);
            of(Implementation::Hand)
                .zip(of(Implementation::Cube))
                .and_then(|(hand, cube)| against((run, hand), (run, cube)))
        };
        Some(ImplementationRow {
            problem: problem.to_owned(),
            said: found.iter().enumerate().map(said).collect(),
            price: (0..runs.len()).map(price).collect(),
        })
    };
    let mut problems: Vec<ImplementationRow> = names.into_iter().filter_map(one).collect();
    let prices = prices(&problems, runs.len());
    // Columns without an entry are omitted.
    let kept: Vec<usize> =
        (0..all.len()).filter(|i| problems.iter().any(|problem| problem.said[*i].is_some())).collect();
    for problem in &mut problems {
        problem.said = kept.iter().map(|i| problem.said[*i].take()).collect();
    }
    let columns = kept.iter().map(|i| {
        let (run, voice) = all[*i];
        ImplementationColumn { run, voice, title: title(&runs[run].run, voice) }
    });
    let columns = columns.collect();
    Ok(ImplementationTable {
        runs: runs.iter().map(|NamedRun { name, run }| run.route().titled(name)).collect(),
        columns,
        problems,
        prices,
    })
}

/// Returns the mean overheads of each workload, then of all.
fn prices(problems: &[ImplementationRow], runs: usize) -> Vec<Overhead> {
    let mut members: BTreeMap<&str, Vec<&ImplementationRow>> = BTreeMap::new();
    for problem in problems {
        members.entry(workload_of(&problem.problem)).or_default().push(problem);
    }
    let means = |of: &[&ImplementationRow]| -> Vec<Option<MeanRatio>> {
        (0..runs).map(|run| MeanRatio::of(of.iter().filter_map(|problem| problem.price[run].as_ref()))).collect()
    };
    let one = |(workload, of): (&&str, &Vec<&ImplementationRow>)| Overhead {
        workload: Some((*workload).to_owned()),
        means: means(of),
    };
    let mut prices: Vec<Overhead> = members.iter().map(one).collect();
    prices.retain(|price| price.means.iter().any(Option::is_some));
    prices.push(Overhead { workload: None, means: means(&problems.iter().collect::<Vec<_>>()) });
    prices
}

/// Returns the title of an implementation on the target of a run.
fn title(run: &Run, voice: Implementation) -> String {
    let on = run.way();
    match (voice, run.device().caps.dialect) {
        (Implementation::Hand, Dialect::Cuda) => "CUDA".to_owned(),
        (Implementation::Hand, Dialect::Wgsl) => format!("WGSL on {on}"),
        (Implementation::Hand, Dialect::Vendor | Dialect::Cpu) => on,
        (Implementation::Cube, _) => format!("cube on {on}"),
        (Implementation::CubeK, _) => format!("cubek on {on}"),
        (Implementation::Vendor, _) => "vendor".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::{run, spread};

    fn named(target: &str, cases: &[(&str, f64)]) -> NamedRun {
        let cases: Vec<_> = cases.iter().map(|(case, median)| (*case, spread(*median, 0.002, 40))).collect();
        let mut run = run(target, "NVIDIA H200", &cases);
        run.devices[0].caps.dialect = if target == "cuda" { Dialect::Cuda } else { Dialect::Wgsl };
        NamedRun::new(target, run)
    }

    #[test]
    fn one_source_is_held_against_the_fastest_by_hand_on_the_same_target() {
        let runs = [
            named(
                "wgpu",
                &[
                    ("matmul/fwd/m8,n8,k8/f32/naive", 900.0),
                    ("matmul/fwd/m8,n8,k8/f32/tiled", 200.0),
                    ("matmul/fwd/m8,n8,k8/f32/cube", 300.0),
                    ("copy/fwd/n64/f32/cube", 50.0),
                    ("copy/fwd/n64/f32/vec4", 50.0),
                ],
            ),
            named(
                "cuda",
                &[
                    ("matmul/fwd/m8,n8,k8/f32/tiled", 100.0),
                    ("matmul/fwd/m8,n8,k8/f32/vendor", 50.0),
                    ("matmul/fwd/m8,n8,k8/f32/cube", 400.0),
                    ("conv2d/fwd/n1,c8,h8,k3,p1,nhwc/f32/winograd", 20.0),
                    ("conv2d/fwd/n1,c8,h8,k3,p1,nhwc/f32/cubek", 60.0),
                    ("softmax/fwd/r4,c4/f32/row", 10.0),
                ],
            ),
            named("browser", &[("matmul/fwd/m8,n8,k8/f32/tiled", 250.0), ("matmul/fwd/m8,n8,k8/f32/cube", 500.0)]),
        ];
        let found = voices(&runs, false).expect("one GPU");
        let titles: Vec<&str> = found.columns.iter().map(|column| column.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "CUDA",
                "WGSL on wgpu",
                "WGSL on browser",
                "cube on cuda",
                "cube on wgpu",
                "cube on browser",
                "cubek on cuda",
                "vendor"
            ]
        );
        let names: Vec<&str> = found.problems.iter().map(|problem| problem.problem.as_str()).collect();
        let conv = "conv2d/fwd/n1,c8,h8,k3,p1,nhwc/f32";
        assert_eq!(names, [conv, "copy/fwd/n64/f32", "matmul/fwd/m8,n8,k8/f32"], "cases of one source");
        let near =
            |ratio: &Option<Ratio>, want: f64| ratio.as_ref().is_some_and(|r| (r.value / want - 1.0).abs() < 0.02);
        // CubeK's kernels stand in the table, but are no part of the overhead of our one source.
        assert!(found.problems[0].said.iter().flatten().map(|said| said.variant.as_str()).eq(["winograd", "cubek"]));
        assert_eq!(found.problems[0].price, [const { None }; 3]);
        let matmul = &found.problems[2];
        let said: Vec<&Best> = matmul.said.iter().flatten().collect();
        assert_eq!(
            said.iter().map(|said| said.variant.as_str()).collect::<Vec<_>>(),
            ["tiled", "tiled", "tiled", "cube", "cube", "cube", "vendor"]
        );
        assert_eq!(said[0].ratio, None, "the base itself");
        for (said, want) in said[1..].iter().zip([2.0, 2.5, 4.0, 3.0, 5.0, 0.5]) {
            assert!(near(&said.ratio, want), "{said:?}");
        }
        assert!(
            near(&matmul.price[0], 4.0) && near(&matmul.price[1], 1.5) && near(&matmul.price[2], 2.0),
            "{:?}",
            matmul.price
        );
        let all = found.prices.last().expect("of all");
        let mean = all.means[1].expect("two problems");
        assert!(all.workload.is_none() && mean.problems == 2 && (mean.value - 1.5f64.sqrt()).abs() < 0.02, "{mean:?}");
        assert_eq!(all.means[0].map(|mean| mean.problems), Some(1));
    }

    #[test]
    fn of_variants_that_a_run_did_not_come_to_there_is_no_fastest() {
        let cases = [("copy/fwd/n64/f32/scalar", 90.0), ("copy/fwd/n64/f32/cube", 50.0)];
        let mut cut = named("browser", &cases);
        cut.run.planned.push("copy/fwd/n64/f32/vec4".to_owned());
        let whole = named("wgpu", &cases);
        let found = voices(&[whole, cut.clone()], true).expect("one GPU");
        let titles: Vec<&str> = found.columns.iter().map(|column| column.title.as_str()).collect();
        assert_eq!(titles, ["WGSL on wgpu", "cube on wgpu"], "nothing of the run that was cut");
        assert!(voices(&[cut], false).expect("a time of one source").problems.is_empty());
    }

    #[test]
    fn without_one_source_there_is_nothing_to_tell() {
        let runs = [named("cuda", &[("copy/fwd/n64/f32/vec4", 50.0)])];
        assert!(voices(&runs, false).is_err());
    }

    #[test]
    fn a_browser_that_hides_its_gpu_is_believed_when_somebody_vouches() {
        let case = [("copy/fwd/n64/f32/cube", 50.0)];
        let mut runs = [named("wgpu", &case), named("browser", &case)];
        runs[1].run.devices[0].name = "a device".to_owned();
        assert!(matches!(voices(&runs, false), Err(TaxError::DifferentGpus { .. })));
        assert_eq!(voices(&runs, true).expect("vouched for").columns.len(), 2);
    }
}
