//! View of the collector that takes results.

use super::View;
use super::dom::{attribute, empty, fill, id, make, on_click, say};

impl View {
    /// Offers to send results to the collector, and changes the privacy note accordingly.
    pub fn collector(&self) {
        id("send").set_hidden(false);
        say(
            &id("privacy"),
            "Kernels run here. Results are sent only to the collector that served this page; this browser keeps them too, until \
             you delete them.",
        );
    }

    /// Calls `f` when the user sends a run to the collector.
    pub fn on_send(&self, f: impl Fn() + 'static) {
        on_click("send", f);
    }

    /// Shows the collector's answer about a run, and a link to the collector.
    pub fn on_collector(&self, kept: &str, link: &str) {
        let (line, way) = (id("share-line"), make("a", "", "see all results"));
        attribute(&way, "href", link);
        empty(&line);
        fill(&line, [&make("span", "", &format!("{kept}; ")), &way, &make("span", "", ".")]);
    }
}
