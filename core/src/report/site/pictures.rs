//! Pictures that can be taken from the site: files beside the run files, and links to them under what the pages show.

use maud::{Markup, html};

use super::devices::{Kept, OnDevice};
use super::frame::Head;
use super::front::names;
use crate::report::html::{Palette, cost_picture, roofline_of, roofline_picture};

/// What lies in the site of a device, with its paths: what each view costs and its roofline.
pub(super) fn files(device: &OnDevice<'_>) -> Vec<(String, String)> {
    let palette = &Palette::of(device.runs.iter().map(|kept| kept.run));
    let of_view = |kept: &&Kept<'_>| {
        let cost = device.cost_of(&kept.run.target).map(|cost| {
            let (base, other) = names(&cost);
            cost_picture(&cost, (&base, &other), palette)
        });
        let both = [("cost", cost), ("roofline", roofline_picture(kept.run, palette))];
        both.into_iter().filter_map(|(of, picture)| Some((kept.picture(of), picture?))).collect::<Vec<_>>()
    };
    device.views().iter().flat_map(of_view).collect()
}

/// A picture as a file.
pub(super) fn link(head: &Head<'_>, kept: &Kept<'_>, of: &str) -> Markup {
    html! { a href=(head.to(&kept.picture(of))) { "The picture as SVG" } "." }
}

/// The roofline of a view above its file.
pub(super) fn roofline(head: &Head<'_>, kept: &Kept<'_>, palette: &Palette<'_>) -> Markup {
    let plot = roofline_of(kept.run, palette);
    if plot.0.is_empty() {
        plot
    } else {
        html! { (plot) p.soft { (link(head, kept, "roofline")) } }
    }
}
