//! Stand-alone pictures: SVG files with inline style, for slides and papers, and for conversion to pixels.

use maud::{Markup, PreEscaped, html};
use parallax_analysis::Family;
use parallax_analysis::compare::Cost;
use parallax_schema::record::Run;

use super::plot::{WIDTH, px};
use super::{cost, mark, roofline, shown};
use crate::escape;

/// Style of pictures that stand alone.
pub(super) const STYLE: &str = concat!(include_str!("plot.css"), include_str!("picture.css"));

/// Margin around the picture.
const MARGIN: f64 = 12.0;
/// Height of a line of text.
const LINE: f64 = 14.0;
/// Width of the widest letter.
const LETTER: f64 = 6.0;

/// Part of a picture: its height and its markup.
pub(super) type Part = (f64, Markup);

/// Returns the roofline of a run; `None` if no case does arithmetic.
pub(crate) fn roofline_picture(run: &Run) -> Option<String> {
    let (height, drawing) = roofline::drawing(run)?;
    let (legend_height, legend) = legend(&roofline::families(run));
    let title = format!("Roofline of {}, {}", run.called(), run.way());
    let inside = html! {
        g transform=(format!("translate(0 {})", px(LINE))) { (drawing) }
        g transform=(format!("translate(0 {})", px(LINE + height + 4.0))) { (legend) }
    };
    Some(alone(WIDTH, LINE + height + legend_height, &title, inside))
}

/// Returns the cost of a target per problem, under the names of the base and of the other run.
pub(crate) fn cost_picture(cost: &Cost, (base, other): (&str, &str)) -> String {
    let title = format!("Time in {other} over time in {base}");
    let (height, drawing) = cost::drawing(cost);
    let mean = |(value, problems): (f64, usize)| format!("{} (geometric mean of {problems})", cost::short(value));
    let keys = [("hollow", "the same kernel", cost.same()), ("point", "the fastest of each", cost.best())];
    let inside = html! {
        @for (i, (class, what, of)) in keys.into_iter().enumerate() {
            @let y = LINE * (i as f64 + 2.0);
            circle class=(class) cx="4" cy=(px(y - 3.5)) r="3.5" {}
            text x="14" y=(px(y)) { (what) @if let Some(of) = of { ": " (mean(of)) } }
        }
        g transform=(format!("translate(0 {})", px(LINE * 4.0))) { (drawing) }
    };
    alone(cost::WHOLE, LINE * 4.0 + height, &title, html! { g.costs { (inside) } })
}

/// Returns the families in their colours and shapes, in as many lines as necessary.
fn legend(families: &[Family]) -> Part {
    let (mut x, mut y) = (0.0, 10.0);
    let mut places = Vec::new();
    for family in families {
        let width = (family.name().chars().count() + 3) as f64 * LETTER;
        if x > 0.0 && x + width > WIDTH {
            (x, y) = (0.0, y + LINE);
        }
        places.push((x, y, *family));
        x += width;
    }
    let markup = html! {
        @for (x, y, family) in places {
            g class=(mark::class(family)) {
                (mark::shape(family, (x + 4.0, y - 3.5), 3.5, "swatch"))
                text x=(px(x + 11.0)) y=(px(y)) { (family.name()) }
            }
        }
    };
    (y + 8.0, markup)
}

/// Returns a stand-alone document with a margin around this width and height. Control characters in names are shown as codes,
/// because XML cannot represent them.
fn alone(width: f64, height: f64, title: &str, inside: Markup) -> String {
    let (title, inside) = (escape(title), shown(inside));
    let (outer, high) = (px(width + 2.0 * MARGIN), px(height + 2.0 * MARGIN));
    let markup = html! {
        svg.plot xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {outer} {high}")) width=(outer) height=(high) {
            title { (title) }
            style { (PreEscaped(STYLE)) }
            rect.paper width=(outer) height=(high) {}
            g transform=(format!("translate({MARGIN} {MARGIN})")) {
                text.title x="0" y="10" { (title) }
                (inside)
            }
        }
    };
    markup.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::costs;
    use parallax_schema::record::NamedRun;
    use parallax_schema::testing::{run, spread};

    const CASES: [&str; 2] = ["matmul/fwd/m8,n8,k8/f32/tiled", "copy/fwd/n64/f32/vec4"];

    fn named(target: &str, device: &str, median: f64) -> NamedRun {
        let cases: Vec<_> = CASES.iter().map(|case| (*case, spread(median, 0.01, 40))).collect();
        NamedRun::new(target, run(target, device, &cases))
    }

    /// Checks the form of a stand-alone file: one closed element, with its style inside and no external resources.
    fn stands_alone(svg: &str) {
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
        assert!(svg.contains("xmlns=\"http://www.w3.org/2000/svg\"") && svg.contains("<style>"));
        for forbidden in ["<script", "url(", "@import", "href", "prefers-color-scheme", "NaN", "\u{1}"] {
            assert!(!svg.contains(forbidden), "{forbidden} in {svg}");
        }
        // Every opened element is closed, even if HTML does not require it.
        let opened = svg.matches('<').count() - svg.matches("</").count();
        assert_eq!(opened, svg.matches("</").count());
    }

    #[test]
    fn a_roofline_stands_alone() {
        let NamedRun { run, .. } = named("browser", "</style><script>\u{1}", 100.0);
        let svg = roofline_picture(&run).expect("matmul does arithmetic");
        stands_alone(&svg);
        assert!(svg.contains("matrix products") && svg.contains("FLOP/s") && svg.contains("browser"));
        let none = Run { records: Vec::new(), ..run };
        assert_eq!(roofline_picture(&none), None);
    }

    #[test]
    fn a_cost_stands_alone() {
        let runs = [named("cuda", "NVIDIA H200", 100.0), named("browser", "H200", 150.0)];
        let svg = cost_picture(&costs(&runs)[0], ("CUDA", "the browser"));
        stands_alone(&svg);
        for part in ["Time in the browser over time in CUDA", "1.50×", "matmul/fwd/m8,n8,k8/f32", "geometric mean of 2"]
        {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }
}
