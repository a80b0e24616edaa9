//! Comparisons: the targets of each device, and each target across devices.

use maud::{Markup, html};
use parallax_analysis::compare::{Comparison, Options, compare};
use parallax_schema::record::{NamedRun, Run};
use parallax_schema::spec::query;
use parallax_schema::units::sentence;

use super::Site;
use super::devices::{Devices, slug, unused};
use super::frame::{Head, page as whole, tools};
use super::matrix::matrices;
use crate::html::compared_by_family;
use crate::route_name;

/// Comparable runs; the first is the base.
pub(super) struct Set<'r> {
    /// Path of the page of their comparison.
    pub path: String,
    title: String,
    /// Runs, each with its name in the comparison and the path of its file.
    runs: Vec<(String, &'r Run, String)>,
}

impl Set<'_> {
    /// Returns the comparison; `None` if the runs have no common case.
    fn comparison(&self) -> Option<Comparison> {
        let runs: Vec<NamedRun> =
            self.runs.iter().map(|(name, run, _)| NamedRun::new(name.clone(), (*run).clone())).collect();
        compare(&runs, &Options::default()).ok()
    }
}

/// Returns the targets of each device, and the devices of each target.
pub(super) fn sets<'r>(devices: &Devices<'r>) -> Vec<Set<'r>> {
    let mut found = Vec::new();
    let mut taken = Vec::new();
    for device in devices.all() {
        let targets = device.views().into_iter().map(|kept| route_name(&kept.run.route()));
        let targets = targets.collect::<Vec<_>>().join(" vs ");
        let runs = device.views().into_iter().map(|kept| (kept.named.name.clone(), kept.run, kept.path()));
        found.push(Set {
            path: format!("compare/on-{}", device.slug),
            title: format!("{}: {targets}", device.name),
            runs: runs.collect(),
        });
    }
    for route in devices.ways() {
        let views = devices.all().iter().filter_map(|of| Some((of, of.view(&route)?)));
        let views = views.filter(|(_, kept)| kept.run.route() == route);
        found.push(Set {
            // A run file may have any string as its target.
            path: format!("compare/all-{}", unused(&slug(&route.titled(&route.target)), &mut taken)),
            title: format!("Every device through {}", route_name(&route)),
            runs: views.map(|(of, kept)| (of.name.clone(), kept.run, kept.path())).collect(),
        });
    }
    found.retain(|set| set.runs.len() > 1);
    found
}

/// Returns a link that opens the run files in the measuring page, if the site has it. That page can filter and sort them, and add
/// others.
pub(super) fn in_the_page(head: &Head<'_>, site: Site, files: impl Iterator<Item = String>) -> Markup {
    let run = |(i, file): (usize, String)| (if i == 0 { "a" } else { "b" }, format!("../{file}"));
    let runs: Vec<(&str, String)> =
        std::iter::once(("view", "compare".to_owned())).chain(files.enumerate().map(run)).collect();
    html! {
        @if site.measures && runs.len() > 2 {
            a href=(head.to(&format!("run/?{}", query::write(&runs)))) { "Compare these files with your own" } "."
        }
    }
}

/// `/compare/`.
pub(super) fn index(sets: &[Set<'_>], devices: &Devices<'_>, site: Site) -> String {
    let head =
        &Head { depth: 1, title: "Compare", about: "Verdicts with intervals between targets and between devices." };
    let found: Vec<(&Set<'_>, Comparison)> = sets.iter().filter_map(|set| Some((set, set.comparison()?))).collect();
    let main = html! {
        h1 { "Compare" }
        p.lead {
            "Two figures are the same, faster, slower or undecided; " a href=(head.to("explain/verdict/")) { "meaning of each word" } "."
        }
        @if site.measures {
            p { a.primary href=(head.to("run/?view=compare")) { "Drop run files here" } " to compare them; they stay in your browser." }
        }
        h2 { "On this site" }
        @if found.is_empty() { p { "No two runs here have a case in common." } }
        div.cards {
            @for (set, comparison) in &found {
                div.card {
                    h3 { a href=(head.to(&format!("{}/", set.path))) { (set.title) } }
                    p { (sentence(&comparison.tally())) }
                }
            }
        }
        @for matrix in matrices(devices) { (matrix.section()) }
        section {
            h2 { "Your own runs" }
            p { "Any number of run files, the first being the base:" }
            p { code { "parallax compare a.json b.json --format html --output compared.html" } }
            p { "The targets of one card, with the parts of one call:" }
            p { code { "parallax compare cuda.json wgpu.json browser.json --tax" } }
            p { "A site like this one, from your own runs:" }
            p { code { "parallax site results/*.json --out site" } }
        }
    };
    whole(head, site, &main)
}

/// `/compare/…/`; `None` if the runs have no common case.
pub(super) fn page(set: &Set<'_>, site: Site) -> Option<String> {
    let comparison = set.comparison()?;
    let head = &Head { depth: 2, title: &set.title, about: "Verdicts with intervals, case by case." };
    let main = html! {
        h1 { (set.title) }
        p.lead { (sentence(&comparison.tally())) }
        p { (in_the_page(head, site, set.runs.iter().map(|(_, _, file)| file.clone()))) }
        (tools())
        (compared_by_family(site.catalog, &comparison))
    };
    Some(whole(head, site, &main))
}
