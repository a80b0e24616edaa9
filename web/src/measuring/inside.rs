//! Inside the worker: a [`Lab`] that hears and speaks by messages, each a line of JSON.

use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use super::lab::Lab;
use super::protocol::Word;
use super::threads;
use crate::environment::has_webgpu;

fn scope() -> DedicatedWorkerGlobalScope {
    js_sys::global().unchecked_into()
}

fn say(word: &Word) {
    let line = serde_json::to_string(word).expect("a word is JSON");
    // A string can always be posted.
    let _ = scope().post_message(&line.into());
}

/// What the program does in a worker.
pub fn main() {
    if threads::is_one() {
        return;
    }
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        say(&Word::Broken(info.to_string()));
    }));
    let lab = Lab::new(|word| say(&word));
    let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| {
        let line = message.data().as_string().expect("the page posts text");
        lab.take(serde_json::from_str(&line).expect("the page posts orders"));
    });
    scope().set_onmessage(Some(on_message.into_js_value().unchecked_ref()));
    say(&Word::Ready { webgpu: has_webgpu() });
}
