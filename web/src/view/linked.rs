//! View of the summary from a link.

use parallax_report::{FROM_A_LINK, escape, html};
use parallax_schema::record::RunSummary;
use parallax_schema::spec::query;
use web_sys::Element;

use super::View;
use super::dom::{attribute, empty, facts, fill, id, listen, make, on_click, set_title};
use super::settings::CHIPS;
use crate::environment::window;
use crate::words::moment;

impl View {
    /// Fragment of the page's address.
    pub fn fragment(&self) -> String {
        window().location().hash().unwrap_or_default()
    }

    /// Calls `f` when another link opens in this page.
    pub fn on_new_link(&self, f: impl Fn() + 'static) {
        listen(&window(), "hashchange", move |_| f());
    }

    /// Calls `f` when the user runs the link's settings.
    pub fn on_run_linked(&self, f: impl Fn() + 'static) {
        on_click("run-linked", f);
    }

    /// Calls `f` when the user compares the link's results with the newest kept run.
    pub fn on_compare_linked(&self, f: impl Fn() + 'static) {
        on_click("compare-linked", f);
    }

    /// Calls `f` when the user requests a card about the link's results.
    pub fn on_card_of_link(&self, f: impl Fn() + 'static) {
        on_click("card-linked", f);
    }

    /// Offers to run the link's settings, or hides the offer.
    pub fn offer_to_run_as_linked(&self, yes: bool) {
        id("run-linked").set_hidden(!yes);
    }

    /// Shows a summary, beside the results of a local run.
    pub fn linked(&self, summary: &RunSummary, ours: Option<(&str, &RunSummary)>) {
        let about = id("linked-about");
        empty(&about);
        let commit = escape(&summary.suite.commit);
        let version = [escape(&summary.suite.version), commit].into_iter().filter(|text| !text.is_empty());
        let lead = make("p", "", "");
        fill(&lead, [&make("strong", "", FROM_A_LINK)]);
        let known = facts([
            ("Name", summary.name.as_deref().map(|name| escape(name).into_owned()).unwrap_or_default()),
            ("Device", escape(&summary.device).into_owned()),
            ("Measured with", format!("{}, {}", escape(&summary.way()), escape(&summary.api))),
            ("Driver", summary.driver.as_deref().map(|driver| escape(driver).into_owned()).unwrap_or_default()),
            ("Clock", summary.clock.label().to_owned()),
            ("Begun", moment(summary.started as f64 * 1e3)),
            ("Parallax", version.collect::<Vec<_>>().join(" · ")),
        ]);
        fill(&about, [&lead, &known, &settings(summary)]);
        // Markup of the core's report, like the plots. Every text in it is escaped at its creation.
        id("linked-table").set_inner_html(&html::linked(summary, ours));
        id("linked-section").set_hidden(false);
        set_title(&format!("{} · Parallax", escape(summary.called())));
    }

    /// Hides everything but the summary, and adds a link to the whole page in a tab of its own.
    pub fn embedded(&self) {
        if let Some(root) = window().document().and_then(|document| document.document_element()) {
            attribute(&root, "data-embedded", "");
        }
        let link = make("a", "", "Open in Parallax");
        attribute(&link, "target", "_blank");
        attribute(&link, "href", &(self.place() + &self.fragment()));
        fill(&id("linked-section"), [&link]);
    }

    /// Hides the summary.
    pub fn no_link(&self) {
        id("linked-section").set_hidden(true);
        set_title("Parallax");
    }

    /// Offers to compare the link's results with kept runs, or hides the offer.
    pub fn offer_to_compare_the_link(&self, yes: bool) {
        id("compare-linked").set_hidden(!yes);
    }
}

/// Settings of the summary, one chip each, up to the maximum.
fn settings(summary: &RunSummary) -> Element {
    let line = make("div", "fixed", "");
    let Some(asked) = &summary.asked else {
        fill(&line, [&make("span", "quiet", "The settings had no room in the link.")]);
        return line;
    };
    let pairs = query::read(asked);
    let lead = if pairs.is_empty() { "Run with the default settings." } else { "Run with" };
    fill(&line, [&make("span", "quiet", lead)]);
    for (key, value) in pairs.iter().take(CHIPS) {
        fill(&line, [&make("code", "chip", &escape(&format!("{key}={value}")))]);
    }
    if pairs.len() > CHIPS {
        fill(&line, [&make("span", "quiet", &format!("and {} more", pairs.len() - CHIPS))]);
    }
    line
}
