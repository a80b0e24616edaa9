//! Page of a device's runs: place and date of each, its clocks and limits, its skips with reasons, and its file.

use maud::{Markup, html};
use parallax_schema::catalog::Catalog;
use parallax_schema::record::NamedRun;

use super::Site;
use super::devices::{Kept, OnDevice};
use super::frame::{Head, page as whole};
use crate::html::head as facts;
use crate::{skipped, table};

/// Returns the path of the page in the site.
pub(super) fn path(device: &OnDevice<'_>) -> String {
    format!("{}/runs", device.path())
}

/// `/device/NAME/runs/`.
pub(super) fn page(device: &OnDevice<'_>, site: Site) -> String {
    let title = format!("{}: runs", device.name);
    let about = format!("The runs on {}: start, clocks, limits and files.", device.name);
    let head = &Head { depth: 3, title: &title, about: &about };
    let main = html! {
        h1 { (title) }
        p { a href=(head.to(&format!("{}/", device.path()))) { "All of " (device.name) } }
        @for kept in &device.runs { (run(site.catalog, head, kept)) }
    };
    whole(head, site, &main)
}

fn run(catalog: &dyn Catalog, head: &Head<'_>, kept: &Kept<'_>) -> Markup {
    let NamedRun { name, run } = kept.named;
    let skips = skipped(run);
    // Reasons of single cases also stand below the tables of their families.
    let notes: Vec<String> = table(catalog, run).notes.into_iter().filter(|note| !skips.contains(note)).collect();
    html! {
        section {
            h2 { (name) }
            (facts(name, run))
            p { a href=(head.to(&kept.path())) download { "The run file" } ", with every sample" }
            ul.soft { @for note in &notes { li { (note) } } }
            @if !skips.is_empty() { details { summary { "Skipped, and why" } ul.soft { @for line in &skips { li { (line) } } } } }
        }
    }
}
