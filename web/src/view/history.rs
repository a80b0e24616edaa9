//! View of the kept runs.

use parallax_report::escape;
use parallax_schema::spec::query;
use serde::Deserialize;
use wasm_bindgen::JsCast;
use web_sys::Element;

use super::View;
use super::dom::{attribute, empty, fill, id, listen, make};
use super::notices::Tone;
use crate::shelf::RunMeta;
use crate::words::{count, moment};

/// A run that the site recorded in a browser.
#[derive(Debug, Clone, Deserialize)]
pub struct Recorded {
    /// Name of its device.
    pub device: String,
    /// Path of its file from this page.
    pub path: String,
}

/// Action on a kept run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Show its results.
    Show,
    /// Show the part of an interrupted run that exists, and do not ask about it again.
    Keep,
    /// Remove it.
    Remove,
}

impl Wish {
    const ALL: [(Wish, &'static str); 3] = [(Wish::Show, "show"), (Wish::Keep, "keep"), (Wish::Remove, "remove")];
}

impl View {
    /// Offers to compare a kept run with runs that the site recorded, by device and path.
    pub fn offer_recorded(&self, recorded: &[Recorded], kept: f64) {
        let holder = id("recorded");
        empty(&holder);
        for Recorded { device, path } in recorded {
            let link = make("a", "button", &format!("Compare with {}", escape(device)));
            let kept = kept.to_string();
            let pairs = [("view", "compare"), ("a", path.as_str()), ("kept", kept.as_str())];
            attribute(&link, "href", &format!("?{}", query::write(&pairs)));
            fill(&holder, [&link]);
        }
    }

    /// Offers to compare a kept run with others.
    pub fn offer_to_compare(&self, kept: Option<f64>) {
        let link = id("compare-run");
        link.set_hidden(kept.is_none());
        if let Some(kept) = kept {
            let kept = kept.to_string();
            attribute(&link, "href", &format!("?{}", query::write(&[("view", "compare"), ("kept", kept.as_str())])));
        }
    }

    /// Shows the list of kept runs.
    pub fn history(&self, spines: &[RunMeta]) {
        let list = id("history");
        empty(&list);
        for spine in spines {
            let row = make("li", "", "");
            let what = make("div", "", "");
            let state = match spine.ended && spine.cases >= spine.planned {
                true => count(spine.cases),
                false => format!("{} of {}", spine.cases, count(spine.planned)),
            };
            let called = spine.name.as_ref().unwrap_or(&spine.device);
            let device = make("span", "", &format!("{called} · {state}"));
            fill(&what, [&make("b", "", &moment(spine.id)), &device, &make("code", "quiet", &spine.asked)]);
            fill(&row, [&what, &button(Wish::Show, "Show", spine), &button(Wish::Remove, "Delete", spine)]);
            fill(&list, [&row]);
        }
        id("history-section").set_hidden(spines.is_empty());
    }

    /// Asks about an interrupted run.
    pub fn left(&self, spine: &RunMeta) {
        let text = format!(
            "It began {} and had {} of {} done when the page was left.",
            moment(spine.id),
            spine.cases,
            count(spine.planned)
        );
        self.notice("left", Tone::Info, "A run was not finished.", &text);
        if let Ok(Some(notice)) = id("notices").query_selector("[data-notice=left]") {
            let choices = make("span", "choices", "");
            fill(&choices, [&button(Wish::Keep, "Keep", spine), &button(Wish::Remove, "Discard", spine)]);
            fill(&notice, [&choices]);
        }
    }

    /// Calls `f` with an action and its run.
    pub fn on_wish(&self, f: impl Fn(Wish, f64) + Clone + 'static) {
        for place in ["history", "notices"] {
            let f = f.clone();
            listen(&id(place), "click", move |event| {
                let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
                let Some(pressed) = target else { return };
                let wish = pressed.get_attribute("data-wish");
                let wish = Wish::ALL.iter().find(|(_, name)| Some(*name) == wish.as_deref());
                let run = pressed.get_attribute("data-run").and_then(|run| run.parse().ok());
                if let (Some((wish, _)), Some(run)) = (wish, run) {
                    f(*wish, run);
                }
            });
        }
    }
}

fn button(wish: Wish, text: &str, spine: &RunMeta) -> Element {
    let button = make("button", "", text);
    let (_, name) = Wish::ALL.iter().find(|(other, _)| *other == wish).expect("all are listed");
    for (key, value) in [("type", "button"), ("data-wish", *name), ("data-run", &spine.id.to_string())] {
        attribute(&button, key, value);
    }
    attribute(&button, "aria-label", &format!("{text} the run of {}", moment(spine.id)));
    button
}
