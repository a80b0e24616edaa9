//! Where orders come in and words go out, each a line of JSON: a worker's own scope, or in the page one end of a channel.

use std::cell::RefCell;

use wasm_bindgen::prelude::*;
use web_sys::{MessageEvent, MessagePort};

use crate::has_webgpu;
use crate::lab::Lab;
use crate::protocol::Word;

thread_local! {
    static PORT: RefCell<Option<MessagePort>> = const { RefCell::new(None) };
}

fn say(word: &Word) {
    // A string can always be posted.
    PORT.with_borrow(|port| port.as_ref().map(|port| port.post_message(&word.line().into())));
}

/// Take orders from there, as long as this program runs. A worker's own scope takes and posts messages as a port does.
#[wasm_bindgen]
pub fn measure(port: MessagePort) {
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        say(&Word::Broken { why: info.to_string() });
    }));
    let lab = Lab::new(|word| say(&word));
    let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| {
        let line = message.data().as_string().expect("the page posts text");
        lab.take(serde_json::from_str(&line).expect("the page posts orders"));
    });
    port.set_onmessage(Some(on_message.into_js_value().unchecked_ref()));
    PORT.set(Some(port));
    say(&Word::Ready { webgpu: has_webgpu() });
}
