//! Quality of networks over their speed: a point for each evaluation, with the interval of its quality.

use maud::{Markup, html};
use parallax_schema::record::NamedRun;

use super::plot::{Axis, LETTER, LINE, WIDTH, across, number_labels, px, round_rate, spot, svg_of_spots, up};
use super::table;
use crate::Table;
use crate::networks::{Evaluated, evaluations, networks_table};

const TOP: f64 = LINE + 6.0;
const BOTTOM: f64 = 164.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 8.0;
/// Top of the text about the active point, below the axis and its name.
const SAID: f64 = BOTTOM + 4.0 * LINE;
/// Number of lines of that text: the run, its figures.
const SAID_LINES: f64 = 2.0;

/// Returns a section with a picture and a table for each network that several evaluations answer; nothing without one.
pub(crate) fn networks(runs: &[NamedRun]) -> Markup {
    let groups = evaluations(runs);
    html! {
        @if !groups.is_empty() {
            section {
                h2 { "Networks" }
                p.soft { "Right is faster, up is better. A bar is the interval of the quality. Numbers are rows of the table." }
                @for group in &groups {
                    figure.card { figcaption { (group[0].network()) } (picture(group)) }
                    (table(&Table { heading: Vec::new(), ..networks_table(group) }))
                }
            }
        }
    }
}

/// Returns the picture of a group.
fn picture(group: &[Evaluated<'_>]) -> Markup {
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)))
    };
    let (slow, fast) = bounds(&mut group.iter().map(|of| of.rate.value));
    let (low, high) = bounds(&mut group.iter().flat_map(|of| [of.quality.low, of.quality.high]));
    let (x, y) = (Axis::fitting(slow, fast, LEFT + 2.0 * LETTER, RIGHT - LETTER), Axis::linear(low, high, BOTTOM, TOP));
    let (rates, qualities) = (x.ticks(4), y.ticks(4));
    let labels: Vec<String> = rates.iter().map(|rate| round_rate(*rate)).collect();
    let (quality, rate) = (&group[0].quality.name, &group[0].rate.name);
    let about = format!("{quality} over {rate} of {}", group[0].network());
    let inside = html! {
        (across(&x, &rates, &labels, TOP, BOTTOM))
        (up(&y, &qualities, &number_labels(&qualities), LEFT, RIGHT))
        text.tick x="2" y=(px(LINE - 3.0)) { (quality) }
        text.tick.end x=(px(RIGHT)) y=(px(BOTTOM + 2.0 * LINE)) { (rate) }
        text.tick.hint x="2" y=(px(SAID)) { "Point at a dot, tap it, or reach it by Tab." }
        g.device { @for (i, of) in group.iter().enumerate() { (point(i, of, (&x, &y))) } }
    };
    svg_of_spots(SAID + SAID_LINES * LINE, &about, inside)
}

/// Returns an evaluation as a point with its number. Numbers of neighbours stand higher and lower, so that they do not meet.
fn point(i: usize, of: &Evaluated<'_>, (x, y): (&Axis, &Axis)) -> Markup {
    let (across, up) = (x.at(of.rate.value), y.at(of.quality.value));
    let label = if i.is_multiple_of(2) { up - 5.0 } else { up + LINE - 2.0 };
    let dot = html! {
        line.median stroke-opacity=".4" x1=(px(across)) x2=(px(across)) y1=(px(y.at(of.quality.low))) y2=(px(y.at(of.quality.high))) {}
        circle.point cx=(px(across)) cy=(px(up)) r="4" {}
        text.tick.end x=(px(across - 6.0)) y=(px(label)) { (i + 1) }
    };
    let lines = of.in_words();
    spot(&of.record.case, &lines.join(": "), &lines, SAID, &dot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::tests::evaluated;
    use parallax_schema::case::DType;

    #[test]
    fn every_evaluation_is_a_point_with_its_number() {
        let runs = [
            evaluated("cpu", DType::F32, 0.975, 1000.0),
            evaluated("cuda", DType::F16, 0.972, 900_000.0),
            evaluated("<b>", DType::BF16, 0.95, 9000.0),
        ];
        let text = networks(&runs).into_string();
        assert_eq!(text.matches("<circle").count(), 3, "{text}");
        for part in
            ["accuracy over samples/s of image, digits", "cuda, f16: accuracy 0.9720", "&lt;b&gt;, bf16", "3. cpu"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("NaN") && !text.contains("<b>"));
        assert_eq!(networks(&runs[..1]).into_string(), "");
    }
}
