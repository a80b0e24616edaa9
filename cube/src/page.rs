//! The compilers as a program for the page, with requests and responses in JSON.

use std::sync::{Mutex, PoisonError};

use parallax_ir::{Translated, Untranslated};
use wasm_bindgen::prelude::*;

use crate::translate::translator;

/// Message of the last panic. WebAssembly cannot catch a panic: it ends the call without a message.
static LAST_WORDS: Mutex<String> = Mutex::new(String::new());

#[wasm_bindgen(start)]
fn start() {
    std::panic::set_hook(Box::new(|info| {
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
    }));
}

/// Translates a recipe. Returns the kernel source and its steps, or the error, as JSON.
#[wasm_bindgen]
pub fn translate(recipe: &str) -> String {
    let recipe = serde_json::from_str(recipe).map_err(|mistake| Untranslated::Failed(mistake.to_string()));
    let made: Result<Translated, Untranslated> = recipe.and_then(|recipe| translator().translate(&recipe));
    serde_json::to_string(&made).expect("texts and times are JSON")
}

/// Message of the call that ended in a panic.
#[wasm_bindgen(js_name = lastWords)]
pub fn last_words() -> String {
    LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
