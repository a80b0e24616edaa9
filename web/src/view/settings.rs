//! View of the controls: a spec in, a spec out, and its copy in the address.

use parallax_schema::session::Mode;
use parallax_schema::spec::settings::{Control, SETTINGS, Scope, Setting, Values};
use parallax_schema::spec::{Spec, SpecError};
use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlInputElement};

use super::View;
use super::dom::{attribute, empty, fill, id, listen, make, prose, typed};
use crate::environment::window;

/// Maximum number of displayed settings without a control.
pub(super) const CHIPS: usize = 8;

impl View {
    /// Fills the controls from a spec.
    pub fn settings(&self, spec: &Spec, mode: Mode) {
        let fields = id("fields");
        empty(&fields);
        // Buttons first, then text fields, which take the remaining width.
        let (lines, buttons): (Vec<_>, Vec<_>) =
            offered().partition(|(setting, _)| matches!(setting.values, Values::Number(_) | Values::Text(_)));
        for (setting, control) in buttons.into_iter().chain(lines) {
            let field = match setting.values {
                Values::Words(words) => choices(setting, control, &words(), spec),
                Values::Switch => choices(setting, control, &["on", "off"], spec),
                Values::Number(_) | Values::Text(_) => entry(setting, control, spec),
            };
            // Cases named one by one run regardless of preset and element types.
            if setting.scope == Scope::Preset && spec.names_cases() {
                attribute(&field, "hidden", "");
            }
            fill(&fields, [&field]);
        }

        // Settings without a control come from a link, the command line or a model. They are displayed with a button to drop them.
        let mut others: Vec<(&str, String)> = spec.to_pairs();
        others.retain(|(key, _)| offered().all(|(setting, _)| setting.name != *key));
        if mode == Mode::Verify {
            others.push(("mode", "verify: check results, take no times".to_owned()));
        }
        let fixed = id("fixed");
        empty(&fixed);
        if !others.is_empty() {
            fill(&fixed, [&make("span", "quiet", "Also set:")]);
            for (key, value) in others.iter().take(CHIPS) {
                fill(&fixed, [&make("code", "chip", &format!("{key}={value}"))]);
            }
            if others.len() > CHIPS {
                fill(&fixed, [&make("span", "quiet", &format!("and {} more", others.len() - CHIPS))]);
            }
            let reset = make("a", "", "drop these");
            attribute(&reset, "href", "?");
            fill(&fixed, [&reset]);
        }
    }

    /// Shows the controls. The device above them then has its height, and nothing moves.
    pub fn show_settings(&self) {
        id("settings-section").set_hidden(false);
        id("model-section").set_hidden(false);
    }

    /// Returns the spec of the controls' state, on top of the spec that they were filled from.
    pub fn read_settings(&self, before: &Spec) -> Result<Spec, SpecError> {
        let mut spec = Spec::default();
        for setting in SETTINGS {
            for value in match &setting.control {
                Some(_) => shown(setting),
                None => setting.get(before),
            } {
                setting.set(&mut spec, &value)?;
            }
        }
        Ok(spec)
    }

    /// Name of the device from the user.
    pub fn device_name(&self) -> String {
        typed::<HtmlInputElement>("device-name").value()
    }

    /// Shows the device's name in its input field.
    pub fn set_device_name(&self, name: &str) {
        typed::<HtmlInputElement>("device-name").set_value(name);
    }

    /// Calls `f` after a change of the device's name.
    pub fn on_device_name(&self, f: impl Fn() + 'static) {
        listen(&id("device-name"), "change", move |_| f());
    }

    /// Copies the settings to the address, without a history entry for each keystroke.
    pub fn set_query(&self, query: &str) {
        if let Ok(history) = window().history() {
            let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&format!("?{query}{}", self.fragment())));
        }
    }

    /// Address of the page without settings.
    pub fn place(&self) -> String {
        let location = window().location();
        location.origin().unwrap_or_default() + &location.pathname().unwrap_or_default()
    }
}

/// Settings with a control.
fn offered() -> impl Iterator<Item = (&'static Setting, &'static Control)> {
    SETTINGS.iter().filter_map(|setting| Some((setting, setting.control.as_ref()?)))
}

/// Identifier of a setting's control element.
fn place(setting: &Setting) -> String {
    format!("setting-{}", setting.name)
}

/// A button for each word. Several can be chosen if the setting is repeatable.
fn choices(setting: &Setting, control: &Control, words: &[&str], spec: &Spec) -> Element {
    let field = make("fieldset", "", "");
    let segments = make("div", "segments", "");
    attribute(&segments, "id", &place(setting));
    let chosen = setting.get(spec);
    for word in words {
        let on = chosen.iter().any(|c| c == word);
        // A link may have a value that the control does not offer.
        if control.unoffered.contains(word) && !on {
            continue;
        }
        let label = make("label", "", "");
        let input: HtmlInputElement = make("input", "", "").unchecked_into();
        input.set_type(if setting.repeatable { "checkbox" } else { "radio" });
        input.set_name(setting.name);
        input.set_value(word);
        input.set_checked(on);
        fill(&label, [&input, &make("span", "", word)]);
        fill(&segments, [&label]);
    }
    fill(&field, [&heading("legend", "", control), &segments]);
    field
}

/// A text field.
fn entry(setting: &Setting, control: &Control, spec: &Spec) -> Element {
    let number = matches!(setting.values, Values::Number(_));
    let field = heading("label", if number { "field short" } else { "field grow" }, control);
    let input: HtmlInputElement = make("input", "", "").unchecked_into();
    input.set_id(setting.name);
    input.set_name(setting.name);
    input.set_type(if number { "number" } else { "text" });
    let more = match number {
        true => [("min", "0"), ("step", "any"), ("inputmode", "decimal")],
        false => [("spellcheck", "false"), ("autocapitalize", "off"), ("placeholder", control.example)],
    };
    more.iter().for_each(|(name, value)| attribute(&input, name, value));
    input.set_value(&setting.get(spec).join(" "));
    let line: &Element = &input;
    fill(&field, [line]);
    field
}

/// Title and hint of a control.
fn heading(tag: &str, class: &str, control: &Control) -> Element {
    let heading = make(tag, class, &format!("{} ", control.title));
    if !control.hint.is_empty() {
        fill(&heading, [&prose("span", "quiet", control.hint)]);
    }
    heading
}

/// Present values of a setting's control.
fn shown(setting: &Setting) -> Vec<String> {
    match setting.values {
        Values::Words(_) | Values::Switch => {
            let Ok(chosen) = id(&place(setting)).query_selector_all("input:checked") else { return Vec::new() };
            let inputs = (0..chosen.length()).filter_map(|i| chosen.get(i)?.dyn_into::<HtmlInputElement>().ok());
            inputs.map(|input| input.value()).collect()
        }
        Values::Number(_) | Values::Text(_) => {
            let text = typed::<HtmlInputElement>(setting.name).value();
            if setting.repeatable { text.split_whitespace().map(str::to_owned).collect() } else { vec![text] }
        }
    }
}
