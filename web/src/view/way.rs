//! View of the target configuration. A choice reloads the page.

use std::num::NonZeroU32;
use std::rc::Rc;

use parallax_protocol::target::TargetConfig;
use parallax_schema::device::BrowserMode;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlInputElement};

use super::View;
use super::dom::{attribute, empty, fill, id, listen, make, prose};
use crate::environment::window;

/// Explanation of the browser modes and their risks.
const REACH: &str = "`unsafe` enables experimental features, such as the matrices that tensor cores multiply; it takes a \
                     browser started with flags for that, and its runs are not comparable with others. Such a browser lets \
                     pages use the GPU without the usual checks, so visit nothing else with it.";
/// Reason of a missing choice.
const NO_REACH: &str = "It is off here: this browser offers no such matrices on this GPU. Chromium does, on some, when it is \
                        started with `--enable-unsafe-webgpu` and \
                        `--enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia`.";
/// Explanation of the choice of threads.
const THREADS: &str = "One thread shows the browser's cost to the code itself, all threads its cost to the processor. Compare \
                       with the command line's target `cpu`, with `RAYON_NUM_THREADS=1` beside one thread.";

/// A target configuration to choose.
struct Choice {
    /// Value in addresses.
    value: String,
    /// Label of the choice.
    label: String,
    way: TargetConfig,
    disabled: bool,
}

impl View {
    /// Shows the requested and the available browser modes, and calls `choose` with a choice. `offered`: the browser has
    /// experimental features.
    pub fn reaches(&self, asked: TargetConfig, offered: bool, choose: impl Fn(TargetConfig) + 'static) {
        // Only the browser can grant exact timestamps, but a link may have requested them.
        let given =
            BrowserMode::ALL.into_iter().filter(|reach| *reach != BrowserMode::Developer || *reach == asked.reach);
        let choices = given.map(|reach| Choice {
            value: reach.name().to_owned(),
            label: reach.name().to_owned(),
            way: TargetConfig { reach, ..asked },
            disabled: reach == BrowserMode::Unsafe && reach != asked.reach && !offered,
        });
        let why_not = (!offered).then(|| NO_REACH.to_owned());
        ways(("features", "Features of WebGPU", REACH), asked, choices, why_not, choose);
    }

    /// Shows the requested number of threads. `most`: the available number, or the reason for a single one.
    pub fn threads(&self, asked: TargetConfig, most: Result<u32, &str>, choose: impl Fn(TargetConfig) + 'static) {
        let choice = |value: &str, label: String, threads| Choice {
            value: value.to_owned(),
            label,
            way: TargetConfig { threads, ..asked },
            disabled: threads.is_none() && most.is_err(),
        };
        let all = most.map_or_else(|_| "all".to_owned(), |most| format!("all {most}"));
        let given = asked.threads.filter(|threads| threads.get() > 1);
        let choices = [choice("1", "one".to_owned(), NonZeroU32::new(1))]
            .into_iter()
            .chain(given.map(|threads| choice(&threads.to_string(), threads.to_string(), Some(threads))))
            .chain([choice("all", all, None)]);
        let why_not = most.err().map(|why| format!("No choice here: {why}."));
        // With one thread, all threads are one.
        let shown = if most.is_err() { TargetConfig { threads: NonZeroU32::new(1), ..asked } } else { asked };
        ways(("threads", "Threads of the processor", THREADS), shown, choices, why_not, choose);
    }

    /// Reloads the page with these settings.
    pub fn go_to(&self, query: &str) {
        // A browser that refuses stays here, and the choice shows that.
        let _ = window().location().set_search(query);
    }
}

/// Shows a choice by its name, legend and meaning.
fn ways(
    (name, legend, about): (&str, &str, &str),
    asked: TargetConfig,
    choices: impl Iterator<Item = Choice>,
    why_not: Option<String>,
    choose: impl Fn(TargetConfig) + 'static,
) {
    let (place, choose) = (id("way"), Rc::new(choose));
    let (field, segments) = (make("fieldset", "", ""), make("div", "segments", ""));
    for Choice { value, label: text, way, disabled } in choices {
        let (label, input) = (make("label", "", ""), make("input", "", "").unchecked_into::<HtmlInputElement>());
        input.set_type("radio");
        input.set_name(name);
        input.set_value(&value);
        input.set_checked(way == asked);
        input.set_disabled(disabled);
        let choose = choose.clone();
        listen(&input, "change", move |_| choose(way));
        fill(&label, [input.as_ref(), &make("span", "", &text)]);
        fill(&segments, [&label]);
    }
    let about = prose("p", "quiet", about);
    attribute(&about, "id", "about-way");
    attribute(&field, "aria-describedby", "about-way");
    fill(&field, [&make("legend", "", legend), &segments, &about]);
    if let Some(why_not) = why_not {
        fill(&field, [&prose("p", "quiet", &why_not)]);
    }
    empty(&place);
    fill(&place, [&field as &Element]);
    place.set_hidden(false);
}
