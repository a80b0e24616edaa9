//! Page of a view: the roofline of a device through a target, and the drift of its speed.

use maud::html;
use parallax_schema::record::Record;

use super::devices::{Kept, OnDevice};
use super::frame::{Head, page as whole, tools};
use super::{Site, pictures};
use crate::html::{of_device, plots};
use crate::route_name;

/// Returns the path of a view's page in the site.
pub(super) fn path(device: &OnDevice<'_>, kept: &Kept<'_>) -> String {
    format!("{}/rooflines/{}", device.path(), kept.file())
}

/// Returns the views with a case with arithmetic or a reading of the reference kernel.
pub(super) fn views<'d, 'r>(device: &'d OnDevice<'r>) -> Vec<&'d Kept<'r>> {
    let counts = |record: &Record| record.timing().is_some() && record.cost.flops.0 > 0;
    let shows = |kept: &&Kept<'_>| !kept.run.drift.is_empty() || kept.run.records.iter().any(counts);
    device.views().into_iter().filter(shows).collect()
}

/// `/device/NAME/rooflines/TARGET/`.
pub(super) fn page(device: &OnDevice<'_>, kept: &Kept<'_>, site: Site) -> String {
    let target = route_name(&kept.run.route());
    let title = format!("{}: roofline and drift, {target}", device.name);
    let about = format!("Every case under the limits of {} through {target}, and the drift of its speed.", device.name);
    let head = &Head { depth: 4, title: &title, about: &about };
    let heading = html! { a.plain href=(head.to("explain/roofline/")) { "Roofline" } " and drift" };
    let [(name, _), drift] = of_device(&target, kept.run);
    let main = html! {
        h1 { (title) }
        p { a href=(head.to(&format!("{}/", device.path()))) { "All of " (device.name) } }
        (tools())
        (plots(&heading, [(name, pictures::roofline(head, kept)), drift]))
    };
    whole(head, site, &main)
}
