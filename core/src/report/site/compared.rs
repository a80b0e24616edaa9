//! Comparisons: the targets of each device, and each target across devices.

use maud::{Markup, html};

use super::Site;
use super::devices::{Devices, Kept, slug, unused};
use super::frame::{Head, page as whole, target_name};
use crate::compare::verdict::usual_resolution;
use crate::compare::{Comparison, Options, compare};
use crate::device::Reach;
use crate::plan::query;
use crate::record::{Run, way};
use crate::report::html::{Palette, compared};

/// Runs that are held against the first of them.
struct Held {
    path: String,
    title: String,
    runs: Vec<(String, Run)>,
    /// Where their files lie.
    files: Vec<String>,
    comparison: Comparison,
}

/// All that can be compared.
fn all(devices: &Devices<'_>) -> Vec<Held> {
    let mut found = Vec::new();
    let mut taken = Vec::new();
    for device in devices.all() {
        let views = device.views();
        let runs = views.iter().map(|kept| (kept.named.clone(), kept.path()));
        found.extend(held(format!("compare/on-{}", device.slug), format!("Every way to {}", device.name), runs));
    }
    let mut ways: Vec<(&str, Option<Reach>)> =
        devices.all().iter().flat_map(|of| of.views()).map(|kept| (kept.run.target.as_str(), kept.run.reach)).collect();
    ways.sort_unstable();
    ways.dedup();
    for (target, reach) in ways {
        let views =
            devices.all().iter().filter_map(|of| Some((of, of.view(target).filter(|kept| kept.run.reach == reach)?)));
        let runs = views.map(|(of, kept): (_, &Kept<'_>)| ((of.name.clone(), kept.run.clone()), kept.path()));
        found.extend(held(
            // A target is whatever a file says.
            format!("compare/all-{}", unused(&slug(&way(target, reach)), &mut taken)),
            format!("Every device through {}", target_name(target, reach)),
            runs,
        ));
    }
    found
}

fn held(path: String, title: String, runs: impl Iterator<Item = ((String, Run), String)>) -> Option<Held> {
    let (runs, files): (Vec<(String, Run)>, Vec<String>) = runs.unzip();
    let resolution = usual_resolution(runs.iter().map(|(_, run)| run));
    let comparison = compare(&runs, &Options { base: 0, resolution }).ok()?;
    Some(Held { path, title, runs, files, comparison })
}

/// A way to hold run files against each other in the page that measures, where the site has it: there they can be filtered and
/// sorted, and others can join them.
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
pub(super) fn index(devices: &Devices<'_>, site: Site) -> String {
    let head =
        &Head { depth: 1, title: "Compare", about: "Verdicts with intervals between targets and between devices." };
    let found = all(devices);
    let main = html! {
        h1 { "Compare" }
        p.lead {
            "Two figures are the same, faster, slower or undecided; " a href=(head.to("explain/verdict/")) { "what each word takes" } "."
        }
        @if found.is_empty() { p { "Nothing here has a case in common with anything else." } }
        div.cards {
            @for held in &found {
                div.card {
                    h3 { a href=(head.to(&format!("{}/", held.path))) { (held.title) } }
                    p { (held.comparison.tally()) }
                }
            }
        }
        section {
            h2 { "Your own runs" }
            p { "Any number of run files, the first being the base:" }
            p { code { "parallax compare a.json b.json --format html --output compared.html" } }
            p { "The targets of one card, with one call taken apart:" }
            p { code { "parallax compare cuda.json wgpu.json browser.json --tax" } }
            p { "A site like this one of whatever was measured:" }
            p { code { "parallax site results/*.json --out site" } }
        }
    };
    whole(head, site, &main)
}

/// `/compare/…/`.
pub(super) fn pages(devices: &Devices<'_>, site: Site) -> Vec<(String, String)> {
    let page = |held: Held| {
        let head = &Head { depth: 2, title: &held.title, about: "Verdicts with intervals, case by case." };
        let palette = &Palette::of(held.runs.iter().map(|(_, run)| run));
        let main = html! {
            h1 { (held.title) }
            p.lead { (held.comparison.tally()) }
            p { (in_the_page(head, site, held.files.iter().cloned())) }
            (compared(&held.comparison, palette))
        };
        (held.path.clone(), whole(head, site, &main))
    };
    all(devices).into_iter().map(page).collect()
}
