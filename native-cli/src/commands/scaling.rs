//! Scaling tables of workloads: measurement on the host beside the device, and output.

use parallax_analysis::compare;
use parallax_ir::{Scaling, Workload};
use parallax_report as report;
use parallax_schema::case::{CPU_VARIANT, problem_of};
use parallax_schema::catalog::Sides;
use parallax_schema::record::{NamedRun, Run};
use parallax_schema::session::Mode;
use parallax_schema::spec::{Cache, Spec};
use parallax_workloads::Registry;

use crate::args::Common;
use crate::commands::measuring::{Measured, each_target, show};
use crate::console::{Painted, width};
use crate::interrupts::interrupted;
use crate::output::{Finished, Output};
use crate::{table, targets};

/// Target of the host's code.
const HOST: &str = "cpu";

/// Measures the host's code for a workload with a host-and-device scaling, on the problems of the device's runs. Skips
/// the measurement if the host was a target already. Also skips it with a cold cache, which the host's code does not
/// support.
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
    // Each case gets the same time as on the device.
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

/// Returns the host's cases for the problems along a scaling that any run contains.
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

/// Returns the tables of runs, with the reason for a missing device if it is to be shown.
pub fn tables(runs: &[Run], no_device: Option<&str>) -> Painted {
    let named: Vec<NamedRun> = runs.iter().map(|run| NamedRun::new(run.target.clone(), run.clone())).collect();
    of_named(&named, no_device)
}

/// Returns the tables of runs with names of their own.
pub fn of_named(runs: &[NamedRun], no_device: Option<&str>) -> Painted {
    let along = compare::scaled(&Registry, runs, no_device);
    let over_gpus = compare::over_gpus(&Registry, runs);
    let tables = along.iter().map(report::scaling_table).chain(over_gpus.iter().map(report::gpus_table));
    table::below_each_other(tables.map(|made| table::text(&made, width())))
}

/// Shows the tables, if any, below the previous output.
pub fn tell(common: &Common, runs: &[Run], no_device: Option<&str>) {
    let tables = tables(runs, no_device);
    if !tables.is_empty() {
        show(common, &Painted::default().above(&tables));
    }
}

/// Returns the reason for the absence of a device, if all runs are of the host.
pub fn no_device(common: &Common, runs: &[Run]) -> Option<String> {
    if runs.iter().any(|run| run.target != HOST) {
        return None;
    }
    Some(match &common.target {
        Some(target) if target == HOST => "the target is `cpu` already".to_owned(),
        _ => targets::no_device(&common.device).join("; "),
    })
}
