//! Plot of a target's cost per problem: two dots on a logarithmic axis, the same kernel and the fastest of each.

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_analysis::compare::verdict::Ratio;
use parallax_analysis::compare::{Against, Cost, ProblemCost};
use parallax_schema::catalog::Catalog;

use super::plot::{Axis, RATIO_AXIS, TIMES, WIDTH, px, ratio_axis, ratio_ticks, row, svg, twin, upright};
use super::table::{key, name, table};
use super::{mark, marks};
use crate::{Cell, Column, Rank, Table, cost_by_workload, named};

/// Height of one row.
const ROW: f64 = 16.0;

/// Returns the rows of dots, the costliest on top, under the names of the base and of the other run. Rows beyond the first `shown`
/// are folded.
pub(crate) fn figure(
    catalog: &dyn Catalog,
    cost: &Cost,
    (base, other): (&str, &str),
    shown: usize,
    below: &Markup,
) -> Markup {
    let more = cost.problems.len().saturating_sub(shown);
    html! {
        figure.card {
            figcaption {
                "Time in " (other) " over time in " (base) ", problem by problem, the costliest first."
            }
            (marks::legend(&[marks::SAME, marks::FASTEST, marks::INTERVAL, marks::UNDECIDED, marks::BAND]))
            (rows(catalog, cost, 0, shown))
            @if more > 0 { details { summary { (more) " more" } (rows(catalog, cost, shown, more)) } }
            details { summary { "By workload" } (table(&cost_by_workload(cost))) }
            (twin(&problems(cost)))
            (below)
        }
    }
}

/// Returns a table of every problem with both of its ratios.
fn problems(cost: &Cost) -> Table {
    let cells = |against: &Option<Against>| -> [Cell; 2] {
        match against {
            None => ["–".into(), "".into()],
            Some(of) if of.base == of.other => [of.ratio.to_string().into(), of.base.as_str().into()],
            Some(of) => [of.ratio.to_string().into(), format!("{}, {}", of.base, of.other).into()],
        }
    };
    let (base, other) = (cost.base.title(), cost.other.title());
    Table {
        columns: vec![
            Column::text("problem"),
            Column::figure("the same kernel", Rank::Essential),
            Column::label("which"),
            Column::figure("the fastest of each", Rank::Essential),
            Column::label("which"),
        ],
        rows: cost
            .problems
            .iter()
            .map(|problem| {
                std::iter::once(problem.problem.as_str().into())
                    .chain(cells(&problem.same))
                    .chain(cells(&problem.best))
                    .collect()
            })
            .collect(),
        notes: vec![format!(
            "time in {other} over time in {base}, with an interval; of two kernels, the first is that of {base}"
        )],
        ..Table::default()
    }
}

/// Returns an axis for all ratios, its ticks and their labels.
fn axis(cost: &Cost) -> (Axis, Vec<f64>, Vec<String>) {
    let ratios = cost.problems.iter().flat_map(|problem| [&problem.same, &problem.best]).flatten();
    let ends = ratios.flat_map(|against| {
        let Ratio { value, low, high, resolution, .. } = &against.ratio;
        let edge = 1.0 + resolution.value;
        [*value, low.unwrap_or(*value), high.unwrap_or(*value), edge, 1.0 / edge]
    });
    let (low, high) =
        ends.filter(|v| v.is_finite() && *v > 0.0).fold((1.0f64, 1.0f64), |(a, b), v| (a.min(v), b.max(v)));
    let axis = Axis::log(low, high, 4.0, WIDTH - 4.0);
    let (ticks, labels) = ratio_ticks(&axis);
    (axis, ticks, labels)
}

/// Returns at most `most` rows, beginning at `from`. Their axis is that of all rows.
fn rows(catalog: &dyn Catalog, cost: &Cost, from: usize, most: usize) -> Markup {
    let (axis, ticks, labels) = axis(cost);
    let rows = cost.problems.iter().skip(from).take(most);
    html! {
        div.ratios.costs {
            @for problem in rows {
                div.problem data-f=(Family::of(&problem.problem).key()) {
                    div.name.(mark::of_case(&problem.problem)) {
                        @let cell = named(catalog, &problem.problem);
                        (name(&cell)) (key(&cell))
                    }
                    div.verdict { (figures(problem)) }
                    (row(ROW, &in_words(problem, cost), dots(&axis, &ticks, problem)))
                }
            }
            div.scale { (svg(RATIO_AXIS, "times over the base's time", ratio_axis(&axis, &ticks, &labels, TIMES))) }
        }
    }
}

/// Width of the rows in a stand-alone picture: names, figures, dots.
pub(super) const WHOLE: f64 = 760.0;
const FIGURES: f64 = 392.0;

/// Returns the height of all rows as one picture, and the picture.
pub(super) fn drawing(cost: &Cost) -> (f64, Markup) {
    let (axis, ticks, labels) = axis(cost);
    let figure = |against: &Option<Against>| against.as_ref().map_or_else(|| "–".to_owned(), |a| short(a.ratio.value));
    let below = cost.problems.len() as f64 * ROW;
    let left = WHOLE - WIDTH;
    let inside = html! {
        @for (i, problem) in cost.problems.iter().enumerate() {
            @let y = i as f64 * ROW;
            @let text = px(y + 11.5);
            @let family = Family::of(&problem.problem);
            g class=(mark::class(family)) { (mark::shape(family, (4.0, y + 8.0), 3.0, "swatch")) }
            text x="12" y=(text) { (problem.problem) }
            text.near.end x=(px(FIGURES - 48.0)) y=(text) { (figure(&problem.same)) }
            text.far.end x=(px(FIGURES)) y=(text) { (figure(&problem.best)) }
            g transform=(format!("translate({} {})", px(left), px(y))) { (dots(&axis, &ticks, problem)) }
        }
        g transform=(format!("translate({} {})", px(left), px(below))) { (ratio_axis(&axis, &ticks, &labels, TIMES)) }
    };
    (below + RATIO_AXIS, inside)
}

/// Formats a ratio for a sentence or a plot with three digits. Its interval stands elsewhere.
pub(crate) fn short(ratio: f64) -> String {
    match ratio {
        r if r < 9.995 => format!("{r:.2}×"),
        r if r < 99.95 => format!("{r:.1}×"),
        r => format!("{r:.0}×"),
    }
}

/// Returns both ratios as text.
fn figures(problem: &ProblemCost) -> Markup {
    let figure = |against: &Option<Against>| against.as_ref().map_or_else(|| "–".to_owned(), |a| short(a.ratio.value));
    html! { span.same { (figure(&problem.same)) } " " b { (figure(&problem.best)) } }
}

/// Returns a description of a row for screen readers and for hover.
fn in_words(problem: &ProblemCost, cost: &Cost) -> String {
    let same = problem.same.as_ref().map(|against| format!("the same kernel ({}) {}", against.other, against.ratio));
    let (base, other) = (cost.base.title(), cost.other.title());
    let best = problem
        .best
        .as_ref()
        .map(|a| format!("the fastest of each ({} in {base}, {} in {other}) {}", a.base, a.other, a.ratio));
    let both: Vec<String> = same.into_iter().chain(best).collect();
    format!("{}: {}", problem.problem, both.join("; "))
}

fn dots(axis: &Axis, ticks: &[f64], problem: &ProblemCost) -> Markup {
    let y = px(ROW / 2.0);
    let both: Vec<(&str, &Ratio)> = [("hollow", &problem.same), ("point", &problem.best)]
        .into_iter()
        .filter_map(|(class, against)| Some((class, &against.as_ref()?.ratio)))
        .collect();
    let edge = 1.0 + both.iter().map(|(_, ratio)| ratio.resolution.value).fold(0.0, f64::max);
    let (from, to) = (axis.at(1.0 / edge), axis.at(edge));
    let ends = both.iter().map(|(_, ratio)| axis.at(ratio.value));
    let (left, right) = ends.fold((WIDTH, 0.0f64), |(a, b), x| (a.min(x), b.max(x)));
    html! {
        (upright(axis, ticks, ROW))
        rect.band x=(px(from)) y="3" width=(px((to - from).max(0.5))) height=(px(ROW - 6.0)) {}
        line.one x1=(px(axis.at(1.0))) x2=(px(axis.at(1.0))) y1="0" y2=(px(ROW)) {}
        @if right > left { line.joined x1=(px(left)) x2=(px(right)) y1=(y) y2=(y) {} }
        @for (class, ratio) in &both {
            g class=(ratio.verdict.name()) {
                @if let (Some(low), Some(high)) = (ratio.low, ratio.high) {
                    line.whisker x1=(px(axis.at(low))) x2=(px(axis.at(high))) y1=(y) y2=(y) {}
                }
                circle class=(class) cx=(px(axis.at(ratio.value))) cy=(y) r="3.5" {}
            }
        }
    }
}
