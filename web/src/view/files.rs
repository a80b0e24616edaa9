//! Files that the user chooses, or drops anywhere on the page.

use js_sys::Array;
use wasm_bindgen::prelude::*;
use web_sys::{File, HtmlElement};

use super::View;
use super::dom::id;

#[wasm_bindgen(module = "/src/files.js")]
extern "C" {
    #[wasm_bindgen(js_name = onFiles)]
    fn on_files(input: &HtmlElement, f: &JsValue);
}

impl View {
    /// Calls `f` with files that are chosen in an input element of index.html, or dropped.
    pub fn on_files(&self, input: &str, f: impl Fn(Vec<File>) + 'static) {
        let f = move |files: Array| f(files.iter().map(JsCast::unchecked_into).collect());
        on_files(&id(input), &Closure::<dyn Fn(Array)>::new(f).into_js_value());
    }
}
