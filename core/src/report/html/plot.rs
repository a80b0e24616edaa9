//! Axes, ticks and coordinates, for every plot of the page.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::table;
use crate::record::Run;
use crate::report::Table;
use crate::suite::{Family, names, workload_of};
use crate::units::Nanos;

/// Width of every plot, in units of its view box. A phone shows about one unit per pixel.
pub(super) const WIDTH: f64 = 360.0;

/// No axis has more ticks, whatever its values: each is a line and a label in the page.
const MOST_TICKS: usize = 40;

/// Axes end here, so that widths and ratios of their ends are finite.
const FAR: f64 = 1e100;

/// An end of an axis, from `least` to [`FAR`].
fn held(end: f64, least: f64) -> f64 {
    if end.is_nan() { least } else { end.clamp(least, FAR) }
}

/// The colours of workloads: the same in every plot of a page, and as far as those of the page allow it, on every page. Only a
/// page with more workloads than colours uses one twice.
pub(crate) struct Palette<'a> {
    classes: BTreeMap<&'a str, &'static str>,
}

/// Classes of the colours, in `plot.css`.
const SERIES: [&str; 12] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11"];

impl<'a> Palette<'a> {
    /// Of what was planned in these runs, or has a record: a workload keeps its colour from the plan to the last figure.
    pub fn of(runs: impl IntoIterator<Item = &'a Run>) -> Palette<'a> {
        let cases =
            runs.into_iter().flat_map(|run| run.planned.iter().chain(run.records.iter().map(|record| &record.case)));
        let workloads: BTreeSet<&str> = cases.map(|case| workload_of(case)).collect();
        let mut taken = BTreeSet::new();
        let mut classes = BTreeMap::new();
        for workload in workloads {
            let own = names().iter().position(|known| *known == workload).unwrap_or_default();
            let free = (own..own + SERIES.len()).map(|i| i % SERIES.len()).find(|i| !taken.contains(i));
            let colour = free.unwrap_or(own % SERIES.len());
            taken.insert(colour);
            classes.insert(workload, SERIES[colour]);
        }
        Palette { classes }
    }

    /// The class of a workload.
    pub fn class(&self, workload: &str) -> &'static str {
        self.classes.get(workload).copied().unwrap_or(SERIES[0])
    }

    /// The class of a case's workload.
    pub fn of_case(&self, case: &str) -> &'static str {
        self.class(workload_of(case))
    }
}

/// A coordinate, short enough to keep the file small.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// From values to coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Axis {
    /// Even steps over these values, a little wider than they are. Values that are all the same get room around them.
    pub fn linear(from: f64, to: f64, start: f64, end: f64) -> Axis {
        let (from, to) = (held(from, -FAR), held(to, -FAR));
        let room = if to > from { (to - from) * 0.03 } else { from.abs().max(1e-9) * 0.01 };
        Axis { from: from - room, to: to + room, start, end, log: false }
    }

    /// Even steps of the logarithm over these positive values.
    pub fn log(from: f64, to: f64, start: f64, end: f64) -> Axis {
        let (from, to) = (held(from, 1.0 / FAR), held(to, 1.0 / FAR));
        let room = if to > from { (to / from).powf(0.03) } else { 1.01 };
        Axis { from: from / room, to: to * room, start, end, log: true }
    }

    /// Linear while the values are of one size, logarithmic beyond.
    pub fn fitting(from: f64, to: f64, start: f64, end: f64) -> Axis {
        if from > 0.0 && to / from > 4.0 { Axis::log(from, to, start, end) } else { Axis::linear(from, to, start, end) }
    }

    /// The coordinate of a value; values outside are held at the edge.
    pub fn at(&self, value: f64) -> f64 {
        let value = value.max(self.from).min(self.to);
        let share = match self.log {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.start + share * (self.end - self.start)
    }

    /// The smallest value shown.
    pub fn low(&self) -> f64 {
        self.from
    }

    /// The largest value shown.
    pub fn high(&self) -> f64 {
        self.to
    }

    /// Round values to label, about so many.
    pub fn ticks(&self, about: usize) -> Vec<f64> {
        let decades = if self.log { (self.to / self.from).log10() } else { 0.0 };
        if !self.log || decades < 0.6 {
            return even_ticks(self.from, self.to, about);
        }
        let lead: &[f64] = match decades {
            d if d < 1.6 => &[1.0, 2.0, 5.0],
            d if d < 2.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = if lead.len() == 1 { (decades / about as f64).ceil().max(1.0) as i32 } else { 1 };
        let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
        let exponents = (first..=last).filter(|e| e.rem_euclid(every) == 0);
        let all = exponents.flat_map(|e| lead.iter().map(move |l| l * 10f64.powi(e)));
        all.filter(|t| (self.from..=self.to).contains(t)).take(MOST_TICKS).collect()
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn even_ticks(from: f64, to: f64, about: usize) -> Vec<f64> {
    let rough = (to - from) / about.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let off = |step: &f64| (step / rough).ln().abs();
    let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
    let step = steps.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(rough);
    let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
    (first..=last).take(MOST_TICKS).map(|i| i as f64 * step).filter(|t| t.is_finite()).collect()
}

/// Times with one unit and as many digits as tell them apart.
pub(super) fn time_labels(ticks: &[f64]) -> Vec<String> {
    let largest = ticks.iter().copied().fold(0.0, f64::max);
    let (scale, unit) = match largest {
        t if t < 1e3 => (1.0, "ns"),
        t if t < 1e6 => (1e3, "µs"),
        t if t < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let even = ticks.len() < 2 || ticks.windows(2).all(|w| w[1] / w[0] < 1.6);
    if !even {
        return ticks.iter().map(|t| Nanos(*t).to_string()).collect();
    }
    let digits = digits(ticks, scale);
    ticks.iter().map(|t| format!("{:.digits$} {unit}", t / scale)).collect()
}

/// Plain numbers with as many digits as tell them apart.
pub(super) fn number_labels(ticks: &[f64]) -> Vec<String> {
    let digits = digits(ticks, 1.0);
    ticks.iter().map(|t| format!("{t:.digits$}")).collect()
}

/// Digits after the point that tell neighbours apart.
fn digits(ticks: &[f64], scale: f64) -> usize {
    let step = ticks.windows(2).map(|w| (w[1] - w[0]) / scale).fold(f64::INFINITY, f64::min);
    if step.is_finite() && step > 0.0 { (-(step * 1.001).log10().floor()).clamp(0.0, 9.0) as usize } else { 2 }
}

/// Widest letter of a plot on the narrowest phone, in units of its view box: text is as large there as `plot.css` makes it.
pub(super) const LETTER: f64 = 8.0;
/// Height of a line of text there.
pub(super) const LINE: f64 = 15.0;

/// Vertical lines and labels of a horizontal axis; `top` and `bottom` bound the lines, labels go below.
pub(super) fn across(axis: &Axis, ticks: &[f64], labels: &[String], top: f64, bottom: f64) -> Markup {
    let places: Vec<(f64, f64)> = ticks.iter().zip(labels).map(|(tick, label)| place(axis.at(*tick), label)).collect();
    let shown = apart(&places);
    html! {
        @for (tick, ((x, _), (label, shown))) in ticks.iter().zip(places.iter().zip(labels.iter().zip(shown))) {
            @let line = px(axis.at(*tick));
            line.grid x1=(line) x2=(line) y1=(px(top)) y2=(px(bottom)) {}
            @if shown { text.tick.middle x=(px(*x)) y=(px(bottom + LINE - 2.0)) { (label) } }
        }
    }
}

/// Vertical lines at ticks from the top of a row to its bottom, as one path.
pub(super) fn upright(axis: &Axis, ticks: &[f64], height: f64) -> Markup {
    let line = |tick: &f64| format!("M{} 0v{}", px(axis.at(*tick)), px(height));
    html! { path.grid d=(ticks.iter().map(line).collect::<String>()) {} }
}

/// The middle of a label and half its width; at the rims it is pulled in, so that nothing is cut off.
fn place(x: f64, label: &str) -> (f64, f64) {
    let half = (label.chars().count() as f64 * LETTER / 2.0).min(WIDTH / 2.0);
    (x.clamp(half, WIDTH - half), half)
}

/// Which labels are shown, of those in a line: each that does not meet the one shown before it.
fn apart(places: &[(f64, f64)]) -> Vec<bool> {
    let mut free = f64::NEG_INFINITY;
    let shown = |(x, half): &(f64, f64)| {
        let room = x - half >= free;
        if room {
            free = x + half + LETTER / 2.0;
        }
        room
    };
    places.iter().map(shown).collect()
}

/// A plot of this height, with words for those who cannot see it.
pub(super) fn svg(height: f64, about: &str, inside: Markup) -> Markup {
    html! {
        svg.plot viewBox=(format!("0 0 {} {}", px(WIDTH), px(height))) role="img" aria-label=(about) { (inside) }
    }
}

/// A plot of points that can be pointed at and reached by keyboard, one by one: see [`spot`].
pub(super) fn svg_of_spots(height: f64, about: &str, inside: Markup) -> Markup {
    html! {
        svg.plot viewBox=(format!("0 0 {} {}", px(WIDTH), px(height))) role="group" aria-label=(about) { (inside) }
    }
}

/// The point of a case, which says something when it is pointed at or reached: `lines` appear one below the other from `top` on.
pub(super) fn spot(case: &str, about: &str, lines: &[String], top: f64, point: &Markup) -> Markup {
    html! {
        g.spot data-f=(Family::of(case).key()) tabindex="0" role="img" aria-label=(about) {
            (point)
            text.said aria-hidden="true" {
                @for (i, line) in lines.iter().enumerate() { tspan x="2" y=(px(top + i as f64 * LINE)) { (line) } }
            }
        }
    }
}

/// A row of a plot that can be reached by keyboard, and says what it is about then and when it is pointed at.
pub(super) fn row(height: f64, about: &str, inside: Markup) -> Markup {
    html! {
        div.row tabindex="0" role="img" aria-label=(about) {
            svg.plot viewBox=(format!("0 0 {} {}", px(WIDTH), px(height))) { (inside) }
            span.said { (about) }
        }
    }
}

/// The same with what it says in its style sheet alone: an element fewer.
pub(super) fn bare_row(height: f64, about: &str, inside: Markup) -> Markup {
    html! {
        div.row.bare tabindex="0" role="img" aria-label=(about) {
            svg.plot viewBox=(format!("0 0 {} {}", px(WIDTH), px(height))) { (inside) }
        }
    }
}

/// The figures of a picture as a table, for whoever reads better than they see.
pub(super) fn twin(figures: &Table) -> Markup {
    html! { details.twin { summary { "The figures as a table" } (table(figures)) } }
}

/// A case in lines that a plot has room for, broken behind its parts.
pub(super) fn in_lines(case: &str) -> Vec<String> {
    let most = (WIDTH / LETTER) as usize;
    let mut lines = vec![String::new()];
    for part in case.split_inclusive(['/', ',']) {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() || line.chars().count() + part.chars().count() <= most {
            line.push_str(part);
        } else {
            lines.push(part.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::run;

    #[test]
    fn axes_map_their_ends_and_hold_what_is_outside() {
        let linear = Axis::linear(10.0, 20.0, 0.0, 106.0);
        assert!((linear.at(10.0) - 3.0).abs() < 1e-9 && (linear.at(20.0) - 103.0).abs() < 1e-9);
        assert_eq!((linear.at(-99.0), linear.at(99.0)), (0.0, 106.0));
        let log = Axis::log(1.0, 100.0, 0.0, 100.0);
        assert!((log.at(10.0) - 50.0).abs() < 1e-9);
        assert!(Axis::linear(5.0, 5.0, 0.0, 100.0).at(5.0).is_finite(), "one value alone has room");
        assert_eq!(log.at(0.0), 0.0);
    }

    #[test]
    fn a_workload_has_one_colour_on_a_page() {
        let cases = |names: &[&str]| {
            let cases: Vec<String> = names.iter().map(|name| format!("{name}/fwd/n1/f32/x")).collect();
            let cases: Vec<_> = cases.iter().map(|case| (case.as_str(), vec![1.0; 8])).collect();
            run("cuda", "X", &cases)
        };
        let (one, two) = (cases(&["copy", "read"]), cases(&["attention", "read"]));
        let palette = Palette::of([&one, &two]);
        let colours: BTreeSet<&str> = ["attention", "copy", "read"].map(|name| palette.class(name)).into();
        assert_eq!(colours.len(), 3, "no two have one");
        assert_eq!(palette.of_case("read/fwd/n1/f32/x"), palette.class("read"));
        for (run, name) in [(&one, "copy"), (&two, "attention")] {
            assert_eq!(Palette::of([run]).class(name), palette.class(name), "and on another page it has the same");
        }
        let planned = Run { planned: vec!["copy/fwd/n1/f32/x".to_owned()], records: Vec::new(), ..one.clone() };
        assert_eq!(Palette::of([&planned]).class("copy"), palette.class("copy"), "from the plan on");
    }

    #[test]
    fn no_values_make_an_axis_endless_or_nan() {
        let wild = [f64::MIN, -1.0, 0.0, 5e-324, 1e-9, 1.0, 1.0 + f64::EPSILON, 1e22, 1e308, f64::INFINITY, f64::NAN];
        for (from, to) in wild.iter().flat_map(|from| wild.iter().map(move |to| (*from, *to))) {
            for axis in [Axis::linear, Axis::log, Axis::fitting].map(|of| of(from, to, 0.0, 300.0)) {
                let ticks = axis.ticks(4);
                assert!(ticks.len() <= MOST_TICKS, "{from} {to}: {}", ticks.len());
                for value in wild.iter().chain(&ticks) {
                    assert!((0.0..=300.0).contains(&axis.at(*value)), "{from} {to}: {value} at {}", axis.at(*value));
                }
                across(&axis, &ticks, &time_labels(&ticks), 0.0, 10.0);
            }
        }
    }

    #[test]
    fn labels_of_an_axis_do_not_meet() {
        let axis = Axis::log(0.9, 300.0, 4.0, WIDTH - 4.0);
        for about in 1..40 {
            let ticks: Vec<f64> = (0..about).map(|i| 300f64.powf(i as f64 / about as f64)).collect();
            let labels: Vec<String> = ticks.iter().map(|tick| format!("{tick:.2}×")).collect();
            let places: Vec<_> = ticks.iter().zip(&labels).map(|(tick, label)| place(axis.at(*tick), label)).collect();
            let shown: Vec<_> = places.iter().zip(apart(&places)).filter(|(_, shown)| *shown).map(|(p, _)| p).collect();
            assert!(!shown.is_empty() && shown.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0 - w[1].1), "{about}");
        }
    }

    #[test]
    fn long_cases_are_broken_behind_their_parts() {
        let case = "separable_conv3d/fwd/n1,ci32,co64,d16,h32,w32,k3,p1,ncdhw/f16/fused_tiled";
        let lines = in_lines(case);
        assert_eq!(lines.concat(), case);
        assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= 45), "{lines:?}");
        assert_eq!(in_lines("a/b"), ["a/b"]);
    }

    #[test]
    fn ticks_are_round_and_labels_differ() {
        let close = Axis::linear(100_010.0, 100_090.0, 0.0, 300.0).ticks(4);
        assert_eq!(close, [100_020.0, 100_040.0, 100_060.0, 100_080.0]);
        assert_eq!(time_labels(&close), ["100.02 µs", "100.04 µs", "100.06 µs", "100.08 µs"]);
        assert_eq!(time_labels(&[1e3, 1e4, 1e6]), ["1.00 µs", "10.0 µs", "1.00 ms"]);
        assert_eq!(Axis::log(1.0, 20.0, 0.0, 300.0).ticks(4), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(number_labels(&[0.95, 1.0, 1.05]), ["0.95", "1.00", "1.05"]);
        for (from, to) in [(1e-3, 1e9), (1.0, 1.0001), (0.3, 0.31)] {
            let ticks = Axis::log(from, to, 0.0, 300.0).ticks(4);
            assert!((1..=8).contains(&ticks.len()), "{from} {to}: {ticks:?}");
        }
    }
}
