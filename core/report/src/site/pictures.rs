//! Downloadable pictures of the site: files beside the run files, and links to them below the plots.

use maud::{Markup, html};

use super::devices::{Kept, OnDevice};
use super::frame::Head;
use super::front::names;
use crate::html::{cost_picture, roofline_of, roofline_picture};

/// Picture of a view's cost.
pub(super) const COST: &str = "cost";
/// Picture of a view's roofline.
pub(super) const ROOFLINE: &str = "roofline";

/// Returns the cost of a view of a device as a file; `None` for the base of the comparison.
pub(super) fn cost_file(device: &OnDevice<'_>, kept: &Kept<'_>) -> Option<String> {
    let cost = device.cost_of(&kept.run.route())?;
    let (base, other) = names(&cost);
    Some(cost_picture(&cost, (&base, &other)))
}

/// Returns the roofline of a view as a file; `None` if no case does arithmetic.
pub(super) fn roofline_file(kept: &Kept<'_>) -> Option<String> {
    roofline_picture(kept.run)
}

/// Returns a link to a picture.
pub(super) fn link(head: &Head<'_>, kept: &Kept<'_>, of: &str) -> Markup {
    html! { a href=(head.to(&kept.picture(of))) { "The picture as SVG" } "." }
}

/// Returns the roofline of a view above the link to its file.
pub(super) fn roofline(head: &Head<'_>, kept: &Kept<'_>) -> Markup {
    let plot = roofline_of(kept.run);
    if plot.0.is_empty() {
        plot
    } else {
        html! { (plot) p.soft { (link(head, kept, ROOFLINE)) } }
    }
}
