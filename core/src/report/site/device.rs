//! One device: what each way to it costs, one call taken apart, its rooflines and every case.

use maud::{Markup, html};

use super::compared::in_the_page;
use super::devices::{Devices, Kept, OnDevice};
use super::frame::{Head, page as whole};
use super::front::{names, picture};
use super::{Site, pictures};
use crate::record::Run;
use crate::report::html::{Palette, head as facts, of_device, one_call as taken_apart, plots, table};
use crate::report::target_name;
use crate::report::{Table, skipped, table as cases_of};

/// Rows of each picture that are shown at once.
const SHOWN: usize = 20;

/// `/device/NAME/`.
pub(super) fn page(device: &OnDevice<'_>, devices: &Devices<'_>, site: Site) -> String {
    let about = format!("What the GPU kernels of Parallax take on {}, on every target.", device.name);
    let head = &Head { depth: 2, title: &device.name, about: &about };
    let views = device.views();
    let costs: Vec<_> = views.iter().filter_map(|kept| device.cost_of(&kept.run.target)).collect();
    let main = html! {
        h1 { (device.name) }
        p.lead {
            "Seen from " (views.iter().map(|kept| target_name(&kept.run.target, kept.run.reach)).collect::<Vec<_>>().join(", ")) ". "
            @if devices.all().len() > 1 { a href=(head.to("compare/")) { "Compare it with others" } ". " }
            (in_the_page(head, site, views.iter().map(|kept| kept.path())))
        }
        @for (cost, (base, other)) in costs.iter().rev().map(|cost| (cost, names(cost))) {
            section { h2 { "What " (other) " costs against " (base) } (picture(head, cost, device, SHOWN)) }
        }
        (one_call(head, &views))
        (speeds(head, device, &views))
        @for kept in &device.runs { (cases(head, kept)) }
    };
    whole(head, site, &main)
}

/// One call taken apart, where several targets have one.
fn one_call(head: &Head<'_>, views: &[&Kept<'_>]) -> Markup {
    let runs: Vec<(String, Run)> = views.iter().map(|kept| kept.named.clone()).collect();
    html! {
        @if let Some(calls) = taken_apart(&runs) {
            section {
                h2 { "Where one call goes" }
                p.soft { a href=(head.to("explain/tax/")) { "What these columns mean" } }
                (calls)
            }
        }
    }
}

/// What each view's device could do and how its speed went.
fn speeds(head: &Head<'_>, device: &OnDevice<'_>, views: &[&Kept<'_>]) -> Markup {
    let palette = &Palette::of(device.runs.iter().map(|kept| kept.run));
    let title = html! { a.plain href=(head.to("explain/roofline/")) { "Rooflines" } " and drift" };
    let of_view = |kept: &&Kept<'_>| {
        let [(name, _), drift] = of_device(&target_name(&kept.run.target, kept.run.reach), kept.run, palette);
        [(name, pictures::roofline(head, kept, palette)), drift]
    };
    plots(&title, views.iter().flat_map(of_view))
}

/// A run: its facts, its cases, what was skipped and why, and its file.
fn cases(head: &Head<'_>, kept: &Kept<'_>) -> Markup {
    let (name, run) = kept.named;
    let skips = skipped(run);
    html! {
        section {
            h2 { "Cases of " (name) }
            (facts(name, run))
            p { a href=(head.to(&kept.path())) download { "The run file" } ", with every sample" }
            (table(&Table { heading: Vec::new(), ..cases_of(run) }))
            @if !skips.is_empty() { details { summary { "Skipped, and why" } ul.soft { @for line in &skips { li { (line) } } } } }
        }
    }
}
