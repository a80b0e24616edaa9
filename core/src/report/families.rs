//! Workloads by means of ratios, as tables.

use super::html::short;
use super::{Cell, Column, Rank, Table};
use crate::compare::{Comparison, Cost, FamilyRow, MeanRatio};
use crate::record::way;

/// What is to be known of every such figure.
const NOTE: &str =
    "geometric means of ratios of medians, with what measuring leaves open; other problems may differ more";

/// A mean with its interval, and of how many ratios it is.
pub(super) fn cells(mean: Option<MeanRatio>) -> [Cell; 2] {
    let bare = |ratio: f64| short(ratio).trim_end_matches('×').to_owned();
    let Some(MeanRatio { value, interval, problems }) = mean else { return ["–".into(), "0".into()] };
    let interval = interval.map(|(low, high)| format!(" [{}, {}]", bare(low), bare(high))).unwrap_or_default();
    [format!("{}{interval}", short(value)).into(), problems.to_string().into()]
}

fn figure(title: &str) -> Column {
    Column::figure(title, Rank::Essential)
}

/// What a target costs, a line per workload.
pub fn cost_by_workload(cost: &Cost) -> Table {
    let families = cost.families().into_iter();
    Table {
        columns: vec![
            Column::text("workload"),
            figure("the same kernel"),
            figure("problems"),
            figure("the best of each"),
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

/// Runs beside each other, a line per workload.
pub fn compared_by_workload(comparison: &Comparison, families: &[FamilyRow]) -> Table {
    let base = &comparison.runs[comparison.base];
    let others: Vec<usize> = (0..comparison.runs.len()).filter(|run| *run != comparison.base).collect();
    let of_run = |run: &usize| [figure(&format!("{} ÷ {}", comparison.runs[*run].name, base.name)), figure("cases")];
    let row = |family: &FamilyRow| {
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
            "of cases that were measured to their end and found correct on both sides; an emulated device has none"
                .to_owned(),
        ],
        ..Table::default()
    }
}
