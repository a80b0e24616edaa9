//! Tables of mean ratios by workload.

use parallax_analysis::Family;
use parallax_analysis::compare::{Against, Comparison, Cost, MeanRatio, ProblemCost, WorkloadRow};
use parallax_schema::record::way;

use super::html::short;
use super::{Cell, Column, Rank, Table};
use crate::{cost_answer, route_name};

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

/// Mean ratios of some problems: those of the same kernel, and those of the fastest versions.
fn means(cost: &Cost, wanted: impl Fn(&str) -> bool) -> (usize, [String; 2]) {
    let problems: Vec<&ProblemCost> = cost.problems.iter().filter(|problem| wanted(&problem.problem)).collect();
    let mean = |of: fn(&ProblemCost) -> Option<&Against>| {
        let mean = MeanRatio::of(problems.iter().filter_map(|problem| of(problem)).map(|against| &against.ratio));
        mean.map_or_else(|| "–".to_owned(), |mean| short(mean.value))
    };
    (problems.len(), [mean(|problem| problem.same.as_ref()), mean(|problem| problem.best.as_ref())])
}

/// Returns several targets beside each other, one line per family of workloads and one for all: the ratio of the same kernel, then
/// that of the fastest versions. The last line has the numbers of problems, which differ between targets. `None` for fewer than two
/// targets.
pub fn cost_overview(costs: &[Cost]) -> Option<Table> {
    let base = &costs.first().filter(|_| costs.len() > 1)?.base;
    let cells = |wanted: &dyn Fn(&str) -> bool| -> Vec<Cell> {
        let cell = |cost: &Cost| match means(cost, wanted) {
            (0, _) => "–".into(),
            (_, [same, best]) => format!("{same} · {best}").into(),
        };
        costs.iter().map(cell).collect()
    };
    let of_family = |family: &Family| costs.iter().any(|cost| means(cost, |case| Family::of(case) == *family).0 > 0);
    let row = |name: &str, cells: Vec<Cell>| std::iter::once(name.into()).chain(cells).collect();
    let families = Family::ALL.into_iter().filter(of_family);
    let families = families.map(|family| row(family.name(), cells(&|case| Family::of(case) == family)));
    let counts = costs.iter().map(|cost| cost.problems.len().to_string().into()).collect();
    let target = |cost: &Cost| figure(route_name(&cost.other.route).trim_start_matches("the "));
    Some(Table {
        heading: vec![format!(
            "Times over those in {}, geometric means over problems: the same kernel · the fastest version.",
            route_name(&base.route)
        )],
        columns: std::iter::once(Column::text("family")).chain(costs.iter().map(target)).collect(),
        rows: families.chain([row("all", cells(&|_| true)), row("problems", counts)]).collect(),
        ..Table::default()
    })
}

/// Returns the answer and the cost of a target, one line per family of workloads.
pub fn cost_by_family(cost: &Cost) -> Table {
    let row = |family: Family| {
        let (problems, means) = means(cost, |case| Family::of(case) == family);
        let call = cost.call_of(|case| Family::of(case) == family);
        let call = call.map_or_else(|| "–".to_owned(), |call| short(call.ratio));
        (problems > 0).then(|| {
            let name: Cell = family.name().into();
            let figures = means.into_iter().chain([call]).map(Cell::from);
            [name, problems.to_string().into()].into_iter().chain(figures).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::cost;
    use parallax_schema::record::{NamedRun, WGSL_CHECKS};
    use parallax_schema::testing::{run, spread};

    #[test]
    fn an_overview_has_a_column_for_each_target() {
        let (tiled, vendor, copy) =
            ("matmul/fwd/m8,n8,k8/f32/tiled", "matmul/fwd/m8,n8,k8/f32/vendor", "copy/fwd/n64/f32/vec4");
        let named = |target: &str, cases: &[(&str, f64)]| {
            let cases: Vec<_> = cases.iter().map(|(case, median)| (*case, spread(*median, 0.002, 40))).collect();
            NamedRun::new(target, run(target, "NVIDIA H200", &cases))
        };
        let cuda = named("cuda", &[(tiled, 100.0), (vendor, 50.0), (copy, 10.0)]);
        let mut checked = named("wgpu", &[(tiled, 300.0)]);
        checked.run.environment.insert(WGSL_CHECKS.to_owned(), "all".to_owned());
        let browser = named("browser", &[(tiled, 150.0), (copy, 20.0)]);
        let costs = [checked, browser].map(|other| cost(&cuda, &other).expect("a common case"));
        assert_eq!(cost_overview(&costs[..1]), None);
        let overview = cost_overview(&costs).expect("two targets");
        let lines = [
            "Times over those in CUDA, geometric means over problems: the same kernel · the fastest version.",
            "| family | native WebGPU (checks: all) | browser |",
            "| matrix products | 3.00× · 6.00× | 1.50× · 3.00× |",
            "| memory and tables | – | 2.00× · 2.00× |",
            "| all | 3.00× · 6.00× | 1.73× · 2.45× |",
            "| problems | 1 | 2 |",
        ];
        let text = overview.markdown();
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
    }
}
