//! Page of one device: the cost of each target, the fastest variant of each target per problem, and links to further pages.

use maud::{Markup, html};
use parallax_analysis::compare::Cost;
use parallax_schema::catalog::Catalog;

use super::compared::in_the_page;
use super::devices::{Devices, Kept, OnDevice};
use super::family::families;
use super::frame::{Head, page as whole, tools};
use super::front::{names, picture};
use super::problems::problems;
use super::{Site, costs, facts, peers, speeds};
use crate::html::{anchored, table};
use crate::{cost_overview, route_name};

/// Number of visible rows of the picture.
const SHOWN: usize = 20;

/// `/device/NAME/`.
pub(super) fn page(device: &OnDevice<'_>, devices: &Devices<'_>, site: Site) -> String {
    let about = format!("Times of the GPU kernels of Parallax on {}, on every target.", device.name);
    let head = &Head { depth: 2, title: &device.name, about: &about };
    let views = device.views();
    let costs = device.costs();
    // A page per target has its problems; this page shows those of the browser, or else of the last target.
    let shown = device.browser().and_then(|kept| device.cost_of(&kept.run.route()));
    let shown = shown.as_ref().or_else(|| costs.last().map(|(_, cost)| cost));
    let main = html! {
        h1 { (device.name) }
        p.lead {
            "Seen from " (views.iter().map(|kept| route_name(&kept.run.route())).collect::<Vec<_>>().join(", ")) ". "
            @if devices.all().len() > 1 { a href=(head.to("compare/")) { "Compare it with others" } ". " }
            (in_the_page(head, site, views.iter().map(|kept| kept.path())))
        }
        (behind(head, device, &costs))
        (tools())
        @if let Some(overview) = cost_overview(&costs.iter().map(|(_, cost)| cost.clone()).collect::<Vec<_>>()) { section { h2 { "Cost of every target" } (table(&overview)) } }
        (fastest(site.catalog, head, device))
        (peers::marks(&peers::on(device, site.peers, None)))
        @if let Some((cost, (base, other))) = shown.map(|cost| (cost, names(cost))) {
            section { h2 { "Cost of " (other) " against " (base) } (picture(site.catalog, head, cost, device, SHOWN)) }
        }
    };
    whole(head, site, &main)
}

/// Returns links to further pages.
fn behind(head: &Head<'_>, device: &OnDevice<'_>, costs: &[(&Kept<'_>, Cost)]) -> Markup {
    let runs = device.runs.len();
    let rooflines = speeds::views(device);
    let list = |links: &mut dyn Iterator<Item = (String, String)>| {
        html! { @for (i, (path, name)) in links.enumerate() { @if i > 0 { " · " } a href=(head.to(&format!("{path}/"))) { (name) } } }
    };
    html! {
        ul.topics {
            li { a href=(head.to(&format!("{}/", facts::path(device)))) { "Runs and device facts" } ": "
                (runs) @if runs == 1 { " run file" } @else { " run files" } ", clocks, limits, skipped cases" }
            @if let [(_, first), ..] = costs {
                li { "Every problem against " (names(first).0) ": " (list(&mut costs.iter().map(|(kept, cost)| (costs::path(device, kept), names(cost).1)))) }
            }
            @if !rooflines.is_empty() {
                li { "Every case under the limits of the device, and drift: " (list(&mut rooflines.iter().map(|kept| (speeds::path(device, kept), route_name(&kept.run.route()))))) }
            }
        }
    }
}

/// Returns the fastest version of every problem, a closed table per family.
fn fastest(catalog: &dyn Catalog, head: &Head<'_>, device: &OnDevice<'_>) -> Markup {
    let families = families(device);
    html! {
        @if !families.is_empty() {
            section {
                h2 { "The fastest version of each target" }
                @for family in families {
                    @let found = problems(catalog, device, family);
                    details.family data-f=(family.key()) {
                        summary { (family.name()) ": " (found.sentence) }
                        p { a href=(head.to(&format!("{}/", super::family::path(device, family)))) { "Every version, the parts of one call, and samples" } }
                        (anchored(&found.table))
                    }
                }
            }
        }
    }
}
