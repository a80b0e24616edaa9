//! Notices above everything else.

use parallax_lab::way::Target;

use super::View;
use super::device::instead;
use super::dom::{attribute, fill, id, make, say};
use crate::environment::window;

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
        fill(&id("notices"), [&notice]);
    }

    /// Take a notice away.
    pub fn clear_notice(&self, key: &str) {
        if let Ok(Some(old)) = id("notices").query_selector(&format!("[data-notice={key}]")) {
            old.remove();
        }
    }

    /// What the address asks for cannot be understood; and a way out of it.
    pub fn bad_address(&self, mistake: &str) {
        self.notice("query", Tone::Error, "The address of this page has a mistake.", mistake);
        if let Ok(Some(notice)) = id("notices").query_selector("[data-notice=query]") {
            let link = make("a", "", "Start with the default settings");
            attribute(&link, "href", "?");
            fill(&notice, [&link]);
        }
    }

    /// What else a page can measure where this device cannot be had, at an address of this page; and what others measured,
    /// where a site has that.
    pub fn offer_instead(&self, target: Target, query: &str, site: Option<&str>) {
        if let Ok(Some(notice)) = id("notices").query_selector("[data-notice=webgpu]") {
            let others = site.map(|site| ("See what other devices take", site.to_owned()));
            for (text, address) in [(instead(target), format!("?{query}"))].into_iter().chain(others) {
                let link = make("a", "", text);
                attribute(&link, "href", &address);
                fill(&notice, [&link]);
            }
        }
    }

    /// A command line listens: say so where the page otherwise promises that results stay in it.
    pub fn remote(&self) {
        let who = "A command line on this computer started this page and receives the results.";
        self.notice("remote", Tone::Info, "Remote run.", who);
        say(&id("privacy"), "Nothing leaves this computer: results go to the command line that started the page.");
    }
}
