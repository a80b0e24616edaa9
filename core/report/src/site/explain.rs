//! Explanations of the figures, one page each, with the matching data of the site's runs.

use std::collections::BTreeSet;

use maud::{Markup, PreEscaped, html};
use parallax_analysis::compare::tax::{Pairing, tax};
use parallax_schema::case::{by_case, problem_of, variant_of};
use parallax_schema::device::BrowserMode;
use parallax_schema::record::{NamedRun, Record, Run, completion_step};

use super::Site;
use super::devices::Devices;
use super::features::features;
use super::frame::{Head, page as whole, tools};
use super::front::sentence;
use crate::html::{table, taxed_by_family};
use crate::{Cell, Column, Rank, Table, ceilings, clock_line, named, route_name};

/// One page: its name in paths, its title, a sentence, its text, and the data of the runs.
pub(super) struct Topic {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    text: &'static str,
    figures: fn(&Devices<'_>) -> Markup,
}

/// Pages below `explain/`.
pub(super) const TOPICS: [Topic; 7] = [
    Topic {
        name: "tax",
        title: "Cost of the browser, part by part",
        about: "kernel, dispatch, completion, readback, and the ratios of each",
        text: include_str!("explain/tax.html"),
        figures: costs,
    },
    Topic {
        name: "waiting",
        title: "When a page knows that the GPU is done",
        about: "a step of milliseconds that no kernel shows, and how to avoid it",
        text: include_str!("explain/waiting.html"),
        figures: waiting,
    },
    Topic {
        name: "roofline",
        title: "Rooflines",
        about: "limits measured through the same interface, and the distance of a kernel from them",
        text: include_str!("explain/roofline.html"),
        figures: limits,
    },
    Topic {
        name: "clock",
        title: "Clocks",
        about: "source of the time, its step, and reasons to distrust it",
        text: include_str!("explain/clock.html"),
        figures: clocks,
    },
    Topic {
        name: "verdict",
        title: "Verdicts",
        about: "meaning of same, faster, slower and undecided",
        text: include_str!("explain/verdict.html"),
        figures: |_| html! {},
    },
    Topic {
        name: "correctness",
        title: "Right output first",
        about: "outputs filled with a marker first, a reference in 64 bits, bounds with their reasons",
        text: include_str!("explain/correctness.html"),
        figures: checks,
    },
    Topic {
        name: "features",
        title: "Features, skips and fallbacks",
        about: "parts of the chip that an interface offers, and variants without them",
        text: include_str!("explain/features.html"),
        figures: features,
    },
];

impl Topic {
    /// Returns the path of the page in the site.
    pub fn path(&self) -> String {
        format!("explain/{}", self.name)
    }
}

/// Returns path, title and a sentence of every page.
pub(super) fn topics() -> impl Iterator<Item = (String, &'static str, &'static str)> {
    TOPICS.iter().map(|topic| (topic.path() + "/", topic.title, topic.about))
}

/// `/explain/`.
pub(super) fn index(site: Site) -> String {
    let head = &Head { depth: 1, title: "Explained", about: "Meaning and limits of the figures of Parallax." };
    let main = html! {
        h1 { "Meaning of the figures" }
        ul.topics {
            @for (path, title, about) in topics() { li { a href=(head.to(&path)) { (title) } ": " (about) } }
            @if site.docs {
                li { a href=(head.to("docs/methodology/")) { "Methodology" } ": clocks, warm-up, batches, checks and ceilings in full" }
                li { a href=(head.to("docs/limits/")) { "Limits" } ": questions that the figures cannot answer" }
            }
        }
    };
    whole(head, site, &main)
}

/// `/explain/NAME/`.
pub(super) fn page(topic: &Topic, devices: &Devices<'_>, site: Site) -> String {
    let head = &Head { depth: 2, title: topic.title, about: topic.about };
    let main = html! {
        h1 { (topic.title) }
        div.prose { (PreEscaped(topic.text.replace('\n', " "))) }
        ((topic.figures)(devices))
        p { a href=(head.to("explain/")) { "All explanations" } }
    };
    whole(head, site, &main)
}

/// Returns a table with the rows of `say` for every view of every device; nothing without rows.
fn of_views(
    devices: &Devices<'_>,
    title: &str,
    columns: [&str; 2],
    say: impl Fn(&Run) -> Vec<(String, String)>,
) -> Markup {
    let mut rows = Vec::new();
    for device in devices.all() {
        for kept in device.views() {
            let target = route_name(&kept.run.route());
            let row = |(what, value): (String, String)| {
                [format!("{}, {target}", device.name), what, value].map(Cell::from).into()
            };
            rows.extend(say(kept.run).into_iter().map(row));
        }
    }
    let columns = vec![Column::text("device"), Column::text(columns[0]), Column::text(columns[1])];
    html! { @if !rows.is_empty() { section { h2 { (title) } (table(&Table { columns, rows, ..Table::default() })) } } }
}

fn costs(devices: &Devices<'_>) -> Markup {
    let Some((device, cost)) = devices.told() else { return html! {} };
    // Two columns a target and two a ratio: further engines and modes are on the device's page.
    let plain = |run: &Run| {
        let route = run.route();
        run.compiled_as_usual() && route.browser.is_none() && route.reach != Some(BrowserMode::Unsafe)
    };
    let shown = device.views().into_iter().filter(|kept| plain(kept.run));
    let runs: Vec<NamedRun> = shown.map(|kept| kept.named.clone()).collect();
    let found = tax(&runs, None, false, Pairing::Same).ok();
    html! {
        section {
            h2 { "On " (device.name) }
            p { (sentence(device, &cost, "../../")) }
            @if let Some(found) = found { (tools()) (taxed_by_family(devices.catalog, &found)) }
        }
    }
}

fn waiting(devices: &Devices<'_>) -> Markup {
    of_views(devices, "Results of the self-tests", ["test", "result"], |run| {
        let Some(test) = run.baseline.as_ref().map(|baseline| &baseline.timer) else { return Vec::new() };
        let empty = test
            .completion
            .map(|summary| ("an empty submission is known to be done after".to_owned(), summary.median.to_string()));
        let step = completion_step(&test.waits).map(|step| ("a step".to_owned(), step.sentence()));
        empty.into_iter().chain(step).collect()
    })
}

fn limits(devices: &Devices<'_>) -> Markup {
    of_views(devices, "Limits that were measured", ["limit", "value"], |run| {
        let Some(baseline) = &run.baseline else { return Vec::new() };
        ceilings(&baseline.ceilings)
            .into_iter()
            .map(|limit| (limit.name, format!("{} {}", limit.value, limit.detail)))
            .collect()
    })
}

fn clocks(devices: &Devices<'_>) -> Markup {
    of_views(devices, "The clocks of these runs", ["API", "clock"], |run| {
        vec![(run.device().api.clone(), clock_line(run))]
    })
}

fn checks(devices: &Devices<'_>) -> Markup {
    html! { (comparisons(devices)) (kept_in_f32(devices)) }
}

/// Names of the variants that keep intermediate sums in f32, and that round them to the element type between kernels.
const ROUNDED: [&str; 2] = ["fused", "separate"];

/// Returns the errors of problems in 16 bits that have both variants of [`ROUNDED`], for the view of each device nearest to the
/// hardware.
fn kept_in_f32(devices: &Devices<'_>) -> Markup {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let nearest = devices.all().iter().filter_map(|device| Some((device, device.runs.first()?)));
    for (device, kept) in nearest {
        let error = |problem: &str, variant: &str| {
            let ran = |record: &&Record| problem_of(&record.case) == problem && variant_of(&record.case) == variant;
            let check = &kept.run.records.iter().find(ran)?.measured()?.check;
            Some(Cell::from(check.precision()?).with(check.worst().unwrap_or_default()))
        };
        let problems: BTreeSet<&str> = kept.run.records.iter().map(|record| problem_of(&record.case)).collect();
        for problem in problems.into_iter().filter(|problem| problem.ends_with("/f16") || problem.ends_with("/bf16")) {
            let [Some(fused), Some(separate)] = ROUNDED.map(|variant| error(problem, variant)) else { continue };
            let place = format!("{}, {}", device.name, route_name(&kept.run.route()));
            rows.push(vec![named(devices.catalog, problem), place.into(), fused, separate]);
        }
    }
    rows.sort_by(|a, b| by_case(&a[0].text, &b[0].text));
    let figure = |title: &str| Column::figure(title, Rank::Essential);
    let columns = vec![Column::text("problem"), Column::text("device"), figure(ROUNDED[0]), figure(ROUNDED[1])];
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Sums that stay in f32" }
                p.soft {
                    "Root mean square of the errors, in units in the last place of the output. " code { (ROUNDED[0]) }
                    " keeps the sums between two operations in f32; " code { (ROUNDED[1]) } " stores them in the element type."
                }
                (table(&Table { columns, rows, ..Table::default() }))
            }
        }
    }
}

fn comparisons(devices: &Devices<'_>) -> Markup {
    of_views(devices, "Comparisons with the reference", ["cases", "elements"], |run| {
        let measured: Vec<_> = run.records.iter().filter_map(|record| record.measured()).collect();
        let (compared, all) =
            measured.iter().fold((0u64, 0u64), |(a, b), m| (a + m.check.compared, b + m.check.elements));
        let cases = format!("{} of {} passed", measured.len(), run.planned.len());
        vec![(cases, format!("{compared} compared with the reference; all {all} were read and had been written"))]
    })
}
