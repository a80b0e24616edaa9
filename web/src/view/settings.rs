//! The controls: a spec in, a spec out, and their mirror in the address.

use parallax_core::measure::runner::Mode;
use parallax_core::plan::{Cache, Spec, SpecError};
use parallax_core::suite::{DType, Preset};
use wasm_bindgen::prelude::*;
use web_sys::HtmlInputElement;

use super::View;
use super::dom::{attribute, empty, fill, id, make, typed};
use crate::environment::window;

impl View {
    /// Fill the controls from a spec.
    pub fn settings(&self, spec: &Spec, mode: Mode) {
        let choice = |group: &str, kind: &str, name: &str, on: bool| {
            let label = make("label", "", "");
            let input: HtmlInputElement = make("input", "", "").unchecked_into();
            input.set_type(kind);
            input.set_name(group);
            input.set_value(name);
            input.set_checked(on);
            fill(&label, [&input, &make("span", "", name)]);
            label
        };
        empty(&id("presets"));
        // The awkward shapes are for checking; their figures mean nothing.
        for (name, preset) in Preset::ALL.into_iter().filter(|(_, p)| *p != Preset::Awkward) {
            fill(&id("presets"), [&choice("preset", "radio", name, spec.preset == preset)]);
        }
        empty(&id("dtypes"));
        for (name, dtype) in DType::ALL {
            // WGSL has no bf16; offering it would only offer skips. A link may still ask for it.
            let asked = spec.dtype.contains(&dtype);
            if dtype != DType::BF16 || asked {
                fill(&id("dtypes"), [&choice("dtype", "checkbox", name, asked)]);
            }
        }
        // Cases named one by one are run whatever the preset and the element types.
        for field in ["preset-field", "dtype-field"] {
            id(field).set_hidden(!spec.case.is_empty());
        }
        empty(&id("caches"));
        for (name, cache) in Cache::ALL {
            fill(&id("caches"), [&choice("cache", "radio", name, spec.cache == cache)]);
        }
        typed::<HtmlInputElement>("filter").set_value(&spec.filter.join(" "));
        typed::<HtmlInputElement>("budget").set_value(&spec.budget.to_string());

        // What only a link or the command line can set is shown, with a way to drop it.
        let with_control = ["preset", "dtype", "cache", "filter", "budget"];
        let mut others: Vec<(&str, String)> =
            spec.to_pairs().into_iter().filter(|(key, _)| !with_control.contains(key)).collect();
        if mode == Mode::Verify {
            others.push(("mode", "verify: check results, take no times".to_owned()));
        }
        let fixed = id("fixed");
        empty(&fixed);
        if !others.is_empty() {
            fill(&fixed, [&make("span", "quiet", "Set by the link:")]);
            for (key, value) in &others {
                fill(&fixed, [&make("code", "chip", &format!("{key}={value}"))]);
            }
            let reset = make("a", "", "drop these");
            attribute(&reset, "href", "?");
            fill(&fixed, [&reset]);
        }
        id("settings-section").set_hidden(false);
    }

    /// The controls' state, upon the spec that they were filled from.
    pub fn read_settings(&self, before: &Spec) -> Result<Spec, SpecError> {
        let mut spec = Spec { dtype: Vec::new(), filter: Vec::new(), ..before.clone() };
        for (group, key) in [("presets", "preset"), ("dtypes", "dtype"), ("caches", "cache")] {
            let Ok(chosen) = id(group).query_selector_all("input:checked") else { continue };
            for i in 0..chosen.length() {
                if let Some(input) = chosen.get(i).and_then(|n| n.dyn_into::<HtmlInputElement>().ok()) {
                    spec.set(key, &input.value())?;
                }
            }
        }
        for pattern in typed::<HtmlInputElement>("filter").value().split_whitespace() {
            spec.set("filter", pattern)?;
        }
        spec.set("budget", &typed::<HtmlInputElement>("budget").value())?;
        Ok(spec)
    }

    /// Mirror the settings in the address, without a history entry for each keystroke.
    pub fn set_query(&self, query: &str) {
        if let Ok(history) = window().history() {
            let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&format!("?{query}")));
        }
    }

    /// The page's address.
    pub fn address(&self) -> String {
        window().location().href().unwrap_or_default()
    }
}
