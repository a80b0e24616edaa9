//! Page of a history: a card with a sparkline for each series, changed ones first.

use maud::{Markup, html};
use parallax_analysis::compare::verdict::Verdict;
use parallax_analysis::history::{Change, History, Kind, Point, Series};
use parallax_schema::record::stats::{geometric_mean, quantile};
use parallax_schema::units::{counted, sentence};

use super::plot::{Axis, LINE, WIDTH, number_labels, px, svg};
use super::table::table;
use super::{STYLE, document};
use crate::history::{begun, commit, detectable, notes, place, ratio, span};
use crate::{Cell, Column, Rank, Table};

/// Top of the curve.
const TOP: f64 = 8.0;
/// Bottom of the curve.
const BOTTOM: f64 = 84.0;
/// Left end of the curve, right of the labels.
const LEFT: f64 = 52.0;
/// Largest number of dots of a sparkline. A dot stands for neighbouring runs where there are more.
const MOST_DOTS: usize = 180;

/// Returns the page of a history.
pub fn history(history: &History) -> String {
    let title = format!("Parallax: history of {}", counted(history.runs.len(), "run"));
    let body = html! {
        header {
            h1 { (title) }
            p { (totals(history)) }
        }
        main { (series(history, usize::MAX)) }
        footer { p.soft { "All samples are in the run files; this page can be made again from them." } }
    };
    document(html! { title { (title) } }, Some(STYLE), body)
}

/// Returns the number of runs, their dates, and the number of series by state, as a sentence.
pub(crate) fn totals(history: &History) -> String {
    sentence(&format!("{}; {}", span(history), history.tally()))
}

/// Returns the sections of changed series, stable ones and short ones, and of the files. Each has at most `most` series: those with the
/// newest changes, or with the most runs.
pub(crate) fn series(history: &History, most: usize) -> Markup {
    let (mut stable, mut short): (Vec<&Series>, Vec<&Series>) =
        history.series.iter().filter(|series| series.changes.is_empty()).partition(|series| series.is_long_enough());
    for series in [&mut stable, &mut short] {
        series.sort_by_key(|series| std::cmp::Reverse(series.points.len()));
    }
    let changed = history.changed();
    html! {
        section {
            h2 { "Changed series" }
            p.soft {
                "Every dot is the median of a run, in the order of the runs; lines are the levels before and after a change. The thin \
                 curve is the reference kernel of the same runs. All are relative to their first level. Only changes by the kernel \
                 have a colour."
            }
            @if changed.is_empty() { p { "None." } }
            div.cards.large { @for series in changed.iter().take(most) { (card(history, series)) } }
            (further(changed.len(), most))
        }
        (rest(history, "Stable series", &stable, most))
        (rest(history, "Series with too few runs", &short, most))
        section { h2 { "Files" } ul.soft { @for note in notes(history) { li { (note) } } } }
    }
}

/// Returns a closed section of series without changes; nothing without series.
fn rest(history: &History, title: &str, series: &[&Series], most: usize) -> Markup {
    html! {
        @if !series.is_empty() {
            section {
                h2 { (title) }
                details {
                    summary { (series.len()) " series" }
                    div.cards { @for series in series.iter().take(most) { (card(history, series)) } }
                    (further(series.len(), most))
                }
            }
        }
    }
}

/// Returns a note about series that are not shown.
fn further(count: usize, most: usize) -> Markup {
    html! {
        @if count > most {
            p.soft { (count - most) " more; " code { "parallax history FILES --format html" } " shows all." }
        }
    }
}

fn card(history: &History, series: &Series) -> Markup {
    html! {
        figure.card {
            figcaption { (series.key.case) }
            p.soft { (place(&series.key)) "; " (detectable(series)) }
            (sparkline(history, series))
            @if !series.changes.is_empty() { (table(&changes(history, series))) }
        }
    }
}

/// Returns the changes of a series, newest first.
fn changes(history: &History, series: &Series) -> Table {
    let row = |change: &Change| {
        let since = Cell::from(commit(&change.commit)).with(begun(&history.runs[change.run]));
        vec![ratio(change), Cell::from(change.kind.name()).with(change.grounds.as_str()), since]
    };
    Table {
        columns: vec![
            Column::text("change"),
            Column::figure("cause", Rank::Essential),
            Column::figure("since", Rank::Essential),
        ],
        rows: series.changes.iter().rev().map(row).collect(),
        ..Table::default()
    }
}

/// Part of a series between two changes.
struct Part<'s> {
    from: usize,
    points: &'s [Point],
    /// Class of its colour: that of the change before it.
    class: &'static str,
    /// Level of the part over the first level.
    level: f64,
}

/// Returns the geometric mean of times, in nanoseconds.
fn mean(times: impl IntoIterator<Item = f64>) -> f64 {
    geometric_mean(times).map_or(1.0, |(mean, _)| mean)
}

fn parts(series: &Series) -> Vec<Part<'_>> {
    let places: Vec<usize> = series.changes.iter().map(|change| change.point).collect();
    let ends = places.iter().copied().chain([series.points.len()]);
    let begins = std::iter::once((0, None)).chain(series.changes.iter().map(|change| (change.point, Some(change))));
    let mut all: Vec<Part> = Vec::new();
    for ((from, change), to) in begins.zip(ends) {
        let points = &series.points[from..to];
        let class = match change.map(|change| (change.kind, change.verdict)) {
            None => "device",
            Some((Kind::Kernel, Verdict::Slower)) => "slower",
            Some((Kind::Kernel, _)) => "faster",
            Some(_) => "same",
        };
        all.push(Part { from, points, class, level: mean(points.iter().map(|point| point.level.median.0)) });
    }
    let first = all.first().map_or(1.0, |part| part.level);
    all.iter_mut().for_each(|part| part.level /= first);
    all
}

/// Returns the medians of neighbours, with their places, so that at most [`MOST_DOTS`] remain.
fn thinned(values: &[(usize, f64)]) -> Vec<(f64, f64)> {
    let one = |values: &[(usize, f64)]| {
        let mut sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        (values.iter().map(|(at, _)| *at as f64).sum::<f64>() / values.len() as f64, quantile(&sorted, 0.5))
    };
    values.chunks(values.len().div_ceil(MOST_DOTS).max(1)).map(one).collect()
}

fn sparkline(history: &History, series: &Series) -> Markup {
    let parts = parts(series);
    let first = mean(parts[0].points.iter().map(|point| point.level.median.0));
    let medians: Vec<(usize, f64)> =
        series.points.iter().enumerate().map(|(i, point)| (i, point.level.median.0 / first)).collect();
    let reference = reference(history, series, parts[0].points.len());
    let (dots, curve) = (thinned(&medians), thinned(&reference));
    // The axis spans at least two per cent to either side, so that mere noise looks small.
    let shown = dots.iter().map(|(_, value)| *value).chain(parts.iter().map(|part| part.level));
    let (low, high) = shown.fold((0.98f64, 1.02f64), |(low, high), value| (low.min(value), high.max(value)));
    let last = series.points.len().saturating_sub(1).max(1) as f64;
    let x = |at: f64| px(LEFT + 4.0 + at / last * (WIDTH - LEFT - 10.0));
    let y = Axis::log(low, high, BOTTOM, TOP);
    let ticks = y.ticks(3);
    let run = |i: usize| &history.runs[series.points[i].run];
    let inside = html! {
        @for (tick, label) in ticks.iter().zip(number_labels(&ticks)) {
            line.grid x1=(px(LEFT)) x2=(px(WIDTH - 6.0)) y1=(px(y.at(*tick))) y2=(px(y.at(*tick))) {}
            text.tick.end x=(px(LEFT - 4.0)) y=(px(y.at(*tick) + 4.0)) { (label) "×" }
        }
        @if curve.len() > 1 {
            g.same {
                polyline.curve points=(curve.iter().map(|(at, value)| format!("{},{} ", x(*at), px(y.at(*value)))).collect::<String>()) {}
            }
        }
        @for part in &parts {
            @let (from, to) = (part.from as f64, (part.from + part.points.len() - 1) as f64);
            @let within = dots.iter().filter(|(at, _)| (from..=to).contains(at));
            g.(part.class) {
                line.median x1=(x(from)) x2=(x(to)) y1=(px(y.at(part.level))) y2=(px(y.at(part.level))) {}
                path.dots d=(within.map(|(at, value)| format!("M{} {}h0", x(*at), px(y.at(*value)))).collect::<String>()) {}
            }
        }
        text.tick x=(px(LEFT)) y=(px(BOTTOM + LINE)) { (day(&begun(run(0)))) }
        @if series.points.len() > 1 {
            text.tick.end x=(px(WIDTH - 6.0)) y=(px(BOTTOM + LINE)) { (day(&begun(run(series.points.len() - 1)))) }
        }
    };
    svg(BOTTOM + LINE + 4.0, &about(series), inside)
}

/// Returns the day of a date with its time.
fn day(begun: &str) -> String {
    begun.split_once(' ').map_or(begun, |(day, _)| day).to_owned()
}

/// Returns the description of a sparkline for screen readers.
fn about(series: &Series) -> String {
    let change = |change: &Change| format!("{} since {}", ratio(change).text, commit(&change.commit));
    let changes: Vec<String> = series.changes.iter().map(change).collect();
    let said = if changes.is_empty() { "no change".to_owned() } else { changes.join(", ") };
    format!("{}: {}, {said}", series.key.case, counted(series.points.len(), "run"))
}

/// Returns the times of the reference kernel over their mean in the first part, by the place of their run.
fn reference(history: &History, series: &Series, first: usize) -> Vec<(usize, f64)> {
    let time = |(i, point): (usize, &Point)| Some((i, history.runs[point.run].reference?.median.0));
    let times: Vec<(usize, f64)> = series.points.iter().enumerate().filter_map(time).collect();
    let level = mean(times.iter().filter(|(i, _)| *i < first).map(|(_, time)| *time));
    times.into_iter().map(|(i, time)| (i, time / level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{rows, table};
    use crate::sheet::csv;
    use parallax_analysis::history::HistoryBuilder;
    use parallax_schema::testing::{drift, run, spread};

    const CASE: &str = "matmul/fwd/m8,n8,k8/f32/<script>alert(1)</script>\u{202e}";

    /// Returns a history of this many runs, a case of which is 10 % slower in the second half.
    fn example(count: u64) -> History {
        let mut builder = HistoryBuilder::default();
        for night in 0..count {
            let noise = 1.0 + 0.0005 * ((night * 7) % 11) as f64;
            let step = if night >= count / 2 { 1.1 } else { 1.0 };
            let cases = [
                (CASE, spread(1000.0 * noise * step, 0.002, 9)),
                ("copy/fwd/n8/f32/vec4", spread(500.0 * noise, 0.002, 9)),
            ];
            let mut one = run("cuda", "<b>GPU</b>", &cases);
            one.started = 1_700_000_000 + 86_400 * night;
            one.suite.commit = format!("{night}<i>");
            one.drift = drift(&spread(300.0, 0.002, 9));
            builder.add(&format!("{night}.json"), &one, |_| true);
        }
        builder.skip("<u>.json".to_owned(), "not JSON".to_owned());
        builder.finish(None)
    }

    #[test]
    fn a_page_has_a_sparkline_per_series_and_hostile_names_stay_text() {
        let found = example(24);
        let text = history(&found);
        assert_eq!(text.matches("<svg").count(), 2);
        assert_eq!(text.matches("class=\"median\"").count(), 3, "levels: two of the changed series, one of the other");
        for forbidden in ["<script", "<b>", "<i>", "<u>", "http://", "https://", "NaN", "inf,", "\u{202e}"] {
            assert!(!text.contains(forbidden), "{forbidden}");
        }
        assert!(text.contains("1.1") && text.contains("Stable series") && text.contains("&lt;u&gt;.json: not JSON"));
        let markdown = table(&found).markdown();
        assert!(!markdown.contains("<script") && markdown.contains("slower | kernel | 12&lt;i>"), "{markdown}");
    }

    #[test]
    fn thousands_of_runs_are_thinned_for_the_page_alone() {
        let found = example(1000);
        let dots = |text: &str| text.matches("h0").count();
        let page = history(&found);
        assert!(dots(&page) <= 2 * MOST_DOTS && dots(&page) > MOST_DOTS, "{}", dots(&page));
        let text = csv(&rows(&found));
        assert_eq!(text.lines().count(), 2001);
        let read: Vec<crate::history::HistoryRow> =
            csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().expect("its own reader");
        assert_eq!(read.iter().filter(|row| row.change.is_some()).count(), 1);
        assert_eq!(read[1].median_ns, found.series[0].points[1].level.median.0);
    }

    #[test]
    fn a_single_run_has_a_page() {
        let text = history(&example(1));
        assert!(text.contains("Series with too few runs") && !text.contains("NaN"));
        assert!(text.contains("history of 1 run<"));
    }
}
