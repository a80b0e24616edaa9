//! Page of a family of workloads on a device: the cost of each target, the parts of one call, every case and its samples.

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_analysis::compare::Cost;
use parallax_schema::case::by_case;
use parallax_schema::catalog::Catalog;
use parallax_schema::record::{NamedRun, Run};
use parallax_schema::units::counted;

use super::devices::OnDevice;
use super::frame::{Head, page as whole, tools};
use super::front::{names, picture};
use super::{Site, facts, peers};
use crate::html::{one_call, samples, table};
use crate::{Table, has_row, route_name, table as cases_of};

/// Returns the families with a case that was not skipped, in the order of tables.
pub(super) fn families(device: &OnDevice<'_>) -> Vec<Family> {
    let records = || device.runs.iter().flat_map(|kept| &kept.run.records).filter(|record| has_row(record));
    Family::ALL.into_iter().filter(|family| records().any(|record| Family::of(&record.case) == *family)).collect()
}

/// Returns the path of a family's page in the site.
pub(super) fn path(device: &OnDevice<'_>, family: Family) -> String {
    format!("{}/{}", device.path(), family.key())
}

/// Returns the path of the page of a family's samples in the site.
pub(super) fn samples_path(device: &OnDevice<'_>, family: Family) -> String {
    format!("{}/samples", path(device, family))
}

/// `/device/NAME/FAMILY/`.
pub(super) fn page(device: &OnDevice<'_>, family: Family, site: Site) -> String {
    let title = format!("{}: {}", device.name, family.name());
    let about = format!("Every version of {} on {}, on every target.", family.name(), device.name);
    let head = &Head { depth: 3, title: &title, about: &about };
    let runs = of_family(device, family);
    let views: Vec<NamedRun> =
        device.views().iter().map(|kept| NamedRun::new(kept.named.name.clone(), only(kept.run, family))).collect();
    let costs: Vec<Cost> = device.costs().into_iter().map(|(_, cost)| within(cost, family)).collect();
    let libraries = peers::on(device, site.peers, Some(family));
    let main = html! {
        h1 { (title) }
        p { a href=(head.to(&format!("{}/", device.path()))) { "All of " (device.name) } }
        (tools())
        @for (cost, (base, other)) in costs.iter().rev().filter(|cost| !cost.problems.is_empty()).map(|cost| (cost, names(cost))) {
            section { h2 { "Cost of " (other) " against " (base) } (picture(site.catalog, head, cost, device, cost.problems.len())) }
        }
        (peers::marks(&libraries))
        (peers::figures(site.catalog, &libraries))
        @if let Some(calls) = one_call(site.catalog, &views) {
            section {
                h2 { "Where one call goes" }
                p.soft { a href=(head.to("explain/tax/")) { "Meaning of these columns" } }
                (calls)
            }
        }
        section {
            h2 { "Every case" }
            p {
                a href=(head.to(&format!("{}/", samples_path(device, family)))) { "The samples of each case" } "; "
                a href=(head.to(&format!("{}/", facts::path(device)))) { "device, clocks and skipped cases of each run" } "."
            }
            @for NamedRun { name, run } in &runs { (cases(site.catalog, name, run)) }
        }
    };
    whole(head, site, &main)
}

/// `/device/NAME/FAMILY/samples/`.
pub(super) fn samples_page(device: &OnDevice<'_>, family: Family, site: Site) -> String {
    let title = format!("{}: samples of {}", device.name, family.name());
    let about = format!("Every sample of {} on {}.", family.name(), device.name);
    let head = &Head { depth: 4, title: &title, about: &about };
    let runs = of_family(device, family);
    let main = html! {
        h1 { (title) }
        p { a href=(head.to(&format!("{}/", path(device, family)))) { "All of " (family.name()) } }
        (samples(&runs))
    };
    whole(head, site, &main)
}

/// Returns the runs of a device with the cases of one family only, without runs that have no row.
fn of_family(device: &OnDevice<'_>, family: Family) -> Vec<NamedRun> {
    let runs = device.runs.iter().map(|kept| NamedRun::new(kept.named.name.clone(), only(kept.run, family)));
    runs.filter(|NamedRun { run, .. }| run.records.iter().any(has_row)).collect()
}

/// Returns a run with the cases of one family only, in the order of cases.
fn only(run: &Run, family: Family) -> Run {
    let mut run = run.clone();
    run.retain(|case| Family::of(case) == family);
    run.planned.sort_by(|a, b| by_case(a, b));
    run.records.sort_by(|a, b| by_case(&a.case, &b.case));
    run
}

/// Returns the problems and calls of one family only.
fn within(mut cost: Cost, family: Family) -> Cost {
    cost.problems.retain(|problem| Family::of(&problem.problem) == family);
    cost.calls.retain(|pair| Family::of(&pair.case) == family);
    cost
}

/// Returns the cases of a run as a closed table.
fn cases(catalog: &dyn Catalog, name: &str, run: &Run) -> Markup {
    let found = Table { heading: Vec::new(), ..cases_of(catalog, run) };
    html! {
        details {
            summary { (name) ", " (route_name(&run.route())) ": " (counted(found.rows.len(), "case")) }
            (table(&found))
        }
    }
}
