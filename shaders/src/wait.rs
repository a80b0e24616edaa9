//! Waits, which differ between a native thread, which may block, and a page, which must not.

use std::time::Duration;

/// No effect natively: there is no event loop of a page.
#[cfg(not(target_arch = "wasm32"))]
pub async fn yield_now() {}

/// Yields to the page's event loop.
///
/// A message to the page itself arrives as a separate task, after painting and input. Timers would serve too, but browsers delay
/// nested ones by four milliseconds.
#[cfg(target_arch = "wasm32")]
pub async fn yield_now() {
    let Ok(channel) = web_sys::MessageChannel::new() else { return };
    let delivered = js_sys::Promise::new(&mut |resolve, _| {
        channel.port1().set_onmessage(Some(&resolve));
        // A null message to the page's own open port cannot fail.
        let _ = channel.port2().post_message(&wasm_bindgen::JsValue::NULL);
    });
    // The promise is never rejected.
    let _ = wasm_bindgen_futures::JsFuture::from(delivered).await;
    channel.port1().close();
}

/// Prompts of a queue, until they are dropped. No effect natively, where a wait polls the device.
#[cfg(not(target_arch = "wasm32"))]
pub struct Prompts;

#[cfg(not(target_arch = "wasm32"))]
impl Prompts {
    pub fn new(_queue: &wgpu::Queue) -> Prompts {
        Prompts
    }
}

/// Empty submissions to a queue every few milliseconds, until they are dropped.
///
/// Firefox looks for completed work at each submission, and otherwise every 100 ms.
#[cfg(target_arch = "wasm32")]
pub struct Prompts {
    timer: wasm_bindgen::JsValue,
    _submit: wasm_bindgen::closure::Closure<dyn FnMut()>,
}

/// Milliseconds between two prompts. Browsers delay repeated timers to four.
#[cfg(target_arch = "wasm32")]
const INTERVAL: i32 = 1;

#[cfg(target_arch = "wasm32")]
mod timers {
    use wasm_bindgen::prelude::wasm_bindgen;

    // Pages and workers share these names, and `web_sys` has them apart.
    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_name = setInterval)]
        pub fn set_interval(call: &js_sys::Function, milliseconds: i32) -> wasm_bindgen::JsValue;
        #[wasm_bindgen(js_name = clearInterval)]
        pub fn clear_interval(timer: &wasm_bindgen::JsValue);
    }
}

#[cfg(target_arch = "wasm32")]
impl Prompts {
    /// Begins to prompt.
    pub fn new(queue: &wgpu::Queue) -> Prompts {
        let queue = queue.clone();
        let submit = wasm_bindgen::closure::Closure::<dyn FnMut()>::new(move || {
            queue.submit([]);
        });
        let timer = timers::set_interval(wasm_bindgen::JsCast::unchecked_ref(submit.as_ref()), INTERVAL);
        Prompts { timer, _submit: submit }
    }
}

#[cfg(target_arch = "wasm32")]
impl Drop for Prompts {
    fn drop(&mut self) {
        timers::clear_interval(&self.timer);
    }
}

/// Reason for which a wait ended without the completion of the work.
#[derive(Debug, thiserror::Error)]
pub enum Unfinished {
    /// The limit passed.
    #[error("the device did not finish within {0:?}")]
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "a page's waits have no limit"))]
    TooLong(Duration),
    /// The device failed.
    #[error("{0}")]
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "the browser reports failures"))]
    Failed(String),
}

/// Blocks until all submitted work is done, or until the limit passes. Natively, callbacks run only while the device is polled.
///
/// `wgpu` panics when it finds the device lost during a poll, after the callback for the loss. The run continues with a fresh
/// device. So the panic ends here, and the caller finds the reason among the incidents.
#[cfg(not(target_arch = "wasm32"))]
pub fn drive(device: &wgpu::Device, limit: Option<Duration>) -> Result<(), Unfinished> {
    let wait = wgpu::PollType::Wait { submission_index: None, timeout: limit };
    let poll = std::panic::AssertUnwindSafe(|| device.poll(wait));
    match (std::panic::catch_unwind(poll), limit) {
        (Ok(Ok(_)), _) => Ok(()),
        (Ok(Err(wgpu::PollError::Timeout)), Some(limit)) => Err(Unfinished::TooLong(limit)),
        (Ok(Err(error)), _) => Err(Unfinished::Failed(error.to_string())),
        (Err(_), _) => Err(Unfinished::Failed("the device failed while it was waited for".to_owned())),
    }
}

/// No effect in a page: the browser runs the callbacks.
#[cfg(target_arch = "wasm32")]
pub fn drive(_device: &wgpu::Device, _limit: Option<Duration>) -> Result<(), Unfinished> {
    Ok(())
}
