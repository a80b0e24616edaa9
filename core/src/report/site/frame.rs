//! What every page of the site has besides what every document has: policy, masthead, footer.

use maud::{Markup, html};

use super::Site;
use super::desk::REFRESH;
use crate::report::html::document;

/// Where the style sheet lies.
pub(super) const STYLE_PATH: &str = "site.css";

/// The reports' style, and what a site has besides.
pub(super) const STYLE: &str = concat!(
    include_str!("../html/style.css"),
    include_str!("../html/parts.css"),
    include_str!("../html/plot.css"),
    include_str!("../html/dark.css"),
    include_str!("site.css")
);

/// Nothing but our own style sheet and the mark is loaded.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'";

/// Where the mark lies that browsers show beside a page's title.
pub(super) const ICON_PATH: &str = "mark.svg";

/// The mark: one thing seen from two places.
pub(super) const ICON: &str = include_str!("mark.svg");

/// Where a page lies and what it is called.
pub(super) struct Head<'a> {
    /// Folders between the site and the page.
    pub depth: usize,
    pub title: &'a str,
    /// A sentence for whoever finds the page by searching.
    pub about: &'a str,
}

impl Head<'_> {
    /// A path of the site as seen from this page.
    pub fn to(&self, path: &str) -> String {
        if self.depth == 0 { format!("./{path}") } else { "../".repeat(self.depth) + path }
    }
}

/// A whole page around its main part.
pub(super) fn page(head: &Head<'_>, site: Site, main: &Markup) -> String {
    let links = [("", "Cost"), ("compare/", "Compare"), ("explain/", "Explained"), ("run/", "Measure")];
    let links = links.into_iter().filter(|(path, _)| site.measures || *path != "run/");
    let of_page = html! {
        meta http-equiv="Content-Security-Policy" content=(POLICY);
        @if site.desk.is_some() && head.depth == 0 { meta http-equiv="refresh" content=(REFRESH); }
        meta name="description" content=(head.about);
        meta name="color-scheme" content="light dark";
        title { (head.title) " · Parallax" }
        link rel="icon" href=(head.to(ICON_PATH));
        link rel="stylesheet" href=(head.to(STYLE_PATH));
    };
    let body = html! {
        a.skip href="#main" { "Skip to the figures" }
        header.masthead {
            a.name href=(head.to("")) {
                svg.mark viewBox="0 0 32 32" aria-hidden="true" {
                    circle.near cx="12" cy="16" r="9" {}
                    circle.far cx="20" cy="16" r="9" {}
                }
                "Parallax"
            }
            nav aria-label="Site" { @for (path, name) in links { a href=(head.to(path)) { (name) } } }
        }
        main id="main" tabindex="-1" { (main) }
        footer {
            p.soft {
                "Every figure is of outputs that were checked against an f64 reference before and after timing, and has an interval. \
                 The run files beside each device hold every sample; this site can be made again from them."
            }
        }
    };
    document(of_page, None, body)
}
