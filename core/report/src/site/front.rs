//! Front page: the cost of the browser, and the devices with that figure.

use maud::{Markup, html};
use parallax_analysis::compare::Cost;
use parallax_schema::catalog::Catalog;
use parallax_schema::record::{Route, Run};

use super::devices::{Devices, OnDevice};
use super::frame::{Head, page as whole};
use super::matrix::matrices;
use super::{Site, collector, explain, joules, pictures};
use crate::date::date;
use crate::html::{cost_figure, plots};
use crate::{COST_NOTE, Piece, ceilings, cost_pieces, route_name, tally};

/// Number of visible rows of the picture.
const SHOWN: usize = 14;

/// `/`.
pub(super) fn page(devices: &Devices<'_>, site: Site) -> String {
    let head = &Head {
        depth: 0,
        title: "What does the browser cost?",
        about: "The same GPU kernels in the browser's WebGPU and in native CUDA, on the same card: the cost of the browser, and its \
                parts.",
    };
    let told = devices.told();
    let main = html! {
        h1 { "What does the browser cost?" }
        @match &told {
            Some((device, cost)) => { (answer(head, device, cost, site)) }
            None if devices.all().is_empty() => { p.lead { "Nothing has been measured yet." } (measure(head, None, site)) }
            None => { p.lead { "No device here was measured both in a browser and natively; its runs are below." } (measure(head, None, site)) }
        }
        @if let Some(collector) = &site.collector {
            (collector::invitation(collector))
            @if !collector.hidden.is_empty() { (collector::hidden(collector.hidden)) }
        }
        @if let Some(joules) = joules::of_devices(devices) { (joules.section(head)) }
        @if let Some(matrix) = matrices(devices).first() { (matrix.section()) }
        @if !devices.all().is_empty() { (gallery(head, devices)) }
        @if let Some((device, _)) = &told { (roofline(head, device)) }
        section {
            h2 { "How it is measured" }
            ul.topics {
                @for (path, title, about) in explain::topics() { li { a href=(head.to(&path)) { (title) } ": " (about) } }
            }
        }
    };
    whole(head, site, &main)
}

/// Returns the answer in a sentence, the visitor's options and the picture. A phone shows the options above the picture. They come
/// first in the markup, because a long page that arrives slowly must not push down visible content.
fn answer(head: &Head<'_>, device: &OnDevice<'_>, cost: &Cost, site: Site) -> Markup {
    html! {
        p.lead { (sentence(device, cost, "./")) }
        p.soft { (COST_NOTE) "." }
        div.answer {
            (measure(head, Some(device), site))
            (picture(site.catalog, head, cost, device, SHOWN))
        }
    }
}

/// Returns the answer on a device, after the device's name.
pub(super) fn sentence(device: &OnDevice<'_>, cost: &Cost, root: &str) -> Markup {
    html! {
        a.plain href=(format!("{root}{}/", device.path())) { (device.name) } ": "
        @for (piece, text) in cost_pieces(cost) {
            @match piece {
                Piece::Words => { (text) }
                Piece::Same => { strong.same { (text) } }
                Piece::Best => { strong.best { (text) } }
                Piece::Call => { strong { (text) } }
            }
        }
    }
}

/// Returns the common names of the two targets, the nearer first.
pub(super) fn names(cost: &Cost) -> (String, String) {
    (route_name(&cost.base.route), route_name(&cost.other.route))
}

/// Returns the dots, and the runs that they come from.
pub(super) fn picture(
    catalog: &dyn Catalog,
    head: &Head<'_>,
    cost: &Cost,
    device: &OnDevice<'_>,
    shown: usize,
) -> Markup {
    let below = html! {
        p.soft {
            (origin(device, cost))
            @if let Some(kept) = device.view(&cost.other.route) { " " (pictures::link(head, kept, pictures::COST)) }
        }
    };
    let (base, other) = names(cost);
    cost_figure(catalog, cost, (&base, &other), shown, &below)
}

/// Returns the days and commits of a picture's runs: kernels change, and a figure is of its day.
fn origin(device: &OnDevice<'_>, cost: &Cost) -> String {
    let ends = [&cost.base.route, &cost.other.route].map(Route::engine);
    let of_both = device.runs.iter().filter(|kept| ends.contains(&kept.run.route().engine()));
    let (first, last) =
        of_both.clone().fold((u64::MAX, 0), |(a, b), kept| (a.min(kept.run.started), b.max(kept.run.started)));
    let mut commits: Vec<&str> =
        of_both.map(|kept| kept.run.suite.commit.as_str()).filter(|commit| !commit.is_empty()).collect();
    commits.sort_unstable();
    commits.dedup();
    let day = |seconds: u64| date(seconds).map(|date| date[..10].to_owned());
    let days = match (day(first), day(last)) {
        (Some(first), Some(last)) if first != last => format!("Runs of {first} to {last}"),
        (Some(day), _) => format!("Runs of {day}"),
        _ => "Runs of an unknown day".to_owned(),
    };
    let short: Vec<&str> = commits.iter().map(|commit| commit.get(..7).unwrap_or(commit)).collect();
    if short.is_empty() { days + "." } else { format!("{days}, program {}.", short.join(", ")) }
}

/// Returns the card about the visitor's own device.
fn measure(head: &Head<'_>, device: Option<&OnDevice<'_>>, site: Site) -> Markup {
    let browser = device.and_then(|of| of.views().into_iter().find(|kept| kept.run.target == "browser"));
    html! {
        aside.card {
            h2 { "Your GPU" }
            @if site.measures {
                p {
                    "The same cases run in this browser, on your device. "
                    @match site.collector {
                        Some(_) => "The result is sent only to this collector.",
                        None => "Nothing is uploaded: the result stays in this browser, and can be saved as a file.",
                    }
                }
                p { a.primary href=(head.to("run/")) { "Measure this device" } }
                @if let Some(time) = browser.and_then(|kept| took(kept.run)) { p.soft { (time) } }
            } @else {
                p { "On your own machine: " code { "./x run --target all" } " runs the suite on every target of the machine." }
            }
        }
    }
}

/// Returns the duration of a run as a sentence.
fn took(run: &Run) -> Option<String> {
    let (wall, device) = (run.spent.wall, run.called());
    let cases = run.records.iter().filter(|record| record.timing().is_some()).count();
    (wall.0 > 0.0).then(|| {
        format!("The browser's run on {device} took {wall} for {cases} timed cases; slower devices take longer.")
    })
}

/// Returns every device as a card.
fn gallery(head: &Head<'_>, devices: &Devices<'_>) -> Markup {
    html! {
        section {
            h2 { "Devices" }
            div.cards { @for device in devices.all() { (card(head, device)) } }
        }
    }
}

fn card(head: &Head<'_>, device: &OnDevice<'_>) -> Markup {
    let views = device.views();
    html! {
        div.card {
            h3 { a href=(head.to(&format!("{}/", device.path()))) { (device.name) } }
            dl {
                @if let Some(model) = device.model() { dt { "device" } dd { (model) } }
                dt { "kind" } dd { (views[0].run.device().kind.name()) }
                @for kept in &views { dt { (route_name(&kept.run.route())) } dd { (tally(kept.run)) } }
                @if let Some(baseline) = views.iter().find_map(|kept| kept.run.baseline.as_ref()) {
                    @for ceiling in ceilings(&baseline.ceilings).into_iter().take(3) { dt { (ceiling.name) } dd { (ceiling.value) } }
                }
            }
        }
    }
}

/// Returns the roofline of the farthest view, beside the nearest's.
fn roofline(head: &Head<'_>, device: &OnDevice<'_>) -> Markup {
    let views = device.views();
    let ends = [views.first(), views.last()].into_iter().flatten();
    let title = html! { a.plain href=(head.to("explain/roofline/")) { "Rooflines" } " of " (device.name) };
    plots(&title, ends.map(|kept| (route_name(&kept.run.route()), pictures::roofline(head, kept))))
}
