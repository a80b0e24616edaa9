//! The desk that takes results, as far as the page shows it.

use super::View;
use super::dom::{attribute, empty, fill, id, make, on_click, say};

impl View {
    /// Results go to the desk: offer that, and say it in place of where they would stay otherwise.
    pub fn desk(&self) {
        id("send").set_hidden(false);
        say(
            &id("privacy"),
            "Kernels run here. Results are sent to the desk that served this page and to nobody else; this browser keeps them too, until \
             you delete them.",
        );
    }

    /// Call `f` when a run is to be sent to the desk.
    pub fn on_send(&self, f: impl Fn() + 'static) {
        on_click("send", f);
    }

    /// What the desk made of a run, and the way there.
    pub fn on_desk(&self, kept: &str, link: &str) {
        let (line, way) = (id("share-line"), make("a", "", "see the desk"));
        attribute(&way, "href", link);
        empty(&line);
        fill(&line, [&make("span", "", &format!("{kept}; ")), &way, &make("span", "", ".")]);
    }
}
