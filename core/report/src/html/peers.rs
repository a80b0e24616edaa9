//! Plot of other libraries beside ours: a row of marks per library on an axis of ratios.

use maud::{Markup, html};
use parallax_analysis::Family;

use super::mark;
use super::plot::{Axis, RATIO_AXIS, WIDTH, px, ratio_axis, ratio_ticks, row, svg, upright};
use crate::PeerFigure;

/// Height of a row.
const ROW: f64 = 30.0;

/// Returns rows of marks, each with its name and its mean.
pub(crate) fn peer_rows(rows: &[(String, String, Vec<&PeerFigure>)]) -> Markup {
    let ratios = rows.iter().flat_map(|(.., figures)| figures.iter().map(|figure| figure.ratio()));
    let (low, high) = ratios.fold((1.0f64, 1.0f64), |(a, b), v| (a.min(v), b.max(v)));
    let axis = Axis::log(low / 1.1, high * 1.1, 4.0, WIDTH - 4.0);
    let (ticks, labels) = ratio_ticks(&axis);
    let families =
        mark::families(rows.iter().flat_map(|(.., figures)| figures.iter().map(|figure| figure.problem.as_str())));
    html! {
        div.legend { (mark::legend(&families)) }
        div.ratios.peers {
            @for (name, mean, figures) in rows {
                div.problem {
                    div.name { (name) }
                    div.verdict { (mean) }
                    (row(ROW, &format!("{name}: {mean}"), html! {
                        (upright(&axis, &ticks, ROW))
                        line.one x1=(px(axis.at(1.0))) x2=(px(axis.at(1.0))) y1="0" y2=(px(ROW)) {}
                        @for (i, figure) in figures.iter().enumerate() { (one(&axis, i, figure)) }
                    }))
                }
            }
            div.scale { (svg(RATIO_AXIS, "the library's time over ours", ratio_axis(&axis, &ticks, &labels, "← library faster · ours faster →"))) }
        }
    }
}

/// Returns the mark of a figure. Its height follows from its number, so that marks of one ratio do not overlap.
fn one(axis: &Axis, i: usize, figure: &PeerFigure) -> Markup {
    let family = Family::of(&figure.problem);
    let y = 5.0 + (i as f64 * 0.618_033_988_749_895).fract() * (ROW - 10.0);
    html! {
        path.point.(mark::class(family)) d=(mark::path(family, (axis.at(figure.ratio()), y), 3.2)) { title { (figure.words()) } }
    }
}
