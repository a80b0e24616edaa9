//! Self-contained page of runs: tables and plots, without scripts and external resources.
//!
//! The markup library escapes everything that comes from a run. Control characters are shown as a code. Plots are inline SVG, as
//! wide as their column, so that the page is readable on a phone. Colours follow the reader's light or dark scheme.

mod card;
mod compared;
mod cost;
mod document;
mod drift;
mod embedded;
mod fleet;
mod history;
mod mark;
mod marks;
mod networks;
mod peers;
mod picture;
mod plot;
mod plots;
mod ratios;
mod roofline;
mod strip;
mod table;
mod taxed;
mod training;

use maud::{Markup, html};
use parallax_schema::catalog::Catalog;
use parallax_schema::record::NamedRun;

pub use self::card::card;
pub(super) use self::compared::{compared, plotted, ratios_of, verdicts_by_family};
pub(super) use self::cost::{figure as cost_figure, short};
pub(super) use self::document::{document, shown};
pub(super) use self::embedded::one_call;
pub use self::embedded::*;
pub use self::fleet::fleet;
pub use self::history::history;
pub(super) use self::history::{series as history_series, totals as history_totals};
pub(super) use self::peers::peer_rows;
pub(super) use self::picture::{cost_picture, roofline_picture};
pub(super) use self::plots::{of_device, plots};
pub(super) use self::roofline::roofline as roofline_of;
pub use self::table::table_width;
pub(super) use self::table::{anchored, table};
pub(super) use self::taxed::{taxed, taxed_by_family};
use super::date::date;
use crate::Table;
use parallax_analysis::compare::Comparison;
use parallax_analysis::compare::tax::Tax;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Baseline, Run, completion_step};
use parallax_schema::units::{percent, sentence};

const STYLE: &str = concat!(
    include_str!("html/style.css"),
    include_str!("html/parts.css"),
    include_str!("html/plot.css"),
    include_str!("html/dark.css")
);

/// Returns a page about one or more named runs, with their comparison and the portability tax if those are given.
pub fn page(catalog: &dyn Catalog, runs: &[NamedRun], comparison: Option<&Comparison>, tax: Option<&Tax>) -> String {
    let names: Vec<&str> = runs.iter().map(|NamedRun { name, .. }| name.as_str()).collect();
    let title = format!("Parallax: {}", names.join(", "));
    let body = html! {
        header {
            h1 { (title) }
            @if let Some(comparison) = comparison { p { (sentence(&comparison.tally())) } }
        }
        main {
            section { h2 { "Runs" } div.cards.large { @for NamedRun { name, run } in runs { (head(name, run)) } } }
            (networks::networks(runs))
            (models(runs, comparison.map_or(0, |comparison| comparison.base)))
            @if let Some(comparison) = comparison { (compared(catalog, &comparison.clone().by_case())) }
            @if let Some(tax) = tax { section { h2 { "Portability tax" } (taxed(catalog, tax)) } }
            @if comparison.is_none() && tax.is_none() {
                @for NamedRun { name, run } in runs { section { h2 { "Cases of " (name) } (table(&without_heading(catalog, run))) } }
            }
            (scaling(catalog, runs))
            (training::training(runs))
            (plots(&html! { "Devices" }, runs.iter().flat_map(|NamedRun { name, run }| of_device(name, run))))
            (samples(runs))
        }
        footer { p.soft { "All samples are in the run files; this page can be made again from them." } }
    };
    document(html! { title { (title) } }, Some(STYLE), body)
}

/// Returns one run's place and date, the quality of its clocks, and the ceilings of its device.
pub(super) fn head(name: &str, run: &Run) -> Markup {
    let commit = if run.suite.commit.is_empty() { "unknown" } else { &run.suite.commit };
    html! {
        div.card {
            h3 { (name) }
            dl {
                dt { "device" } dd { (crate::device_line(run)) }
                @if let Some(date) = date(run.started) { dt { "begun" } dd { time datetime=(date) { (date) } } }
                dt { "suite" } dd { (run.suite.version) ", commit " (commit) }
                dt { "cases" } dd { (crate::tally(run)) }
                @if let Some(why) = &run.interrupted { dt { "ended early" } dd { (why) } }
                dt { "clock" } dd { (crate::clock_line(run)) }
                dt { "stamps" } dd { (percent(run.clock.zero_share)) " empty, " (percent(run.clock.negative_share)) " backwards" }
                @if let Some((median, wander)) = drift::wander(run) {
                    dt { "reference kernel" } dd { (median) ", " (percent(wander)) " from fastest to slowest" }
                }
                @match &run.baseline {
                    Some(baseline) => { (self_test(baseline)) (ceilings(baseline)) }
                    None => { dt { "self-test" } dd { "none in this file: clocks and ceilings were not tested" } }
                }
            }
            @if !run.environment.is_empty() {
                details {
                    summary { "environment" }
                    dl { @for (key, value) in &run.environment { dt { (key.replace('_', " ")) } dd { (value) } } }
                }
            }
        }
    }
}

fn self_test(baseline: &Baseline) -> Markup {
    let test = &baseline.timer;
    let spread = |s: &Summary| html! { (s.median) " [" (s.low) ", " (s.high) "]" };
    html! {
        @if let Some(completion) = &test.completion { dt { "completion" } dd { (spread(completion)) } }
        @if let Some(readback) = &test.readback { dt { "readback" } dd { (spread(readback)) } }
        @if let Some(step) = completion_step(&test.waits) { dt { "waiting" } dd { (step.sentence()) } }
        @if let Some(cross) = &test.cross_check {
            dt { "cross-check" }
            dd { (cross.device) " on the device's clock, " (cross.host) " on the host's; may differ by " (cross.allowed) }
        }
        @if let Some(why) = &test.demoted { dt { "not believed" } dd { (why) } }
    }
}

fn ceilings(baseline: &Baseline) -> Markup {
    html! {
        @for ceiling in crate::ceilings(&baseline.ceilings) {
            dt { (ceiling.name) } dd { (ceiling.value) " " (ceiling.detail) }
        }
        @for missing in &baseline.ceilings.missing { dt { "not measured" } dd { (missing) } }
    }
}

/// Returns a section of the models of runs: beside each other if they are of one, else one by one; nothing without a model.
fn models(runs: &[NamedRun], base: usize) -> Markup {
    let beside = crate::models_table(runs, base);
    let tables: Vec<Table> = match beside {
        Some(table) => vec![table],
        None => runs.iter().filter_map(|NamedRun { run, .. }| crate::model_table(run)).collect(),
    };
    html! {
        @if !tables.is_empty() {
            section { h2 { "Model" } @for one in &tables { (table(one)) } }
        }
    }
}

/// Returns a section of times along the axes of workloads and over GPUs; nothing without such tables.
fn scaling(catalog: &dyn Catalog, runs: &[NamedRun]) -> Markup {
    let along = parallax_analysis::compare::scaled(catalog, runs, None);
    let over_gpus = parallax_analysis::compare::over_gpus(catalog, runs);
    let tables = along.iter().map(crate::scaling_table).chain(over_gpus.iter().map(crate::gpus_table));
    let tables: Vec<Table> = tables.collect();
    html! {
        @if !tables.is_empty() {
            section { h2 { "Scaling" } @for one in &tables { (table(one)) } }
        }
    }
}

/// Returns a run's table without its heading, which stands elsewhere on the page.
fn without_heading(catalog: &dyn Catalog, run: &Run) -> Table {
    Table { heading: Vec::new(), ..crate::table(catalog, run) }
}

/// Returns the strips of every case with a time in any run, in the order of the runs.
pub(super) fn samples(runs: &[NamedRun]) -> Markup {
    let mut cases: Vec<&str> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for record in runs.iter().flat_map(|NamedRun { run, .. }| &run.records).filter(|r| r.timing().is_some()) {
        if seen.insert(&record.case) {
            cases.push(&record.case);
        }
    }
    html! {
        @if !cases.is_empty() {
            section {
                h2 { "Samples" }
                p.soft {
                    "Every dot is a sample, the line their median, the bar its 95 % interval; crosses were discarded. The height \
                     of a dot has no meaning. Runs far apart have an axis each."
                }
                div.cards {
                    @for case in cases { figure.card { figcaption { (case) } (strip::strip(case, runs)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape;
    use parallax_analysis::compare::{Options, compare};
    use parallax_schema::case::DType;
    use parallax_schema::record::roofline::{Arithmetic, Bandwidth, Ceilings};
    use parallax_schema::record::{Discarded, TimerTest};
    use parallax_schema::testing;
    use parallax_schema::testing::{drift, measured, spread};
    use parallax_schema::units::{Bytes, Nanos};
    use parallax_workloads::Registry;

    const CASE: &str = "attention/fwd/b1,h1,s4,d2/f32/flash";
    const HOSTILE: &str = "a/fwd/<script>alert(\"1\")</script>&'/f32/x";

    fn count(text: &str, what: &str) -> usize {
        text.matches(what).count()
    }

    fn runs() -> [NamedRun; 2] {
        [("<b>one</b>", 100.0), ("two", 150.0)].map(|(name, time)| {
            let cases = [(CASE, spread(time, 0.01, 50)), (HOSTILE, spread(time * 9.0, 0.3, 8))];
            NamedRun::new(name, testing::run("cuda", "\"><img src=x onerror=alert(1)>", &cases))
        })
    }

    #[test]
    fn hostile_names_stay_text_and_nothing_comes_from_elsewhere() {
        let runs = runs();
        let comparison = compare(&runs, &Options::default()).expect("pairs");
        for text in [page(&Registry, &runs, Some(&comparison), None), page(&Registry, &runs, None, None)] {
            for forbidden in ["<script", "<img", "<b>", "http://", "https://", "url(", "<link", "@import", "NaN", "inf"]
            {
                assert!(!text.contains(forbidden), "{forbidden} in {text}");
            }
            assert!(text.contains("&lt;script&gt;") && text.contains("&lt;img"));
            assert!(text.contains("prefers-color-scheme: dark") && text.contains("name=\"viewport\""));
        }
    }

    /// Characters that a terminal, a browser or an XML reader would obey; `SHOWN` is their escaped form.
    const ACTING: &str = "a\u{1b}\u{9b}\u{7f}\0\r\n\tb\u{61c}\u{200e}\u{202e}\u{2069}\u{206a}\u{2028}\u{ffff}c";
    const SHOWN: &str = r"a\u{1b}\u{9b}\u{7f}\u{0}\r\n\tb\u{61c}\u{200e}\u{202e}\u{2069}\u{206a}\u{2028}\u{ffff}c";

    #[test]
    fn acting_characters_are_codes_in_pages_parts_and_pictures() {
        let case = format!("matmul/fwd/m8,n8,k8/f32/{ACTING}");
        let named = |target: &str, time: f64| {
            let mut run = testing::run(target, ACTING, &[(&case, spread(time, 0.01, 50))]);
            run.environment.insert(ACTING.to_owned(), ACTING.to_owned());
            run.interrupted = Some(ACTING.to_owned());
            NamedRun::new(ACTING, run)
        };
        let runs = [named(ACTING, 100.0), named("cuda", 150.0)];
        let (made, costs) =
            (compare(&runs, &Options::default()).expect("pairs"), parallax_analysis::compare::costs(&runs));
        let (run, record) = (&runs[0].run, &runs[0].run.records[0]);
        let summary = parallax_schema::record::RunSummary::of(run);
        let mut all = vec![
            page(&Registry, &runs, Some(&made), None),
            page(&Registry, &runs, None, None),
            comparison(&Registry, &runs, &made, &costs),
            linked(&summary, Some((ACTING, &summary))),
            roofline_alone(run).expect("matmul does arithmetic"),
            roofline(run),
            samples_so_far(record),
        ];
        all.extend(cost_pictures(&costs).into_iter().map(|(_, picture)| picture));
        let site = crate::site::files(&runs, crate::site::Site::new(&Registry));
        all.extend(site.into_iter().filter(|file| !file.path.ends_with(".json")).map(|file| file.text));
        let acts = |c: char| escape(&c.to_string()) != c.to_string().as_str();
        let stray: Vec<char> = all.iter().flat_map(|text| text.chars()).filter(|c| *c != '\n' && acts(*c)).collect();
        assert_eq!(stray, []);
        assert!(all.iter().filter(|text| text.contains(SHOWN)).count() >= 6);
        let plain = page(&Registry, &super::tests::runs(), None, None);
        let body = plain.split_once("<body>").expect("a body").1;
        assert!(!body.contains("\\n"), "markup has no lines of its own");
    }

    #[test]
    fn every_plot_is_there_once() {
        let mut runs = runs();
        let comparison = compare(&runs, &Options::default()).expect("pairs");
        // Two strips, two rooflines; of ratios two rows and their axis.
        assert_eq!(count(&page(&Registry, &runs, Some(&comparison), None), "<svg"), 7);
        assert_eq!(count(&page(&Registry, &runs[..1], None, None), "<svg"), 3);
        runs[1].run.drift = drift(&spread(500.0, 0.01, 20));
        measured(&mut runs[1].run, CASE).timing.as_mut().expect("timed").discarded =
            vec![Discarded { time: 170.0, reason: "throttled".to_owned() }];
        let text = page(&Registry, &runs, Some(&comparison), None);
        assert_eq!(count(&text, "<svg"), 8, "one more, for the drift");
        assert!(!text.contains("that are smaller are noise"), "it was calm");
        runs[1].run.drift = drift(&spread(500.0, 0.1, 20));
        assert!(page(&Registry, &runs, None, None).contains("that are smaller are noise"), "it wandered");
        assert!(text.contains("1 discarded") && text.contains("class=\"aside\""));
        assert_eq!(count(&text, "class=\"whisker\""), 2, "a bar for each ratio");
    }

    #[test]
    fn ceilings_are_drawn_and_listed() {
        let mut run = runs()[0].run.clone();
        let ceilings = Ceilings {
            bandwidth: vec![
                Bandwidth { working_set: Bytes(1 << 20), rate: 9e12, probe: "read".to_owned() },
                Bandwidth { working_set: Bytes(1 << 30), rate: 3.7e12, probe: "copy".to_owned() },
            ],
            arithmetic: vec![Arithmetic { dtype: DType::F32, matrix: false, rate: 6e13, probe: "fma".to_owned() }],
            dispatch: Some(Nanos(1500.0)),
            ..Ceilings::default()
        };
        let before = page(&Registry, &[NamedRun::new("one", run.clone())], None, None);
        assert_eq!((count(&before, "class=\"roof\""), before.contains("not measured")), (0, true));
        run.baseline = Some(Baseline { clock: run.clock.clone(), timer: TimerTest::default(), ceilings });
        let text = page(&Registry, &[NamedRun::new("one", run)], None, None);
        assert_eq!(count(&text, "class=\"roof\""), 3);
        assert!(text.contains("3.70 TB/s at 1.07 GB") && text.contains("60.0 TFLOP/s (fma)"));
    }
}
