//! Fastest version of each target, per problem.

use parallax_analysis::Family;
use parallax_analysis::compare::verdict::digits;
use parallax_analysis::compare::{Against, Cost, MeanRatio, ProblemCost, fastest};
use parallax_schema::case::{by_case, problem_of, variant_of};
use parallax_schema::catalog::Catalog;
use parallax_schema::record::Record;
use parallax_schema::units::counted;

use super::devices::{Kept, OnDevice};
use crate::html::short;
use crate::{Cell, Column, Rank, Table, judged, named, route_name};

/// Problems of a family.
pub(super) struct Problems {
    /// Number of problems, and the mean cost of each target.
    pub sentence: String,
    /// Table with a row per problem: the fastest time of each target with its variant, and the ratios to the nearest target.
    pub table: Table,
}

/// Returns the problems of a family on a device.
pub(super) fn problems(catalog: &dyn Catalog, device: &OnDevice<'_>, family: Family) -> Problems {
    let views = device.views();
    let costs = device.costs();
    let name = |kept: &Kept<'_>| route_name(&kept.run.route());
    let mut names: Vec<&str> = timed(device).filter(|problem| Family::of(problem) == family).collect();
    names.sort_by(|a, b| by_case(a, b));
    names.dedup();
    let mut columns = vec![Column::text("problem")];
    columns.extend(views.iter().map(|view| Column::figure(&name(view), Rank::Useful)));
    columns.extend(costs.iter().map(|cost| {
        let (base, other) = super::front::names(cost);
        Column::figure(&format!("{other} ÷ {base}"), Rank::Essential)
    }));
    let row = |problem: &&str| {
        let times = views.iter().map(|view| {
            let route = view.run.route();
            let mut runs = device.through(&route);
            time(runs.find_map(|kept| fastest(kept.run, problem, |_| true)))
        });
        let ratios = costs.iter().map(|cost| ratio(best(cost, problem)));
        std::iter::once(named(catalog, problem)).chain(times).chain(ratios).collect()
    };
    let table = Table { columns, rows: names.iter().map(row).collect(), ..Table::default() };
    Problems { sentence: sentence(names.len(), &costs, family), table }
}

/// Returns every problem with a time on the device.
fn timed<'r>(device: &OnDevice<'r>) -> impl Iterator<Item = &'r str> {
    let records = device.runs.iter().flat_map(|kept| kept.run.records.iter());
    records.filter(|record| record.timing().is_some()).map(|record| problem_of(&record.case))
}

/// Returns the fastest version of both sides of a cost.
fn best<'c>(cost: &'c Cost, problem: &str) -> Option<&'c Against> {
    cost.problems.iter().find(|known| known.problem == problem)?.best.as_ref()
}

fn dash() -> Cell {
    "–".into()
}

fn time(record: Option<&Record>) -> Cell {
    let cell =
        |record: &Record| Some(Cell::from(record.timing()?.summary.median.to_string()).with(variant_of(&record.case)));
    record.and_then(cell).unwrap_or_else(dash)
}

fn ratio(against: Option<&Against>) -> Cell {
    let cell = |against: &Against| {
        let ratio = &against.ratio;
        let interval = ratio.low.zip(ratio.high).map(|(low, high)| format!("[{}, {}]", digits(low), digits(high)));
        let cell =
            Cell { tone: judged(ratio).tone, ..format!("{} {}", short(ratio.value), ratio.verdict.name()).into() };
        interval.map_or(cell.clone(), |interval| cell.with(interval))
    };
    against.map_or_else(dash, cell)
}

/// Returns the number of problems, and the mean ratio of each target's fastest version.
fn sentence(problems: usize, costs: &[Cost], family: Family) -> String {
    let of_family = |problem: &&ProblemCost| Family::of(&problem.problem) == family;
    let mean = |cost: &Cost| {
        let ratios = cost.problems.iter().filter(of_family).filter_map(|problem| problem.best.as_ref());
        let mean = MeanRatio::of(ratios.map(|against| &against.ratio))?;
        let (base, other) = super::front::names(cost);
        Some(format!("{other} {} the time of {base}", short(mean.value)))
    };
    let count = counted(problems, "problem");
    std::iter::once(count).chain(costs.iter().filter_map(mean)).collect::<Vec<_>>().join("; ")
}
