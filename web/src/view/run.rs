//! View of a run from its beginning to its summary.

use std::cell::Cell;
use std::rc::Rc;

use parallax_report::{device_answer, html};
use parallax_schema::record::Run;
use wasm_bindgen::prelude::*;
use web_sys::{HtmlButtonElement, HtmlInputElement, HtmlProgressElement};

use super::View;
use super::dom::{attribute, empty, fill, has_focus, id, listen, make, on_click, say, set_title, typed};
use crate::words::rough;

/// Attribute of the Run button before the device is open.
const EARLY: &str = "data-early";

impl View {
    /// Enables or disables the Run button.
    pub fn allow_run(&self, yes: bool) {
        typed::<HtmlButtonElement>("run").set_disabled(!yes);
    }

    /// Enables Run before the device is open. Returns whether it was pressed by then.
    pub fn run_early(&self) -> Rc<Cell<bool>> {
        let pressed = Rc::new(Cell::new(false));
        attribute(&id("run"), EARLY, "");
        self.allow_run(true);
        let (view, seen) = (self.clone(), pressed.clone());
        listen(&id("settings"), "submit", move |event| {
            if !id("run").has_attribute(EARLY) {
                return;
            }
            event.prevent_default();
            seen.set(true);
            view.allow_run(false);
            say(&id("plan-line"), "The run starts as soon as the device is open.");
        });
        pressed
    }

    /// Ends the time before the device is open.
    pub fn no_longer_early(&self) {
        let _ = id("run").remove_attribute(EARLY);
    }

    /// Offers the quick look with its duration as the first choice, or only the run of the settings.
    pub fn offer_look(&self, time: Option<&str>) {
        let look = typed::<HtmlButtonElement>("look");
        look.set_hidden(time.is_none());
        look.set_disabled(time.is_none());
        say(&look, &format!("Quick look · {}", time.unwrap_or_default()));
    }

    /// Calls `f` when the quick look is pressed.
    pub fn on_quick_look(&self, f: impl Fn() + 'static) {
        on_click("look", f);
    }

    /// Shows the beginning of a run: an empty table and a moving bar.
    pub fn begin(&self) {
        self.clear_results();
        self.clear_model_time();
        for key in ["hidden", "lost"] {
            self.clear_notice(key);
        }
        self.share_line("");
        empty(&id("summary"));
        self.set_running(true);
        // The section reappears with its first row.
        for section in ["results-section", "share", "plots"] {
            id(section).set_hidden(true);
        }
    }

    fn set_running(&self, running: bool) {
        // A hidden element loses the focus, which would then restart at the top of the page.
        let focused = ["look", "run", "stop"].iter().any(|name| has_focus(name));
        id("look").set_hidden(true);
        id("run").set_hidden(running);
        id("stop").set_hidden(!running);
        if focused {
            let _ = id(if running { "stop" } else { "run" }).focus();
        }
        id("plan-line").set_hidden(running);
        id("progress").set_hidden(!running);
        attribute(&id("stop"), "aria-disabled", "false");
        say(&id("stop"), "Stop");
        let _ = id("model-section").toggle_attribute_with_force("inert", running);
        if let Ok(inputs) = id("settings").query_selector_all("input") {
            for i in 0..inputs.length() {
                if let Some(input) = inputs.get(i).and_then(|n| n.dyn_into::<HtmlInputElement>().ok()) {
                    input.set_disabled(running);
                }
            }
        }
    }

    /// Shows that Stop was pressed.
    pub fn stopping(&self) {
        // A disabled button would lose the focus. Pressing this one again changes nothing.
        attribute(&id("stop"), "aria-disabled", "true");
        say(&id("stop"), "Stopping …");
    }

    /// Shows fraction, remaining time and activity of the run.
    pub fn progress(&self, fraction: f64, left: &str, doing: &str) {
        typed::<HtmlProgressElement>("bar").set_value(fraction);
        let percent = (fraction * 100.0).floor();
        say(&id("progress-doing"), doing);
        say(&id("progress-left"), &format!("{percent} %, about {left} left"));
        set_title(&format!("{percent} % · Parallax"));
    }

    /// Shows the end of the run.
    pub fn end(&self, run: &Run, seconds: f64) {
        self.results(
            run,
            &match &run.interrupted {
                Some(why) => format!("The run ended early after {}: {why}. ", rough(seconds)),
                None => format!("Done in {}. ", rough(seconds)),
            },
        );
        if ["run", "stop"].iter().any(|name| has_focus(name)) {
            let _ = id("results-title").focus();
        }
    }

    /// Shows the summary of a run after a leading sentence. Its records are in the table.
    pub fn results(&self, run: &Run, lead: &str) {
        self.clear_unfinished();
        self.set_running(false);
        set_title("Parallax");
        let answer = device_answer(run);
        id("answer").set_hidden(answer.is_none());
        say(&id("answer"), answer.as_deref().unwrap_or_default());
        let summary = id("summary");
        empty(&summary);
        let count = |verdict: &str| run.records.iter().filter(|r| r.verdict() == verdict).count();
        let good = make("span", "good", &format!("{} pass", count("pass")));
        fill(&summary, [&make("span", "", lead), &good]);
        for (n, class, what) in [
            (count("FAIL"), "bad", "fail"),
            (count("ERROR"), "bad", "error"),
            (count("impossible"), "bad", "impossible"),
            (count("unresolved"), "doubt", "not resolved by the clock"),
            (count("skipped"), "", "skipped, with reasons"),
            (run.missing().count(), "", "not reached"),
        ] {
            if n > 0 {
                fill(&summary, [&make("span", "", ", "), &make("span", class, &format!("{n} {what}"))]);
            }
        }
        fill(&summary, [&make("span", "", ".")]);
        for section in ["results-section", "share"] {
            id(section).set_hidden(false);
        }
        plots(run);
    }
}

/// Shows the plots of the run. They are markup, in elements with no other contents. Every text in them is escaped at its creation.
fn plots(run: &Run) {
    let mut any = false;
    for (name, plot) in [("roofline", html::roofline(run)), ("drift", html::drift(run))] {
        id(name).set_inner_html(&plot);
        id(&format!("{name}-card")).set_hidden(plot.is_empty());
        any |= !plot.is_empty();
    }
    id("plots").set_hidden(!any);
}
