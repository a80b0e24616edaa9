//! Helpers for the document: find, make, fill, listen. Every text enters the document through them. They show invisible control
//! characters as their codes, for text of any origin.

use parallax_report::escape_lines;
use wasm_bindgen::prelude::*;
use web_sys::{Element, EventTarget, HtmlElement};

use crate::environment::window;

/// Returns an element of index.html. Panics if index.html has none of this name.
pub fn id(name: &str) -> HtmlElement {
    let element = window().document().and_then(|d| d.get_element_by_id(name));
    element.and_then(|e| e.dyn_into().ok()).unwrap_or_else(|| panic!("index.html has no element `{name}`"))
}

/// Returns an element of index.html with a given type.
pub fn typed<T: JsCast>(name: &str) -> T {
    id(name).dyn_into().unwrap_or_else(|_| panic!("`{name}` in index.html is of another type"))
}

/// Returns a new element with a class and text.
pub fn make(tag: &str, class: &str, text: &str) -> Element {
    let document = window().document().expect("a page has a document");
    let element = document.create_element(tag).unwrap_or_else(|_| panic!("`{tag}` is not a tag"));
    if !class.is_empty() {
        element.set_class_name(class);
    }
    if !text.is_empty() {
        say(&element, text);
    }
    element
}

/// Replaces the contents of an element with text.
pub fn say(element: &Element, text: &str) {
    element.set_text_content(Some(&escape_lines(text)));
}

/// Returns a new element with text in which backticks mark code.
pub fn prose(tag: &str, class: &str, text: &str) -> Element {
    let element = make(tag, class, "");
    for (i, part) in text.split('`').enumerate().filter(|(_, part)| !part.is_empty()) {
        fill(&element, [&make(if i % 2 == 1 { "code" } else { "span" }, "", part)]);
    }
    element
}

/// Sets a property of an element's own style. The page's policy forbids a `style` attribute.
pub fn property(element: &Element, name: &str, value: &str) {
    if let Some(element) = element.dyn_ref::<HtmlElement>() {
        let _ = element.style().set_property(name, value);
    }
}

/// Returns a list of terms and values without the empty ones.
pub fn facts<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Element {
    facts_from(pairs.into_iter().map(|(term, value)| (term, value, "")))
}

/// Returns a list of terms and values without the empty ones, with the source of each value in smaller type below it.
pub fn facts_from<'a>(rows: impl IntoIterator<Item = (&'a str, String, &'a str)>) -> Element {
    let list = make("dl", "facts", "");
    for (term, value, source) in rows.into_iter().filter(|(_, value, _)| !value.is_empty()) {
        let row = make("div", "", "");
        fill(&row, [&make("dt", "", term), &make("dd", "", &value)]);
        if !source.is_empty() {
            fill(&row, [&make("dd", "source", source)]);
        }
        fill(&list, [&row]);
    }
    list
}

/// Appends elements to another, in order.
pub fn fill<'a>(parent: &Element, children: impl IntoIterator<Item = &'a Element>) {
    for child in children {
        // Appending fails only for a cycle, which new elements cannot form.
        let _ = parent.append_child(child);
    }
}

/// Removes the contents of an element.
pub fn empty(element: &Element) {
    element.set_text_content(None);
}

/// Sets an attribute whose name is known to be valid.
pub fn attribute(element: &Element, name: &str, value: &str) {
    let _ = element.set_attribute(name, &escape_lines(value));
}

/// Returns whether an element of index.html has the keyboard focus.
pub fn has_focus(name: &str) -> bool {
    let active = window().document().and_then(|document| document.active_element());
    active.is_some_and(|element| element.id() == name)
}

/// Sets the title of the window.
pub fn set_title(title: &str) {
    if let Some(document) = window().document() {
        document.set_title(title);
    }
}

/// Calls `f` on every `event`, for as long as the page lives.
pub fn listen(target: &EventTarget, event: &str, f: impl Fn(&web_sys::Event) + 'static) {
    let f = Closure::<dyn Fn(web_sys::Event)>::new(move |e: web_sys::Event| f(&e)).into_js_value();
    let _ = target.add_event_listener_with_callback(event, f.unchecked_ref());
}

/// Calls `f` on every press of a button of index.html.
pub fn on_click(name: &str, f: impl Fn() + 'static) {
    listen(&id(name), "click", move |_| f());
}
