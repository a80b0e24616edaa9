//! Notices above everything else.

use parallax_lab::way::Target;

use super::View;
use super::device::instead;
use super::dom::{attribute, fill, id, make, say};
use crate::environment::window;

/// Attribute of the document that names what the page works at.
const AT: &str = "data-at";

/// Keys of the notices about the reader's device. They stand beside it: above everything they would seem to be about a link's results.
const OF_THE_DEVICE: [&str; 2] = ["software", "clock"];

/// Attribute of a button that downloads the run.
pub(super) const DOWNLOAD: &str = "data-download";

/// How serious a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Good to know.
    Info,
    /// Bears on the figures.
    Warn,
    /// Something cannot be done.
    Error,
}

/// Tell the script that watches over the page's start that it has started.
pub fn alive() {
    if let Some(root) = window().document().and_then(|document| document.document_element()) {
        attribute(&root, "data-alive", "");
    }
}

/// Say in the document at what from outside the page works, which outlives a trap; nothing when it is done.
pub fn working_at(name: Option<&str>) {
    let Some(root) = window().document().and_then(|document| document.document_element()) else { return };
    match name {
        Some(name) => attribute(&root, AT, name),
        None => drop(root.remove_attribute(AT)),
    }
}

/// What the document says about it.
pub fn worked_at() -> Option<String> {
    window().document()?.document_element()?.get_attribute(AT)
}

/// Say that the page itself has broken. Works without a [`View`], from a panic.
pub fn crashed(what: &str) {
    let view = View::new();
    view.notice(
        "crash",
        Tone::Error,
        "This page stopped working.",
        &format!("Reload it. If it happens again, report this: {what}"),
    );
    view.allow_run(false);
    id("stop").set_hidden(true);
}

/// Say that the page does nothing inside another site, and lead to it.
pub fn framed() {
    let view = View::new();
    let why = "It measures in a tab of its own only, so that no other site can start it.";
    view.notice("framed", Tone::Error, "This page is shown inside another site.", why);
    view.link_in_notice("framed", "Open it in a tab", &view.place());
    if let Ok(Some(link)) = id("notices").query_selector("[data-notice=framed] a") {
        attribute(&link, "target", "_blank");
    }
    view.no_device("Not asked for, because another site shows this page.");
}

impl View {
    /// Show a notice in place of any other of the same key.
    pub fn notice(&self, key: &str, tone: Tone, title: &str, text: &str) {
        self.clear_notice(key);
        let class = match tone {
            Tone::Info => "notice",
            Tone::Warn => "notice warn",
            Tone::Error => "notice error",
        };
        let notice = make("p", class, "");
        attribute(&notice, "data-notice", key);
        fill(&notice, [&make("strong", "", title), &make("span", "", text)]);
        let place = if OF_THE_DEVICE.contains(&key) { "device-notices" } else { "notices" };
        fill(&id(place), [&notice]);
    }

    /// Take a notice away.
    pub fn clear_notice(&self, key: &str) {
        if let Ok(Some(old)) = id("main").query_selector(&format!("[data-notice={key}]")) {
            old.remove();
        }
    }

    /// What the address asks for cannot be understood; and a way out of it.
    pub fn bad_address(&self, mistake: &str) {
        self.notice("query", Tone::Error, "The address of this page has a mistake.", mistake);
        self.link_in_notice("query", "Start with the default settings", "?");
    }

    /// A link below the text of a notice.
    fn link_in_notice(&self, key: &str, text: &str, address: &str) {
        if let Ok(Some(notice)) = id("notices").query_selector(&format!("[data-notice={key}]")) {
            let link = make("a", "", text);
            attribute(&link, "href", address);
            fill(&notice, [&link]);
        }
    }

    /// The run is not kept: say so, and offer it as a file.
    pub fn not_kept(&self) {
        let why = "It has no room for it, or keeps nothing for this page, as in a private window. Download the results before you leave \
                   the page.";
        self.notice("not-kept", Tone::Warn, "This browser does not keep the run.", why);
        if let Ok(Some(notice)) = id("notices").query_selector("[data-notice=not-kept]") {
            let (choices, button) = (make("span", "choices", ""), make("button", "", "Download JSON"));
            attribute(&button, "type", "button");
            attribute(&button, DOWNLOAD, "");
            fill(&choices, [&button]);
            fill(&notice, [&choices]);
        }
    }

    /// What else a page can measure where this device cannot be had, at an address of this page; and what others measured,
    /// where a site has that.
    pub fn offer_instead(&self, target: Target, query: &str, site: Option<&str>) {
        self.link_in_notice("webgpu", instead(target), &format!("?{query}"));
        if let Some(site) = site {
            self.link_in_notice("webgpu", "See what other devices take", site);
        }
    }

    /// The address asks for a run whose results nothing at a path takes: say that none began, and lead to the page with these settings.
    pub fn unasked(&self, path: &str, query: &str) {
        let text = format!(
            "The address asks for a run without a click, and for its results at `{path}`, where no command line takes them."
        );
        self.notice("remote", Tone::Warn, "No run began.", &text);
        self.link_in_notice("remote", "Choose what to run here", &format!("?{query}"));
        self.allow_run(false);
    }

    /// A command line listens: say so where the page otherwise promises that results stay in it.
    pub fn remote(&self) {
        let who = "A command line on this computer started this page and receives the results.";
        self.notice("remote", Tone::Info, "Remote run.", who);
        say(&id("privacy"), "Nothing leaves this computer: results go to the command line that started the page.");
    }
}
