//! Message port of the worker. Each request and each response is a line of JSON. The port is the worker's own scope, or one end of
//! a channel in the page.

use std::cell::RefCell;

use wasm_bindgen::prelude::*;
use web_sys::{MessageEvent, MessagePort};

use crate::worker::Worker;
use parallax_protocol::has_webgpu;
use parallax_protocol::messages::Response;

thread_local! {
    static PORT: RefCell<Option<MessagePort>> = const { RefCell::new(None) };
}

fn say(word: &Response) {
    // Posting a string cannot fail.
    PORT.with_borrow(|port| port.as_ref().map(|port| port.post_message(&word.line().into())));
}

/// Takes requests from `port` as long as this program runs. A worker's own scope takes and posts messages like a port.
#[wasm_bindgen]
pub fn measure(port: MessagePort) {
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        say(&Response::Broken { why: info.to_string() });
    }));
    let worker = Worker::new(|word| say(&word));
    let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| {
        let line = message.data().as_string().expect("the page posts text");
        worker.take(serde_json::from_str(&line).expect("the page posts orders"));
    });
    port.set_onmessage(Some(on_message.into_js_value().unchecked_ref()));
    PORT.set(Some(port));
    say(&Response::Ready { webgpu: has_webgpu() });
}
