//! Notices above everything else.

use parallax_protocol::target::Target;

use super::View;
use super::device::instead;
use super::dom::{attribute, fill, id, make, say};
use crate::environment::window;

/// Attribute of the document with the name of the data that the page processes.
const AT: &str = "data-at";

/// Keys of the notices about the reader's device. They stand beside the device. Above everything, they would seem to be about a
/// link's results.
const OF_THE_DEVICE: [&str; 2] = ["software", "clock"];

/// Attribute of a button that downloads the run.
pub(super) const DOWNLOAD: &str = "data-download";

/// Severity of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Information only.
    Info,
    /// The figures are affected.
    Warn,
    /// An operation is impossible.
    Error,
}

/// Marks the page as started, for the script that watches its start.
pub fn alive() {
    if let Some(root) = window().document().and_then(|document| document.document_element()) {
        attribute(&root, "data-alive", "");
    }
}

/// Sets the name of the external data that the page processes, or removes it. The name outlives a trap.
pub fn working_at(name: Option<&str>) {
    let Some(root) = window().document().and_then(|document| document.document_element()) else { return };
    match name {
        Some(name) => attribute(&root, AT, name),
        None => drop(root.remove_attribute(AT)),
    }
}

/// Name of the external data that the page processes, from the document.
pub fn worked_at() -> Option<String> {
    window().document()?.document_element()?.get_attribute(AT)
}

/// Reports that the page itself has broken. Works without a [`View`], from a panic.
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

/// Reports that the page does nothing inside another site, and links to it.
pub fn framed() {
    let view = View::new();
    let why = "It measures only in a tab of its own, so that no other site can start it.";
    view.notice("framed", Tone::Error, "This page is shown inside another site.", why);
    view.link_in_notice("framed", "Open it in a tab", &view.place());
    if let Ok(Some(link)) = id("notices").query_selector("[data-notice=framed] a") {
        attribute(&link, "target", "_blank");
    }
    view.no_device("Not requested, because another site shows this page.");
}

impl View {
    /// Shows a notice in place of any other of the same key.
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

    /// Removes a notice.
    pub fn clear_notice(&self, key: &str) {
        if let Ok(Some(old)) = id("main").query_selector(&format!("[data-notice={key}]")) {
            old.remove();
        }
    }

    /// Reports a mistake in the address, with a link to the default settings.
    pub fn bad_address(&self, mistake: &str) {
        self.notice("query", Tone::Error, "The address of this page has a mistake.", mistake);
        self.link_in_notice("query", "Start with the default settings", "?");
    }

    /// Adds a link below the text of a notice.
    fn link_in_notice(&self, key: &str, text: &str, address: &str) {
        if let Ok(Some(notice)) = id("notices").query_selector(&format!("[data-notice={key}]")) {
            let link = make("a", "", text);
            attribute(&link, "href", address);
            fill(&notice, [&link]);
        }
    }

    /// Reports that the run is not kept, and offers it as a file.
    pub fn not_kept(&self) {
        let why = "It has no room, or stores nothing for this page, as in a private window. Download the results before you leave \
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

    /// Links to the page for the other target if this device is unavailable, and to the site's results if the page belongs to a
    /// site.
    pub fn offer_instead(&self, target: Target, query: &str, site: Option<&str>) {
        self.link_in_notice("webgpu", instead(target), &format!("?{query}"));
        if let Some(site) = site {
            self.link_in_notice("webgpu", "See the times of other devices", site);
        }
    }

    /// Reports an address that requests a run whose results no command line takes. No run began. Links to the page with these
    /// settings.
    pub fn unasked(&self, path: &str, query: &str) {
        let text = format!(
            "The address asks for a run without a click, and for its results at `{path}`, where no command line takes them."
        );
        self.notice("remote", Tone::Warn, "No run began.", &text);
        self.link_in_notice("remote", "Choose the cases here", &format!("?{query}"));
        self.allow_run(false);
    }

    /// Reports a listening command line in place of the promise that results stay in the page.
    pub fn remote(&self) {
        let who = "A command line on this computer started this page and receives the results.";
        self.notice("remote", Tone::Info, "Remote run.", who);
        say(&id("privacy"), "Nothing leaves this computer: results go to the command line that started the page.");
    }
}
