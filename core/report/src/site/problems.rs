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
    /// Table with a row per problem: the fastest time of the nearest target, and the ratio of each other target to it.
    pub table: Table,
}

/// Returns the problems of a family on a device.
pub(super) fn problems(catalog: &dyn Catalog, device: &OnDevice<'_>, family: Family) -> Problems {
    let mut names: Vec<&str> = timed(device).filter(|problem| Family::of(problem) == family).collect();
    names.sort_by(|a, b| by_case(a, b));
    names.dedup();
    let views: Vec<(&Kept<'_>, Option<Cost>)> =
        device.views().into_iter().map(|kept| (kept, device.cost_of(&kept.run.route()))).collect();
    let costs: Vec<&Cost> = views.iter().filter_map(|(_, cost)| cost.as_ref()).collect();
    let mut columns = vec![Column::text("problem")];
    columns.extend(views.iter().map(|(view, cost)| match cost {
        None => Column::figure(&route_name(&view.run.route()), Rank::Essential),
        Some(cost) => {
            let (base, other) = super::front::names(cost);
            Column::figure(&format!("{other} ÷ {base}"), Rank::Essential)
        }
    }));
    let row = |problem: &&str| {
        let cells = views.iter().map(|(view, cost)| {
            let route = view.run.route();
            let record = device.through(&route).find_map(|kept| fastest(kept.run, problem, |_| true));
            match cost {
                None => time(record),
                Some(cost) => ratio(best(cost, problem), record),
            }
        });
        std::iter::once(named(catalog, problem)).chain(cells).collect()
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

/// Returns the median time of a record, and below it its variant.
fn time(record: Option<&Record>) -> Cell {
    let cell =
        |record: &Record| Some(Cell::from(record.timing()?.summary.median.to_string()).with(variant_of(&record.case)));
    record.and_then(cell).unwrap_or_else(dash)
}

/// Returns a ratio with its verdict; below it the interval, the time and the variant.
fn ratio(against: Option<&Against>, record: Option<&Record>) -> Cell {
    let cell = |against: &Against| {
        let ratio = &against.ratio;
        let interval = ratio.low.zip(ratio.high).map(|(low, high)| format!("[{}, {}]", digits(low), digits(high)));
        let text = format!("{} {}", short(ratio.value), ratio.verdict.name());
        (Cell { tone: judged(ratio).tone, ..text.into() }, interval)
    };
    let (cell, interval) = against.map_or_else(|| (dash(), None), cell);
    let time =
        record.and_then(|record| Some(format!("{}, {}", record.timing()?.summary.median, variant_of(&record.case))));
    let more: Vec<String> = interval.into_iter().chain(time).collect();
    if more.is_empty() { cell } else { cell.with(more.join("; ")) }
}

/// Returns the number of problems, and the mean ratio of each target's fastest version to that of the nearest target.
fn sentence(problems: usize, costs: &[&Cost], family: Family) -> String {
    let of_family = |problem: &&ProblemCost| Family::of(&problem.problem) == family;
    let mean = |cost: &Cost| {
        let ratios = cost.problems.iter().filter(of_family).filter_map(|problem| problem.best.as_ref());
        let mean = MeanRatio::of(ratios.map(|against| &against.ratio))?;
        Some(format!("{} {}", super::front::names(cost).1, short(mean.value)))
    };
    let means: Vec<String> = costs.iter().copied().filter_map(mean).collect();
    let count = counted(problems, "problem");
    match costs.first().filter(|_| !means.is_empty()) {
        Some(cost) => format!("{count}; times over {}'s: {}", super::front::names(cost).0, means.join(", ")),
        None => count,
    }
}
