//! Card of 1200 × 630 pixels about a run, for previews of a link in chats and slides.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};
use parallax_analysis::Family;
use parallax_schema::case::title;
use parallax_schema::case::{problem_of, variant_of, workload_of};
use parallax_schema::record::RunSummary;
use parallax_schema::units::Nanos;

use super::{mark, picture, shown};
use crate::{escape, linked_cases};

const WIDTH: usize = 1200;
const HEIGHT: usize = 630;
const MARGIN: usize = 64;

/// Number of problems on the card, in two columns.
const SHOWN: usize = 8;

/// Workloads that most readers know; others follow them.
const FIRST: [&str; 8] = ["attention", "matmul", "conv2d", "softmax", "layernorm", "embedding", "reduce", "copy"];

/// Returns the number of letters that fit in a line, by its size in pixels. A letter is half as wide as it is high, or a little
/// more.
fn room(size: usize) -> usize {
    (WIDTH - 2 * MARGIN) * 20 / (size * 11)
}

/// Style of the card beside that of pictures, which gives the colours.
const STYLE: &str = "text{font-family:system-ui,sans-serif;fill:var(--ink)}.soft{fill:var(--soft)}.bold{font-weight:700}\
                     .near{fill:var(--near)}.far{fill:var(--far);fill-opacity:.82}";

/// Returns the card of a run's summary as a stand-alone SVG, with the facts of the device if they are known.
pub fn card(summary: &RunSummary, facts: Option<&str>) -> String {
    let device = cut(&escape(summary.called()), room(58));
    let way = cut(&escape(&format!("{} · {}", summary.way(), summary.api)), room(26));
    let cases = format!("Checked against a reference: {}.", linked_cases(summary));
    let lines = facts.map_or_else(Vec::new, |facts| lines(&escape(facts), room(30)));
    let below = 206 + 40 * lines.len();
    let inside = html! {
            rect.paper width=(WIDTH) height=(HEIGHT) {}
            rect.near width=(WIDTH) height="10" {}
            (logo())
            text.bold x=(MARGIN) y="144" font-size="58" { (device) }
            text.soft x=(MARGIN) y="186" font-size="26" { (way) }
            @for (i, line) in lines.iter().enumerate() { text x=(MARGIN) y=(226 + 40 * i) font-size="30" { (line) } }
            (fastest(summary, below + 34))
            text.soft x=(MARGIN) y=(HEIGHT - 36) font-size="24" { (cut(&cases, room(24))) }
    };
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) height=(HEIGHT) {
            title { (device) }
            style { (PreEscaped(picture::STYLE)) (PreEscaped(STYLE)) }
            (shown(inside))
        }
    };
    markup.into_string()
}

/// Returns the mark and the name of the program.
fn logo() -> Markup {
    html! {
        circle.near cx=(MARGIN + 14) cy="54" r="15" {}
        circle.far cx=(MARGIN + 28) cy="54" r="15" {}
        text.bold x=(MARGIN + 56) y="64" font-size="30" { "Parallax" }
    }
}

/// Returns the fastest version of one problem of each workload, with the mark of its family.
fn fastest(summary: &RunSummary, top: usize) -> Markup {
    let mut best: BTreeMap<(usize, &str), (Nanos, &str)> = BTreeMap::new();
    let passed = summary.cases.iter().filter(|case| case.verdict == "pass");
    for (case, figure) in passed.filter_map(|case| Some((case.case.as_str(), case.figure?))) {
        let workload = workload_of(case);
        let key = (FIRST.iter().position(|name| *name == workload).unwrap_or(FIRST.len()), workload);
        let known = best.entry(key).or_insert((figure.median, case));
        if problem_of(known.1) == problem_of(case) && figure.median.0 < known.0.0 {
            *known = (figure.median, case);
        }
    }
    let half = (WIDTH - 2 * MARGIN - 60) / 2;
    html! {
        @for (i, ((_, workload), (median, case))) in best.iter().take(SHOWN).enumerate() {
            @let family = Family::of(case);
            @let (x, y) = (MARGIN + (i % 2) * (half + 60), top + (i / 2) * 52);
            g class=(mark::class(family)) { (mark::shape(family, (x as f64 + 10.0, y as f64 - 9.0), 9.0, "swatch")) }
            text x=(x + 32) y=(y) font-size="26" { (cut(&title(workload), 24)) }
            text.bold.end x=(x + half) y=(y) font-size="26" { (median) }
            text.soft x=(x + 32) y=(y + 20) font-size="16" { (cut(&escape(&format!("{} {}", problem_of(case).rsplit('/').next().unwrap_or_default(), variant_of(case))), 40)) }
        }
    }
}

/// Returns the string, cut to at most `most` characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).collect::<String>() + "…" }
}

/// Returns a sentence in at most two lines.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= most {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    if lines.len() > 2 {
        lines.truncate(2);
        lines[1] += " …";
    }
    lines.iter().map(|line| cut(line, most)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::{run, spread};

    #[test]
    fn a_card_names_the_device_and_the_fastest_versions() {
        let cases = [
            ("attention/fwd/b1,h1,s8,d8/f16/flash", spread(2_000.0, 0.01, 40)),
            ("attention/fwd/b1,h1,s8,d8/f16/manual", spread(9_000.0, 0.01, 40)),
            ("copy/fwd/n64/f32/vec4", spread(100.0, 0.01, 40)),
        ];
        let summary = RunSummary::of(&run("browser", "X <\u{1}>", &cases));
        let card = card(&summary, Some("2 TB/s memory."));
        for part in [
            "width=\"1200\" height=\"630\"",
            "X &lt;",
            "2 TB/s memory.",
            "Attention",
            "2.00 µs",
            "f16 flash",
            "Copy",
            "3 cases, all correct",
        ] {
            assert!(card.contains(part), "{part} in {card}");
        }
        for absent in ["manual", "<script", "url(", "@import", "href", "\u{1}"] {
            assert!(!card.contains(absent), "{absent} in {card}");
        }
    }

    #[test]
    fn long_names_are_cut() {
        let long = "A very long name of a device ".repeat(40);
        let summary = RunSummary::of(&run("browser", &long, &[("copy/fwd/n64/f32/vec4", spread(100.0, 0.01, 40))]));
        let card = card(&summary, Some(&long));
        assert!(card.matches('…').count() >= 2 && card.len() < 12_000, "{}", card.len());
    }
}
