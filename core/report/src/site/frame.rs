//! Frame of the site's pages, beyond that of every document: policy, masthead, footer.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use sha2::{Digest, Sha256};

use super::Site;
use super::collector::REFRESH;
use crate::html::document;

/// Path of the style sheet.
pub(super) const STYLE_PATH: &str = "site.css";

/// Style of the reports and of the site.
pub(super) const STYLE: &str = concat!(
    include_str!("../html/style.css"),
    include_str!("../html/parts.css"),
    include_str!("../html/plot.css"),
    include_str!("../html/dark.css"),
    include_str!("masthead.css"),
    include_str!("site.css")
);

/// Path of the script.
pub(super) const SCRIPT_PATH: &str = "site.js";

/// Script: search, order and Markdown of tables.
pub(super) const SCRIPT: &str = include_str!("site.js");

/// Returns the policy of a page: only the site's style sheet and mark are loaded, and the script if the page has a table.
fn policy(scripted: bool) -> String {
    let script = if scripted { " script-src 'self';" } else { "" };
    format!("default-src 'none';{script} style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'")
}

/// Returns the hash of the script for the browser's integrity check.
pub(super) fn integrity() -> &'static str {
    static HASH: LazyLock<String> = LazyLock::new(|| format!("sha256-{}", STANDARD.encode(Sha256::digest(SCRIPT))));
    &HASH
}

/// Returns the container for the script's search box and chips; empty without the script.
pub(super) fn tools() -> Markup {
    html! { div.tools {} }
}

/// Path of the preview picture that chats show beside a link.
const CARD_PATH: &str = "run/card.png";

/// Path of the mark that browsers show beside a page's title.
pub(super) const ICON_PATH: &str = "mark.svg";

/// Mark: one thing seen from two places.
pub(super) const ICON: &str = include_str!("mark.svg");

/// Location and title of a page.
pub(super) struct Head<'a> {
    /// Number of folders between the site and the page.
    pub depth: usize,
    pub title: &'a str,
    /// Sentence for search engines.
    pub about: &'a str,
}

impl Head<'_> {
    /// Returns a path of the site relative to this page.
    pub fn to(&self, path: &str) -> String {
        if self.depth == 0 { format!("./{path}") } else { "../".repeat(self.depth) + path }
    }
}

/// Returns a whole page around its main part.
pub(super) fn page(head: &Head<'_>, site: Site, main: &Markup) -> String {
    let links = [("", "Cost"), ("compare/", "Compare"), ("explain/", "Explained"), ("run/", "Measure")];
    let links = links.into_iter().filter(|(path, _)| site.measures || *path != "run/");
    let scripted = main.0.contains("<table");
    let of_page = html! {
        meta http-equiv="Content-Security-Policy" content=(policy(scripted));
        @if site.collector.is_some() && head.depth == 0 { meta http-equiv="refresh" content=(REFRESH); }
        meta name="description" content=(head.about);
        meta property="og:title" content=(head.title);
        meta property="og:description" content=(head.about);
        meta property="og:type" content="website";
        meta property="og:site_name" content="Parallax";
        @if site.measures {
            meta property="og:image" content=(site.address.map_or_else(|| head.to(CARD_PATH), |address| format!("{address}{CARD_PATH}")));
            meta name="twitter:card" content="summary_large_image";
        }
        meta name="color-scheme" content="light dark";
        title { (head.title) " · Parallax" }
        link rel="icon" href=(head.to(ICON_PATH));
        link rel="stylesheet" href=(head.to(STYLE_PATH));
        @if scripted { script src=(head.to(SCRIPT_PATH)) integrity=(integrity()) defer {} }
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
                "Every figure has an interval, and its outputs were checked against an f64 reference before and after timing. \
                 The run files beside each device contain every sample; this site can be made again from them."
            }
            @if site.docs { p.soft { a href=(head.to("docs/")) { "Documents" } ": guides, methods, recorded runs, experiments." } }
        }
    };
    document(of_page, None, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_small_and_its_hash_is_that_of_its_text() {
        assert!(SCRIPT.len() <= 6 * 1024, "{} bytes", SCRIPT.len());
        let digest = STANDARD.decode(integrity().strip_prefix("sha256-").expect("a name")).expect("base64");
        assert_eq!(digest, Sha256::digest(include_bytes!("site.js")).to_vec());
        assert!(policy(true).contains("script-src 'self'") && !policy(false).contains("script"));
    }
}
