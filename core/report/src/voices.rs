//! Tables of one problem in all its implementations.

use parallax_analysis::compare::verdict::Ratio;
use parallax_analysis::compare::{Best, ImplementationRow, ImplementationTable};

use super::families::cells;
use super::html::short;
use super::{Cell, Column, Rank, Table};

/// Returns a table with a row per problem and a column per implementation: the median, and the ratio to the problem's base.
pub fn voices_table(voices: &ImplementationTable) -> Table {
    let column =
        |column: &parallax_analysis::compare::ImplementationColumn| Column::figure(&column.title, Rank::Essential);
    let row = |spoken: &ImplementationRow| -> Vec<Cell> {
        let said = spoken.said.iter().map(|said| said.as_ref().map_or_else(|| "–".to_owned(), cell));
        std::iter::once(spoken.problem.clone()).chain(said).map(Into::into).collect()
    };
    Table {
        columns: std::iter::once(Column::text("problem")).chain(voices.columns.iter().map(column)).collect(),
        rows: voices.problems.iter().map(row).collect(),
        notes: vec![
            "median of each implementation's fastest variant, over the first of its row that has a time, with a 95 % interval"
                .to_owned(),
            "several targets are several runs: the ratios contain the differences of their clocks and memory"
                .to_owned(),
        ],
        ..Table::default()
    }
}

/// Returns the time, the variant and the ratio.
fn cell(said: &Best) -> String {
    let ratio = said.ratio.as_ref().map(|ratio| format!(" · {}", told(ratio))).unwrap_or_default();
    format!("{} {}{ratio}", said.time, said.variant)
}

fn told(ratio: &Ratio) -> String {
    let bare = |ratio: f64| short(ratio).trim_end_matches('×').to_owned();
    let interval = ratio.low.zip(ratio.high).map(|(low, high)| format!(" [{}, {}]", bare(low), bare(high)));
    format!("{}{}", short(ratio.value), interval.unwrap_or_default())
}

/// Returns the overhead of one source, a row per workload, and one for all of them.
pub fn price_table(voices: &ImplementationTable) -> Table {
    let columns = voices.runs.iter().flat_map(|run| {
        [
            Column::figure(&format!("one source ÷ by hand, {run}"), Rank::Essential),
            Column::figure("problems", Rank::Useful),
        ]
    });
    let row = |price: &parallax_analysis::compare::Overhead| -> Vec<Cell> {
        let name = price.workload.as_deref().unwrap_or("all");
        std::iter::once(name.into()).chain(price.means.iter().flat_map(|mean| cells(*mean))).collect()
    };
    let all = voices.prices.last().into_iter().flat_map(|price| price.means.iter().zip(&voices.runs));
    let sentence = |(mean, run): (&Option<parallax_analysis::compare::MeanRatio>, &String)| {
        mean.map(|mean| {
            format!(
                "one source costs {} on {run}, the geometric mean over {} problems",
                short(mean.value),
                mean.problems
            )
        })
    };
    Table {
        columns: std::iter::once(Column::text("workload")).chain(columns).collect(),
        rows: voices.prices.iter().map(row).collect(),
        notes: all
            .filter_map(sentence)
            .chain(["ratio: CubeCL's kernel over the fastest kernel by hand, on the same target in one run; below 1 is faster".to_owned()])
            .collect(),
        ..Table::default()
    }
}
