//! Comparisons: the targets of each device, and each target across devices.

use maud::{Markup, html};
use parallax_analysis::compare::{Comparison, Options, compare};
use parallax_schema::record::{NamedRun, Run};
use parallax_schema::spec::query;
use parallax_schema::units::sentence;

use super::devices::{Devices, slug, unused};
use super::frame::{Head, page as whole, tools};
use super::matrix::matrices;
use super::{Site, history};
use crate::html::{plotted, ratios_of, verdicts_by_family};
use crate::route_name;

/// Comparable runs; the first is the base.
pub(super) struct Set<'r> {
    /// Path of the page of their comparison.
    pub path: String,
    title: String,
    runs: Vec<Member<'r>>,
}

/// A run of a set.
struct Member<'r> {
    /// Name in the comparison.
    name: String,
    run: &'r Run,
    /// Path of its file.
    file: String,
    /// Path of the page of its ratios to the base.
    ratios: String,
}

impl<'r> Set<'r> {
    fn new(path: String, title: String, runs: impl Iterator<Item = (String, &'r Run, String)>) -> Set<'r> {
        let mut taken = Vec::new();
        let member = |(name, run, file): (String, &'r Run, String)| {
            let ratios = format!("{path}/{}", unused(&slug(&name), &mut taken));
            Member { name, run, file, ratios }
        };
        let runs = runs.map(member).collect();
        Set { path, title, runs }
    }

    /// Returns the positions of the runs that may have ratios to the base, with the paths of their pages.
    pub fn ratios(&self) -> impl Iterator<Item = (usize, &str)> {
        self.runs.iter().enumerate().skip(1).map(|(i, member)| (i, member.ratios.as_str()))
    }

    /// Returns the comparison; `None` if the runs have no common case.
    fn comparison(&self) -> Option<Comparison> {
        let runs: Vec<NamedRun> = self.runs.iter().map(|of| NamedRun::new(of.name.clone(), of.run.clone())).collect();
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
        let path = format!("compare/on-{}", device.slug);
        found.push(Set::new(path, format!("{}: {targets}", device.name), runs));
    }
    for route in devices.ways() {
        let views = devices.all().iter().filter_map(|of| Some((of, of.view(&route)?)));
        let views = views.filter(|(_, kept)| kept.run.route() == route);
        // A run file may have any string as its target.
        let path = format!("compare/all-{}", unused(&slug(&route.titled(&route.target)), &mut taken));
        let runs = views.map(|(of, kept)| (of.name.clone(), kept.run, kept.path()));
        found.push(Set::new(path, format!("Every device through {}", route_name(&route)), runs));
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
        @if !devices.all().is_empty() {
            section {
                h2 { "Over time" }
                p { a href=(head.to(&format!("{}/", history::PATH))) { "Changes over time" } ": each case over many runs, with the causes of changes." }
            }
        }
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
        p { (in_the_page(head, site, set.runs.iter().map(|of| of.file.clone()))) }
        (tools())
        (verdicts_by_family(site.catalog, &comparison))
        section {
            h2 { "Ratios as bars" }
            ul.topics {
                @for member in plotted(&comparison).into_iter().map(|run| &set.runs[run]) {
                    li { a href=(head.to(&format!("{}/", member.ratios))) { (member.name) " ÷ " (set.runs[0].name) } }
                }
            }
        }
    };
    Some(whole(head, site, &main))
}

/// `/compare/…/RUN/`; `None` if the run has no ratio to the base.
pub(super) fn ratios(set: &Set<'_>, run: usize, site: Site) -> Option<String> {
    let comparison = set.comparison().filter(|comparison| plotted(comparison).contains(&run))?;
    let title = format!("{} ÷ {}", set.runs[run].name, set.runs[0].name);
    let about = format!("Ratios with intervals, case by case: {}.", set.title);
    let head = &Head { depth: 3, title: &title, about: &about };
    let main = html! {
        h1 { (title) }
        p { a href=(head.to(&format!("{}/", set.path))) { (set.title) } }
        (tools())
        (ratios_of(&comparison, run))
    };
    Some(whole(head, site, &main))
}
