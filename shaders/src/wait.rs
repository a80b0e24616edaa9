//! Waits, which differ between a native thread, which may block, and a page, which must not.

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

/// Blocks until all submitted work is done. Natively, callbacks run only while the device is polled.
///
/// `wgpu` panics when it finds the device lost during a poll, after the callback for the loss. The run continues with a fresh
/// device. So the panic ends here, and the caller finds the reason among the incidents.
#[cfg(not(target_arch = "wasm32"))]
pub fn drive(device: &wgpu::Device) -> Result<(), String> {
    let poll = std::panic::AssertUnwindSafe(|| device.poll(wgpu::PollType::wait_indefinitely()));
    match std::panic::catch_unwind(poll) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the device failed while it was waited for".to_owned()),
    }
}

/// No effect in a page: the browser runs the callbacks.
#[cfg(target_arch = "wasm32")]
pub fn drive(_device: &wgpu::Device) -> Result<(), String> {
    Ok(())
}
