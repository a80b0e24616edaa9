//! View of the comparison of run files.

use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, HtmlInputElement};

use super::View;
use super::dom::{attribute, empty, fill, id, listen, make, say, set_title, typed};
use crate::shelf::RunMeta;
use crate::words::{count, moment};

/// Label of a compared input.
pub struct Chip {
    /// Identifier of the input.
    pub id: u32,
    /// Name in tables.
    pub name: String,
    /// Device, target and date.
    pub about: String,
    /// Whether it is the base; absent if it cannot be.
    pub base: Option<bool>,
}

/// Action on an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChipWish {
    /// Make it the base.
    Base,
    /// Remove it.
    Remove,
}

/// File format of the exported comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// Tables for people.
    Markdown,
    /// A spreadsheet.
    Csv,
    /// Data for programs.
    Json,
    /// The cost picture of a target.
    Svg,
    /// The same picture in pixels.
    Png,
}

impl Export {
    const ALL: [(Export, &'static str); 5] = [
        (Export::Markdown, "md"),
        (Export::Csv, "csv"),
        (Export::Json, "json"),
        (Export::Svg, "svg"),
        (Export::Png, "png"),
    ];

    /// File extension.
    pub fn ending(self) -> &'static str {
        Export::ALL.iter().find(|(other, _)| *other == self).expect("all are listed").1
    }
}

impl View {
    /// Shows this view in place of the one that measures.
    pub fn comparing(&self) {
        say(&id("title"), "Compare runs");
        for measuring in ["about", "run-bar", "device-section"] {
            id(measuring).set_hidden(true);
        }
        id("compare-section").set_hidden(false);
        let _ = id("to-measure").remove_attribute("aria-current");
        attribute(&id("to-compare"), "aria-current", "page");
        set_title("Compare runs · Parallax");
    }

    /// Enables the view once the comparison program has loaded.
    pub fn comparable(&self) {
        let _ = id("compare-section").remove_attribute("inert");
    }

    /// Calls `f` with a pasted link.
    pub fn on_pasted(&self, f: impl Fn(String) + 'static) {
        listen(&id("compare-paste"), "submit", move |event| {
            event.prevent_default();
            let input = typed::<HtmlInputElement>("compare-link");
            f(input.value());
            input.set_value("");
        });
    }

    /// Calls `f` with an action on an input.
    pub fn on_chip(&self, f: impl Fn(ChipWish, u32) + Clone + 'static) {
        for (event, key, wish) in [("change", "data-base", ChipWish::Base), ("click", "data-remove", ChipWish::Remove)]
        {
            let f = f.clone();
            listen(&id("compare-chips"), event, move |event| {
                if let Some(chip) = told(event, key).and_then(|chip| chip.parse().ok()) {
                    f(wish, chip);
                }
            });
        }
    }

    /// Calls `f` with a kept run to compare.
    pub fn on_kept(&self, f: impl Fn(f64) + 'static) {
        listen(&id("compare-kept"), "click", move |event| {
            if let Some(run) = told(event, "data-kept").and_then(|run| run.parse().ok()) {
                f(run);
            }
        });
    }

    /// Calls `f` after a change of filter or order.
    pub fn on_look(&self, f: impl Fn() + 'static) {
        listen(&id("compare-tools"), "input", move |_| f());
    }

    /// Calls `f` with the format of a requested export.
    pub fn on_export(&self, f: impl Fn(Export) + 'static) {
        listen(&id("compare-tools"), "click", move |event| {
            let ending = told(event, "data-export");
            if let Some((export, _)) = Export::ALL.iter().find(|(_, known)| Some(*known) == ending.as_deref()) {
                f(*export);
            }
        });
    }

    /// Shows a filter and an order.
    pub fn set_look(&self, words: &str, by_ratio: bool) {
        typed::<HtmlInputElement>("compare-filter").set_value(words);
        typed::<HtmlInputElement>("compare-sort").set_checked(by_ratio);
    }

    /// The words of the filter, and whether the slowest comes first.
    pub fn look(&self) -> (Vec<String>, bool) {
        let words = typed::<HtmlInputElement>("compare-filter").value();
        let words = words.split_whitespace().map(str::to_owned).collect();
        (words, typed::<HtmlInputElement>("compare-sort").checked())
    }

    /// Shows the labels of the inputs.
    pub fn chips(&self, chips: &[Chip]) {
        let list = id("compare-chips");
        empty(&list);
        for chip in chips {
            let row = make("li", "", "");
            attribute(&row, "data-name", &chip.name);
            let what = make("div", "what", "");
            fill(&what, [&make("b", "", &chip.name), &make("span", "quiet", &chip.about)]);
            if let Some(is_base) = chip.base {
                let label = make("label", "", "");
                let choice: HtmlInputElement = make("input", "", "").unchecked_into();
                choice.set_type("radio");
                choice.set_name("base");
                choice.set_checked(is_base);
                attribute(&choice, "data-base", &chip.id.to_string());
                fill(&label, [&choice, &make("span", "", "the base")]);
                fill(&what, [&label]);
            }
            let remove = make("button", "", "Remove");
            attribute(&remove, "type", "button");
            attribute(&remove, "data-remove", &chip.id.to_string());
            attribute(&remove, "aria-label", &format!("Remove {}", chip.name));
            fill(&row, [&what, &remove]);
            fill(&list, [&row]);
        }
    }

    /// Shows the list of kept runs.
    pub fn kept(&self, spines: &[RunMeta]) {
        let list = id("compare-kept");
        for spine in spines {
            let (row, what) = (make("li", "", ""), make("div", "", ""));
            let about = format!("{} · {}", spine.device, count(spine.cases));
            fill(&what, [&make("b", "", &moment(spine.id)), &make("span", "", &about)]);
            let add = make("button", "", "Add");
            attribute(&add, "type", "button");
            attribute(&add, "data-kept", &spine.id.to_string());
            attribute(&add, "aria-label", &format!("Add the run of {}", moment(spine.id)));
            fill(&row, [&what, &add]);
            fill(&list, [&row]);
        }
        id("compare-kept-card").set_hidden(spines.is_empty());
    }

    /// Reports an input that cannot be read.
    pub fn refused(&self, name: &str, why: &str) {
        let line = make("li", "", "");
        fill(&line, [&make("b", "", name), &make("span", "", &format!(": {why}."))]);
        fill(&id("compare-refused"), [&line]);
    }

    /// Removes the reports of unreadable inputs.
    pub fn clear_refused(&self) {
        empty(&id("compare-refused"));
    }

    /// Shows the present activity or the next step.
    pub fn compare_line(&self, line: &str) {
        say(&id("compare-line"), line);
    }

    /// Offers the export of pictures, or hides it.
    pub fn offer_picture(&self, yes: bool) {
        let Ok(buttons) = id("compare-tools").query_selector_all("[data-picture]") else { return };
        for button in (0..buttons.length()).filter_map(|i| buttons.get(i)?.dyn_into::<HtmlElement>().ok()) {
            button.set_hidden(!yes);
        }
    }

    /// Shows the comparison, and a table for each link under its name. They are markup of the core's report, which escapes every
    /// text.
    pub fn compared(&self, comparison: Option<&str>, links: &[(String, String)]) {
        id("compare-tools").set_hidden(comparison.is_none());
        let result = id("compare-result");
        result.set_inner_html(comparison.unwrap_or_default());
        for (title, table) in links {
            let section = make("section", "", "");
            let body = make("div", "", "");
            body.set_inner_html(table);
            fill(&section, [&make("h2", "", title), &body]);
            fill(&result, [&section]);
        }
    }
}

/// Value of an attribute of an event's element.
fn told(event: &web_sys::Event, key: &str) -> Option<String> {
    event.target()?.dyn_into::<Element>().ok()?.get_attribute(key)
}
