//! Page of a view's cost: every problem of a target against the target nearest to the hardware.

use maud::html;

use super::Site;
use super::devices::{Kept, OnDevice};
use super::frame::{Head, page as whole, tools};
use super::front::{names, picture};

/// Returns the path of the page in the site.
pub(super) fn path(device: &OnDevice<'_>, kept: &Kept<'_>) -> String {
    format!("{}/cost/{}", device.path(), kept.file())
}

/// `/device/NAME/cost/TARGET/`; `None` without a common problem.
pub(super) fn page(device: &OnDevice<'_>, kept: &Kept<'_>, site: Site) -> Option<String> {
    let cost = device.cost_of(&kept.run.route())?;
    let (base, other) = names(&cost);
    let title = format!("{}: cost of {other} against {base}", device.name);
    let about = format!("The time of every problem in {other} over its time in {base}, on {}.", device.name);
    let head = &Head { depth: 4, title: &title, about: &about };
    let main = html! {
        h1 { (title) }
        p { a href=(head.to(&format!("{}/", device.path()))) { "All of " (device.name) } }
        (tools())
        (picture(site.catalog, head, &cost, device, cost.problems.len()))
    };
    Some(whole(head, site, &main))
}
