//! Pictures that can be taken from the site: files beside the run files, and links to them under what the pages show.

use maud::{Markup, html};

use super::devices::{Kept, OnDevice};
use super::frame::Head;
use super::front::names;
use crate::report::html::{cost_picture, roofline_of, roofline_picture};

/// The picture of what a view costs.
pub(super) const COST: &str = "cost";
/// The picture of its roofline.
pub(super) const ROOFLINE: &str = "roofline";

/// What a view of a device costs, as a file; none for the view that others are compared with.
pub(super) fn cost_file(device: &OnDevice<'_>, kept: &Kept<'_>) -> Option<String> {
    let cost = device.cost_of(&kept.run.target)?;
    let (base, other) = names(&cost);
    Some(cost_picture(&cost, (&base, &other)))
}

/// The roofline of a view, as a file; none where no case does arithmetic.
pub(super) fn roofline_file(kept: &Kept<'_>) -> Option<String> {
    roofline_picture(kept.run)
}

/// A picture as a file.
pub(super) fn link(head: &Head<'_>, kept: &Kept<'_>, of: &str) -> Markup {
    html! { a href=(head.to(&kept.picture(of))) { "The picture as SVG" } "." }
}

/// The roofline of a view above its file.
pub(super) fn roofline(head: &Head<'_>, kept: &Kept<'_>) -> Markup {
    let plot = roofline_of(kept.run);
    if plot.0.is_empty() {
        plot
    } else {
        html! { (plot) p.soft { (link(head, kept, ROOFLINE)) } }
    }
}
