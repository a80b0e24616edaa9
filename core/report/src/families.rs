//! Tables of mean ratios by workload.

use parallax_analysis::Family;
use parallax_analysis::compare::{Against, Comparison, Cost, MeanRatio, ProblemCost, WorkloadRow};
use parallax_schema::record::way;

use super::html::short;
use super::{Cell, Column, Rank, Table};
use crate::cost_answer;

/// Explanation of the figures.
const NOTE: &str = "typical values (geometric means over problems) with 95 % intervals; other problems may differ more";

/// Returns a mean with its interval, and the number of its ratios.
pub(super) fn cells(mean: Option<MeanRatio>) -> [Cell; 2] {
    let bare = |ratio: f64| short(ratio).trim_end_matches('×').to_owned();
    let Some(MeanRatio { value, interval, problems }) = mean else { return ["–".into(), "0".into()] };
    let interval = interval.map(|(low, high)| format!(" [{}, {}]", bare(low), bare(high))).unwrap_or_default();
    [format!("{}{interval}", short(value)).into(), problems.to_string().into()]
}

fn figure(title: &str) -> Column {
    Column::figure(title, Rank::Essential)
}

/// Returns the cost of a target, one line per workload.
pub fn cost_by_workload(cost: &Cost) -> Table {
    let families = cost.by_workload().into_iter();
    Table {
        columns: vec![
            Column::text("workload"),
            figure("the same kernel"),
            figure("problems"),
            figure("the fastest of each"),
            figure("problems"),
        ],
        rows: families
            .map(|family| {
                let name = std::iter::once(family.workload.as_str().into());
                name.chain(cells(family.same)).chain(cells(family.best)).collect()
            })
            .collect(),
        notes: vec![NOTE.to_owned()],
        ..Table::default()
    }
}

/// Returns the answer and the cost of a target, one line per family of workloads.
pub fn cost_by_family(cost: &Cost) -> Table {
    let row = |family: Family| {
        let problems: Vec<&ProblemCost> =
            cost.problems.iter().filter(|problem| Family::of(&problem.problem) == family).collect();
        let mean = |of: fn(&ProblemCost) -> Option<&Against>| {
            MeanRatio::of(problems.iter().filter_map(|problem| of(problem)).map(|against| &against.ratio))
        };
        let means = [mean(|problem| problem.same.as_ref()), mean(|problem| problem.best.as_ref())];
        let call = cost.call_of(|case| Family::of(case) == family);
        let call = call.map_or_else(|| "–".to_owned(), |call| short(call.ratio));
        let cell = |mean: Option<MeanRatio>| mean.map_or_else(|| "–".to_owned(), |mean| short(mean.value)).into();
        let count = problems.len().to_string().into();
        (!problems.is_empty()).then(|| {
            let name: Cell = family.name().into();
            [name, count].into_iter().chain(means.map(cell)).chain([call.into()]).collect()
        })
    };
    Table {
        heading: vec![cost_answer(cost)],
        columns: vec![
            Column::text("family"),
            figure("problems"),
            figure("same kernel"),
            figure("fastest"),
            figure("one call"),
        ],
        rows: Family::ALL.into_iter().filter_map(row).collect(),
        ..Table::default()
    }
}

/// Returns the costliest and the cheapest problems of a target, for the fastest version of each side: up to `most` of each.
pub fn cost_extremes(cost: &Cost, most: usize) -> Table {
    let mut problems: Vec<(&ProblemCost, &Against)> =
        cost.problems.iter().filter_map(|problem| Some((problem, problem.best.as_ref()?))).collect();
    problems.sort_by(|a, b| b.1.ratio.value.total_cmp(&a.1.ratio.value));
    let further = problems.len().saturating_sub(2 * most);
    let kept = |i: &usize| *i < most || *i >= problems.len().saturating_sub(most).max(most);
    let row = |(problem, best): (&ProblemCost, &Against)| {
        let versions = format!("{} → {}", best.base, best.other);
        vec![problem.problem.as_str().into(), short(best.ratio.value).into(), versions.into()]
    };
    let rows = (0..problems.len()).filter(kept).map(|i| row(problems[i])).collect();
    Table {
        columns: vec![Column::text("costliest and cheapest problems"), figure("fastest"), Column::label("versions")],
        rows,
        notes: vec![format!("{further} more problems, every call and its parts: --all; some of them: --filter")],
        ..Table::default()
    }
}

/// Returns the runs beside each other, one line per workload.
pub fn compared_by_workload(comparison: &Comparison, families: &[WorkloadRow]) -> Table {
    let base = &comparison.runs[comparison.base];
    let others: Vec<usize> = (0..comparison.runs.len()).filter(|run| *run != comparison.base).collect();
    let of_run = |run: &usize| [figure(&format!("{} ÷ {}", comparison.runs[*run].name, base.name)), figure("cases")];
    let row = |family: &WorkloadRow| {
        let name = std::iter::once(family.workload.as_str().into());
        name.chain(others.iter().flat_map(|run| cells(family.means[*run]))).collect()
    };
    Table {
        columns: std::iter::once(Column::text("workload")).chain(others.iter().flat_map(of_run)).collect(),
        rows: families.iter().map(row).collect(),
        notes: vec![
            format!(
                "times over those of {} ({}, {}): below 1 is faster",
                base.name,
                base.device,
                way(&base.target, base.reach)
            ),
            NOTE.to_owned(),
            "only cases that are complete and correct on both sides count; an emulated device has none".to_owned(),
        ],
        ..Table::default()
    }
}
