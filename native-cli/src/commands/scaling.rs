//! Times along the axes that workloads have a table for: measured beside the device on the host, and shown.

use parallax_core::measure::runner::Mode;
use parallax_core::plan::{Cache, Spec};
use parallax_core::record::Run;
use parallax_core::suite::{CPU_VARIANT, Scaling, Sides, Workload, problem_of};
use parallax_core::{compare, report};

use crate::args::Common;
use crate::commands::measuring::{Measured, each_target, show};
use crate::console::{Painted, width};
use crate::interrupts::interrupted;
use crate::output::{Finished, Output};
use crate::{table, targets};

/// The target of the host's code.
const HOST: &str = "cpu";

/// Measure the host's code where a workload is held against it, on the problems that the device had. Nothing where the host was a
/// target anyway, and where executions go around more data than caches hold, which the host's code cannot.
pub fn beside_the_host(
    common: &Common,
    spec: &Spec,
    workload: &Workload,
    runs: &[Run],
    done: impl FnMut(&Finished),
) -> anyhow::Result<Measured> {
    let Some((_, scaling)) = workload.scaling().filter(|_| spec.scaling == Some(true)) else {
        return Ok(Measured::default());
    };
    let case = of_host(workload, scaling, runs);
    if case.is_empty() || spec.cache == Cache::Cold || runs.iter().any(|run| run.target == HOST) || interrupted() {
        return Ok(Measured::default());
    }
    // As long for each case as the device had.
    let cases = runs.iter().map(|run| run.planned.len()).max().unwrap_or(1).max(1);
    let spec = Spec {
        seed: spec.seed,
        budget: spec.budget * case.len() as f64 / cases as f64,
        precision: spec.precision,
        schedule: spec.schedule,
        case,
        ..Spec::default()
    };
    let common = Common { target: Some(HOST.to_owned()), ..common.clone() };
    each_target(&common, &spec, Mode::Measure, &Output::of(&common), done)
}

/// The host's cases of the problems along a scaling that any run has.
fn of_host(workload: &Workload, scaling: &Scaling, runs: &[Run]) -> Vec<String> {
    if !matches!(scaling.sides, Sides::HostAndDevice { .. }) {
        return Vec::new();
    }
    let planned = |problem: &str| {
        let of_it = |case: &String| problem_of(case) == problem;
        runs.iter().flat_map(|run| &run.planned).any(of_it)
    };
    let problems = workload.forms.iter().flat_map(|form| {
        scaling.shapes.iter().map(move |shape| format!("{}/{}/{shape}/f32", workload.name, form.direction.name()))
    });
    problems.filter(|problem| planned(problem)).map(|problem| format!("{problem}/{CPU_VARIANT}")).collect()
}

/// The tables of runs; with why there is no device where it should be told.
pub fn tables(runs: &[Run], no_device: Option<&str>) -> Painted {
    let named: Vec<(String, Run)> = runs.iter().map(|run| (run.target.clone(), run.clone())).collect();
    of_named(&named, no_device)
}

/// The same of runs with names of their own.
pub fn of_named(runs: &[(String, Run)], no_device: Option<&str>) -> Painted {
    let scaled = compare::scaled(runs, no_device);
    table::below_each_other(scaled.iter().map(|scaled| table::text(&report::scaling_table(scaled), width())))
}

/// Show the tables, if there are any, below what stands there.
pub fn tell(common: &Common, runs: &[Run], no_device: Option<&str>) {
    let tables = tables(runs, no_device);
    if !tables.is_empty() {
        show(common, &Painted::default().above(&tables));
    }
}

/// Why no device stands beside the host's code, where none of the runs is of one.
pub fn no_device(common: &Common, runs: &[Run]) -> Option<String> {
    if runs.iter().any(|run| run.target != HOST) {
        return None;
    }
    Some(match &common.target {
        Some(target) if target == HOST => "the target that was asked for is `cpu`".to_owned(),
        _ => targets::no_device(&common.device).join("; "),
    })
}
