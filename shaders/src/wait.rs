//! Waiting, which differs most between a thread that may block and a page that must not.

/// Let the page's event loop take a turn; natively there is none to wait for.
#[cfg(not(target_arch = "wasm32"))]
pub async fn breathe() {}

/// Let the page's event loop take a turn.
///
/// A message to oneself is delivered as a task of its own, so painting and input come first. Timers would do too, but
/// browsers hold nested ones back by four milliseconds.
#[cfg(target_arch = "wasm32")]
pub async fn breathe() {
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
#[cfg(not(target_arch = "wasm32"))]
pub fn drive(device: &wgpu::Device) -> Result<(), String> {
    device.poll(wgpu::PollType::wait_indefinitely()).map(|_| ()).map_err(|e| e.to_string())
}

/// In a page the browser runs the callbacks by itself.
#[cfg(target_arch = "wasm32")]
pub fn drive(_device: &wgpu::Device) -> Result<(), String> {
    Ok(())
}
