//! Event listeners of the page.

use wasm_bindgen::prelude::*;

use web_sys::{Element, KeyboardEvent};

use super::View;
use super::dom::{id, listen, on_click};
use super::notices::DOWNLOAD;
use crate::environment::window;

/// Milliseconds between two updates of the progress bar.
const TICK_MS: i32 = 250;

impl View {
    /// Calls `f` after a change of a control.
    pub fn on_settings(&self, f: impl Fn() + 'static) {
        listen(&id("settings"), "input", move |_| f());
    }

    /// Calls `f` when Run is pressed.
    pub fn on_run(&self, f: impl Fn() + 'static) {
        listen(&id("settings"), "submit", move |event| {
            event.prevent_default();
            f();
        });
    }

    /// Calls `f` when Stop is pressed.
    pub fn on_stop(&self, f: impl Fn() + 'static) {
        on_click("stop", f);
    }

    /// Calls `f` when the tab is hidden or shown.
    pub fn on_visibility(&self, f: impl Fn() + 'static) {
        if let Some(document) = window().document() {
            listen(&document, "visibilitychange", move |_| f());
        }
    }

    /// Calls `f` several times a second.
    pub fn on_tick(&self, f: impl Fn() + 'static) {
        let f = Closure::<dyn Fn()>::new(f).into_js_value();
        let _ = window().set_interval_with_callback_and_timeout_and_arguments_0(f.unchecked_ref(), TICK_MS);
    }

    /// Calls `f` when the user requests the JSON file, below the results or in a notice.
    pub fn on_download_json(&self, f: impl Fn() + Clone + 'static) {
        on_click("download-json", f.clone());
        listen(&id("notices"), "click", move |event| {
            let pressed = event.target().and_then(|target| target.dyn_into::<Element>().ok());
            if pressed.is_some_and(|pressed| pressed.has_attribute(DOWNLOAD)) {
                f();
            }
        });
    }

    /// Calls `f` when the user requests the report.
    pub fn on_download_report(&self, f: impl Fn() + 'static) {
        on_click("download-report", f);
    }

    /// Calls `f` when the user requests the trace file.
    pub fn on_download_trace(&self, f: impl Fn() + 'static) {
        on_click("download-trace", f);
    }

    /// Calls `f` when the user requests the roofline with this file extension.
    pub fn on_download_roofline(&self, ending: &str, f: impl Fn() + 'static) {
        on_click(&format!("download-{ending}"), f);
    }

    /// Calls `f` when the user requests a card about the run.
    pub fn on_download_card(&self, f: impl Fn() + 'static) {
        on_click("download-card", f);
    }

    /// Closes the menu of downloads after a choice, and on Escape.
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

    /// Calls `f` when the user opens the trace.
    pub fn on_open_trace(&self, f: impl Fn() + 'static) {
        on_click("open-trace", f);
    }

    /// Calls `f` when the user requests the link with the results.
    pub fn on_copy_results(&self, f: impl Fn() + 'static) {
        on_click("copy-results", f);
    }

    /// Calls `f` when the user requests the code that shows the results in another page.
    pub fn on_copy_embedded(&self, f: impl Fn() + 'static) {
        on_click("copy-embedded", f);
    }

    /// Calls `f` when the user requests the link with the settings.
    pub fn on_copy_link(&self, f: impl Fn() + 'static) {
        on_click("copy-link", f);
    }
}
