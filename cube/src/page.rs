//! The compilers as a program of a page's, which asks and is answered in JSON.

use std::sync::{Mutex, PoisonError};

use parallax_core::suite::{Translated, Untranslated};
use wasm_bindgen::prelude::*;

use crate::translate::translator;

/// What was said at the last panic. In WebAssembly nothing catches one: it ends the call without a word.
static LAST_WORDS: Mutex<String> = Mutex::new(String::new());

#[wasm_bindgen(start)]
fn start() {
    std::panic::set_hook(Box::new(|info| {
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
    }));
}

/// What becomes of a recipe: the text and its steps, or why there is none.
#[wasm_bindgen]
pub fn translate(recipe: &str) -> String {
    let recipe = serde_json::from_str(recipe).map_err(|mistake| Untranslated::Failed(mistake.to_string()));
    let made: Result<Translated, Untranslated> = recipe.and_then(|recipe| translator().translate(&recipe));
    serde_json::to_string(&made).expect("texts and times are JSON")
}

/// What a call said that ended in a panic.
#[wasm_bindgen(js_name = lastWords)]
pub fn last_words() -> String {
    LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
