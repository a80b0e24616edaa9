//! What the page listens to.

use wasm_bindgen::prelude::*;

use web_sys::{Element, KeyboardEvent};

use super::View;
use super::dom::{id, listen, on_click};
use super::notices::DOWNLOAD;
use crate::environment::window;

/// How often the progress bar moves.
const TICK_MS: i32 = 250;

impl View {
    /// Call when a control changes.
    pub fn on_settings(&self, f: impl Fn() + 'static) {
        listen(&id("settings"), "input", move |_| f());
    }

    /// Call when Run is pressed.
    pub fn on_run(&self, f: impl Fn() + 'static) {
        listen(&id("settings"), "submit", move |event| {
            event.prevent_default();
            f();
        });
    }

    /// Call when Stop is pressed.
    pub fn on_stop(&self, f: impl Fn() + 'static) {
        on_click("stop", f);
    }

    /// Call when the tab is hidden or shown.
    pub fn on_visibility(&self, f: impl Fn() + 'static) {
        if let Some(document) = window().document() {
            listen(&document, "visibilitychange", move |_| f());
        }
    }

    /// Call several times a second.
    pub fn on_tick(&self, f: impl Fn() + 'static) {
        let f = Closure::<dyn Fn()>::new(f).into_js_value();
        let _ = window().set_interval_with_callback_and_timeout_and_arguments_0(f.unchecked_ref(), TICK_MS);
    }

    /// Call when the JSON file is asked for, below the results or in a notice.
    pub fn on_download_json(&self, f: impl Fn() + Clone + 'static) {
        on_click("download-json", f.clone());
        listen(&id("notices"), "click", move |event| {
            let pressed = event.target().and_then(|target| target.dyn_into::<Element>().ok());
            if pressed.is_some_and(|pressed| pressed.has_attribute(DOWNLOAD)) {
                f();
            }
        });
    }

    /// Call when the report is asked for.
    pub fn on_download_report(&self, f: impl Fn() + 'static) {
        on_click("download-report", f);
    }

    /// Call when the trace file is asked for.
    pub fn on_download_trace(&self, f: impl Fn() + 'static) {
        on_click("download-trace", f);
    }

    /// Call when the roofline is asked for as a file with this ending.
    pub fn on_download_roofline(&self, ending: &str, f: impl Fn() + 'static) {
        on_click(&format!("download-{ending}"), f);
    }

    /// Call when a card about the run is to be saved.
    pub fn on_download_card(&self, f: impl Fn() + 'static) {
        on_click("download-card", f);
    }

    /// Close the menu of downloads once one of them was chosen, and on Escape.
    pub fn close_menus(&self) {
        let close = || drop(id("downloads").remove_attribute("open"));
        listen(&id("downloads"), "click", move |event| {
            let pressed = event.target().and_then(|target| target.dyn_into::<Element>().ok());
            if pressed.is_some_and(|pressed| pressed.tag_name() == "BUTTON") {
                close();
            }
        });
        listen(&id("downloads"), "keydown", move |event| {
            if event.dyn_ref::<KeyboardEvent>().is_some_and(|event| event.key() == "Escape") {
                close();
            }
        });
    }

    /// Call when the trace is to be opened.
    pub fn on_open_trace(&self, f: impl Fn() + 'static) {
        on_click("open-trace", f);
    }

    /// Call when the link with the results is asked for.
    pub fn on_copy_results(&self, f: impl Fn() + 'static) {
        on_click("copy-results", f);
    }

    /// Call when the link with the settings is asked for.
    pub fn on_copy_link(&self, f: impl Fn() + 'static) {
        on_click("copy-link", f);
    }
}
