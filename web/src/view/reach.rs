//! What of WebGPU the page asks for: a choice that opens the page anew.

use std::rc::Rc;

use parallax_core::device::Reach;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlInputElement};

use super::View;
use super::dom::{attribute, empty, fill, id, listen, make, prose};
use crate::environment::window;

/// What the choice means, and what it risks.
const ABOUT: &str = "`unsafe` asks for what browsers only try out, such as the matrices that tensor cores multiply; it takes a \
                     browser started with flags for that, and its runs are told apart from all others. Such a browser lets \
                     pages do to the GPU what it would forbid them otherwise, so visit nothing else with it.";
/// Why there is no choice.
const NONE: &str = "It is off here: this browser offers no such matrices on this GPU. Chromium does, on some, when it is started \
                    with `--enable-unsafe-webgpu` and \
                    `--enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia`.";

impl View {
    /// Show what was asked for and what can be, and call with what is chosen. `offered`: the browser has experimental features.
    pub fn reaches(&self, asked: Reach, offered: bool, choose: impl Fn(Reach) + 'static) {
        let (place, choose) = (id("reach"), Rc::new(choose));
        let (field, segments) = (make("fieldset", "", ""), make("div", "segments", ""));
        // Exact timestamps alone are the browser's to give; a link may have asked for them all the same.
        for reach in Reach::ALL.into_iter().filter(|reach| *reach != Reach::Developer || *reach == asked) {
            let (label, input) = (make("label", "", ""), make("input", "", "").unchecked_into::<HtmlInputElement>());
            input.set_type("radio");
            input.set_name("features");
            input.set_value(reach.name());
            input.set_checked(reach == asked);
            input.set_disabled(reach == Reach::Unsafe && reach != asked && !offered);
            let choose = choose.clone();
            listen(&input, "change", move |_| choose(reach));
            fill(&label, [input.as_ref(), &make("span", "", reach.name())]);
            fill(&segments, [&label]);
        }
        let about = prose("p", "quiet", ABOUT);
        attribute(&about, "id", "about-reach");
        attribute(&field, "aria-describedby", "about-reach");
        fill(&field, [&make("legend", "", "Features of WebGPU"), &segments, &about]);
        if !offered {
            fill(&field, [&prose("p", "quiet", NONE)]);
        }
        empty(&place);
        fill(&place, [&field as &Element]);
        place.set_hidden(false);
    }

    /// Open the page anew with these settings.
    pub fn go_to(&self, query: &str) {
        // A browser that refuses stays where it is, which the choice then shows.
        let _ = window().location().set_search(query);
    }
}
