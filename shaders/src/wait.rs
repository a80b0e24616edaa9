//! Waiting, which differs most between a thread that may block and a page that must not.

/// Let the page's event loop take a turn; natively there is none to wait for.
#[cfg(not(target_arch = "wasm32"))]
pub async fn yield_now() {}

/// Let the page's event loop take a turn.
///
/// A message to oneself is delivered as a task of its own, so painting and input come first. Timers would do too, but
/// browsers hold nested ones back by four milliseconds.
#[cfg(target_arch = "wasm32")]
pub async fn yield_now() {
    let Ok(channel) = web_sys::MessageChannel::new() else { return };
    let delivered = js_sys::Promise::new(&mut |resolve, _| {
        channel.port1().set_onmessage(Some(&resolve));
        // Posting nothing to one's own open port cannot fail.
        let _ = channel.port2().post_message(&wasm_bindgen::JsValue::NULL);
    });
    // The promise is never rejected.
    let _ = wasm_bindgen_futures::JsFuture::from(delivered).await;
    channel.port1().close();
}

/// Natively, callbacks run only while the device is polled: block until all submitted work is done.
///
/// `wgpu` panics when it finds the device lost while polling, after it has called the callback for that. A run is to go
/// on with a fresh device, so the panic ends here and the caller finds the reason among the incidents.
#[cfg(not(target_arch = "wasm32"))]
pub fn drive(device: &wgpu::Device) -> Result<(), String> {
    let poll = std::panic::AssertUnwindSafe(|| device.poll(wgpu::PollType::wait_indefinitely()));
    match std::panic::catch_unwind(poll) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the device failed while it was waited for".to_owned()),
    }
}

/// In a page the browser runs the callbacks by itself.
#[cfg(target_arch = "wasm32")]
pub fn drive(_device: &wgpu::Device) -> Result<(), String> {
    Ok(())
}
