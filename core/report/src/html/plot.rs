//! Axes, ticks and coordinates, for every plot of the page.

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_schema::units::{Nanos, scaled};

use super::table;
use crate::Table;

/// Width of every plot, in units of its view box. A phone shows about one unit per pixel.
pub(super) const WIDTH: f64 = 360.0;

/// Maximum number of ticks of an axis, for any values: each is a line and a label in the page.
const MOST_TICKS: usize = 40;

/// Largest end of an axis, so that widths and ratios of ends are finite.
const FAR: f64 = 1e100;

/// Clamps an end of an axis to the range from `least` to [`FAR`].
fn held(end: f64, least: f64) -> f64 {
    if end.is_nan() { least } else { end.clamp(least, FAR) }
}

/// Formats a coordinate, short enough to keep the file small.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Map from values to coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Axis {
    /// Returns a linear axis over these values with a small margin. Equal values get room around them.
    pub fn linear(from: f64, to: f64, start: f64, end: f64) -> Axis {
        let (from, to) = (held(from, -FAR), held(to, -FAR));
        let room = if to > from { (to - from) * 0.03 } else { from.abs().max(1e-9) * 0.01 };
        Axis { from: from - room, to: to + room, start, end, log: false }
    }

    /// Returns a logarithmic axis over these positive values.
    pub fn log(from: f64, to: f64, start: f64, end: f64) -> Axis {
        let (from, to) = (held(from, 1.0 / FAR), held(to, 1.0 / FAR));
        let room = if to > from { (to / from).powf(0.03) } else { 1.01 };
        Axis { from: from / room, to: to * room, start, end, log: true }
    }

    /// Returns a linear axis for values of one magnitude, and a logarithmic axis otherwise.
    pub fn fitting(from: f64, to: f64, start: f64, end: f64) -> Axis {
        if from > 0.0 && to / from > 4.0 { Axis::log(from, to, start, end) } else { Axis::linear(from, to, start, end) }
    }

    /// Returns the coordinate of a value; values outside are clamped to the edge.
    pub fn at(&self, value: f64) -> f64 {
        let value = value.max(self.from).min(self.to);
        let share = match self.log {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.start + share * (self.end - self.start)
    }

    /// Returns the smallest value shown.
    pub fn low(&self) -> f64 {
        self.from
    }

    /// Returns the largest value shown.
    pub fn high(&self) -> f64 {
        self.to
    }

    /// Returns round values for labels, approximately `about` of them.
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

/// Returns round ratios with their labels: ⅓×, 1×, 3×. Those below one are reciprocals of round numbers.
pub(super) fn ratio_ticks(axis: &Axis) -> (Vec<f64>, Vec<String>) {
    let decades = (axis.to / axis.from).log10();
    if decades < 0.6 {
        let ticks = even_ticks(axis.from, axis.to, 5);
        let labels = number_labels(&ticks).into_iter().map(|label| label + "×").collect();
        return (ticks, labels);
    }
    let steps: &[u64] = match decades {
        d if d < 1.6 => &[1, 2, 5, 10, 20, 50],
        d if d < 4.2 => &[1, 3, 10, 30, 100, 300, 1000, 3000],
        _ => &[1, 10, 100, 1000, 10_000, 100_000, 1_000_000],
    };
    let below = steps.iter().rev().filter(|step| **step > 1).map(|step| (1.0 / *step as f64, part(*step)));
    let above = steps.iter().map(|step| (*step as f64, format!("{step}×")));
    below.chain(above).filter(|(tick, _)| (axis.from..=axis.to).contains(tick)).unzip()
}

/// Returns the label of a reciprocal.
fn part(of: u64) -> String {
    match of {
        2 => "½×".to_owned(),
        3 => "⅓×".to_owned(),
        5 => "⅕×".to_owned(),
        _ => format!("1/{of}×"),
    }
}

/// Height of the labels below an axis of ratios, and of its name.
pub(super) const RATIO_AXIS: f64 = 2.0 * LINE + 4.0;

/// Meaning of both directions of an axis of times over a base's.
pub(super) const TIMES: &str = "← faster · slower →";

/// Returns the labels of an axis of ratios, and below them the meaning of its directions.
pub(super) fn ratio_axis(axis: &Axis, ticks: &[f64], labels: &[String], directions: &str) -> Markup {
    html! {
        (across(axis, ticks, labels, 0.0, 2.0))
        text.tick.middle x=(px(place(axis.at(1.0), directions).0)) y=(px(2.0 * LINE)) { (directions) }
    }
}

/// Returns multiples of 1, 2 or 5 times a power of ten.
fn even_ticks(from: f64, to: f64, about: usize) -> Vec<f64> {
    let rough = (to - from) / about.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let off = |step: &f64| (step / rough).ln().abs();
    let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
    let step = steps.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(rough);
    let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
    (first..=last).take(MOST_TICKS).map(|i| i as f64 * step).filter(|t| t.is_finite()).collect()
}

/// Formats times with one unit and enough digits to make them distinct.
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

/// Formats plain numbers with enough digits to make them distinct.
pub(super) fn number_labels(ticks: &[f64]) -> Vec<String> {
    let digits = digits(ticks, 1.0);
    ticks.iter().map(|t| format!("{t:.digits$}")).collect()
}

/// Returns the number of digits after the point that makes neighbours distinct.
fn digits(ticks: &[f64], scale: f64) -> usize {
    let step = ticks.windows(2).map(|w| (w[1] - w[0]) / scale).fold(f64::INFINITY, f64::min);
    if step.is_finite() && step > 0.0 { (-(step * 1.001).log10().floor()).clamp(0.0, 9.0) as usize } else { 2 }
}

/// Width of the widest letter of a plot on the narrowest phone, in units of its view box. `plot.css` sets the size of its text
/// there.
pub(super) const LETTER: f64 = 9.0;
/// Height of a line of text on that phone.
pub(super) const LINE: f64 = 15.0;

/// Returns vertical lines and labels of a horizontal axis; `top` and `bottom` bound the lines, labels go below.
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

/// Returns horizontal lines and labels of a vertical axis; `left` and `right` bound the lines, labels go before.
pub(super) fn up(axis: &Axis, ticks: &[f64], labels: &[String], left: f64, right: f64) -> Markup {
    html! {
        @for (tick, label) in ticks.iter().zip(labels) {
            @let line = px(axis.at(*tick));
            line.grid x1=(px(left)) x2=(px(right)) y1=(line) y2=(line) {}
            text.tick.end x=(px(left - 4.0)) y=(px(axis.at(*tick) + 4.0)) { (label) }
        }
    }
}

/// Formats a round rate with a prefix and without zeros at its end.
pub(super) fn round_rate(rate: f64) -> String {
    scaled(rate, "").trim_end().replace(".00", "").replace(".0 ", " ")
}

/// Returns vertical lines at ticks from the top of a row to its bottom, as one path.
pub(super) fn upright(axis: &Axis, ticks: &[f64], height: f64) -> Markup {
    let line = |tick: &f64| format!("M{} 0v{}", px(axis.at(*tick)), px(height));
    html! { path.grid d=(ticks.iter().map(line).collect::<String>()) {} }
}

/// Returns the middle of a label and half its width. At the rims the label moves inwards, so that nothing is cut off.
fn place(x: f64, label: &str) -> (f64, f64) {
    let half = (label.chars().count() as f64 * LETTER / 2.0).min(WIDTH / 2.0);
    (x.clamp(half, WIDTH - half), half)
}

/// Returns for each label of a line whether it is shown: it must not overlap the one shown before it.
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

/// Returns a plot of this height, with a description for screen readers.
pub(super) fn svg(height: f64, about: &str, inside: Markup) -> Markup {
    html! {
        svg.plot viewBox=(format!("0 0 {} {}", px(WIDTH), px(height))) role="img" aria-label=(about) { (inside) }
    }
}

/// Returns a plot of points that pointer and keyboard can reach one by one: see [`spot`].
pub(super) fn svg_of_spots(height: f64, about: &str, inside: Markup) -> Markup {
    html! {
        svg.plot viewBox=(format!("0 0 {} {}", px(WIDTH), px(height))) role="group" aria-label=(about) { (inside) }
    }
}

/// Returns the point of a case with a text for hover and focus: `lines` appear one below the other from `top` on.
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

/// Returns a row of a plot that the keyboard can reach. It shows its description on hover and focus.
pub(super) fn row(height: f64, about: &str, inside: Markup) -> Markup {
    html! {
        div.row tabindex="0" role="img" aria-label=(about) {
            svg.plot viewBox=(format!("0 0 {} {}", px(WIDTH), px(height))) { (inside) }
            span.said { (about) }
        }
    }
}

/// Returns a row with its description in the style sheet alone, which saves an element.
pub(super) fn bare_row(height: f64, about: &str, inside: Markup) -> Markup {
    html! {
        div.row.bare tabindex="0" role="img" aria-label=(about) {
            svg.plot viewBox=(format!("0 0 {} {}", px(WIDTH), px(height))) { (inside) }
        }
    }
}

/// Returns the figures of a picture as a table, for readers that cannot use the picture.
pub(super) fn twin(figures: &Table) -> Markup {
    html! { details.twin { summary { "The figures as a table" } (table(figures)) } }
}

/// Breaks a case into lines that fit in a plot, after its parts.
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
    fn ratios_have_round_labels_on_both_sides_of_one() {
        for (from, to, want) in [
            (0.3, 12.0, vec!["⅓×", "1×", "3×", "10×"]),
            (0.4, 3.0, vec!["½×", "1×", "2×"]),
            (0.02, 60.0, vec!["1/30×", "1/10×", "⅓×", "1×", "3×", "10×", "30×"]),
            (0.9, 1.2, vec!["0.90×", "0.95×", "1.00×", "1.05×", "1.10×", "1.15×", "1.20×"]),
        ] {
            let (ticks, labels) = ratio_ticks(&Axis::log(from, to, 0.0, 100.0));
            assert_eq!(labels, want, "{from} {to}");
            assert!(ticks.windows(2).all(|w| w[0] < w[1]) && ticks.len() == labels.len(), "{ticks:?}");
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
