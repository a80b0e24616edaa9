//! The worker of models: it computes a job of the command line on the GPU or on the processor.
//!
//! `worker.js` fetches the job, calls [`run`], and sends the passes back. Scores are computed by the command line.

mod device;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use parallax_learn::{Job, Machine, Message, passes};
use parallax_schema::record::Suite;
use parallax_schema::units::Bytes;
use serde::Deserialize;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// Settings of a job besides its bytes.
#[derive(Deserialize)]
struct Settings {
    /// `browser` or `wasm`.
    target: String,
    /// Whether to request the features behind browser flags.
    experimental: bool,
    /// Kernel sources by file name that replace the program's own.
    kernels: BTreeMap<String, String>,
    /// Facts about the browser.
    environment: BTreeMap<String, String>,
}

/// Milliseconds between two messages about the progress. Requests share the processor with the model.
const EVERY: f64 = 1000.0;

thread_local! {
    /// Function of the script that posts a message to the command line.
    static POST: RefCell<Option<js_sys::Function>> = const { RefCell::new(None) };
}

fn message(error: impl std::fmt::Display) -> JsError {
    JsError::new(&error.to_string())
}

/// Posts a message. Returns a promise of whether to go on.
fn post(message: &Message) -> Option<js_sys::Promise> {
    let post = POST.with_borrow(Clone::clone)?;
    post.call1(&JsValue::NULL, &message.to_json().into()).ok()?.dyn_into().ok()
}

/// Posts a message. Returns whether the command line still waits for the passes.
async fn tell(message: &Message) -> bool {
    match post(message) {
        Some(answer) => JsFuture::from(answer).await.is_ok_and(|goes_on| goes_on.is_truthy()),
        None => false,
    }
}

/// Returns the size of this program's memory, which never shrinks.
fn own_memory() -> Option<Bytes> {
    let buffer = wasm_bindgen::memory().dyn_into::<js_sys::WebAssembly::Memory>().ok()?.buffer();
    let buffer = buffer.dyn_into::<js_sys::ArrayBuffer>().ok()?;
    Some(Bytes(u64::from(buffer.byte_length())))
}

/// Returns the bytes of the passes of a job. `settings` are JSON. `on_message` posts a message in JSON, and promises whether to go on.
///
/// # Errors
/// The message of a damaged job, an absent device, or a layer that does not run.
#[wasm_bindgen]
pub async fn run(job: Vec<u8>, settings: String, on_message: js_sys::Function) -> Result<Vec<u8>, JsError> {
    POST.set(Some(on_message));
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        // The promise is not awaited: this program has ended.
        let _ = post(&Message::Failed { reason: info.to_string() });
    }));
    let settings: Settings = serde_json::from_str(&settings).map_err(message)?;
    let job = Job::from_bytes(&job).map_err(message)?;
    let profiler = device::open(&settings.target, settings.experimental, settings.kernels).await.map_err(message)?;
    let begin = Message::Begin {
        device: Box::new(profiler.device().clone()),
        clock: profiler.clock().clone(),
        suite: Suite { version: env!("CARGO_PKG_VERSION").to_owned(), commit: env!("PARALLAX_COMMIT").to_owned() },
        environment: settings.environment,
    };
    if !tell(&begin).await {
        return Err(message("the command line waits no more"));
    }
    let mut machine = Machine::new(profiler);
    let last = Cell::new(js_sys::Date::now());
    let progress = async |share| {
        let now = js_sys::Date::now();
        if now - last.get() < EVERY {
            return true;
        }
        last.set(now);
        tell(&Message::Progress { share }).await
    };
    let mut done = passes(&mut machine, &job, progress).await.map_err(message)?;
    done.memory.host_peak = own_memory();
    done.to_bytes().map_err(message)
}
