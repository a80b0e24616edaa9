//! Environment of the run: browser, visibility, screen lock, clocks of the page.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use js_sys::{Function, Object, Promise, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Url, VisibilityState};

/// The page's window. Code in a worker has none and does not call this.
pub fn window() -> web_sys::Window {
    web_sys::window().expect("a page has a window")
}

/// Seconds on the page's monotonic clock.
pub fn seconds() -> f64 {
    window().performance().map_or(0.0, |p| p.now() / 1e3)
}

/// Seconds since 1970 (UTC).
pub fn unix_time() -> u64 {
    (js_sys::Date::now() / 1e3) as u64
}

#[wasm_bindgen(module = "/src/offers.js")]
extern "C" {
    #[wasm_bindgen(catch)]
    async fn offers(name: &str) -> Result<JsValue, JsValue>;
}

/// Returns whether the browser offers subgroup matrices to a page that requests them.
pub async fn offers_matrices() -> bool {
    offers(parallax_protocol::MATRICES).await.is_ok_and(|offered| offered.is_truthy())
}

/// Reason of missing WebGPU, or `None` if the browser has it.
pub fn webgpu_missing() -> Option<&'static str> {
    if parallax_protocol::has_webgpu() {
        None
    } else if !window().is_secure_context() {
        Some("Browsers offer WebGPU to secure pages only. Open this page over https, or from localhost.")
    } else {
        Some(
            "This browser does not offer WebGPU. Use a current Chrome, Edge, Safari or Firefox, keep graphics \
             acceleration on in its settings, and update it; on Linux, Chrome may need the flag \
             chrome://flags/#enable-unsafe-webgpu.",
        )
    }
}

/// Milliseconds since 1970 (UTC).
pub fn milliseconds() -> f64 {
    js_sys::Date::now()
}

/// Applies `f` to the storage of this tab; `None` if the browser has no such storage.
pub fn of_this_tab<T>(f: impl FnOnce(&web_sys::Storage) -> Result<T, JsValue>) -> Option<T> {
    f(&window().session_storage().ok()??).ok()
}

/// Applies `f` to the storage of this site, which persists between visits.
pub fn of_this_site<T>(f: impl FnOnce(&web_sys::Storage) -> Result<T, JsValue>) -> Option<T> {
    f(&window().local_storage().ok()??).ok()
}

/// Waits for a number of milliseconds.
pub async fn sleep(milliseconds: i32) {
    let timer = Promise::new(&mut |resolve, _| {
        // Without timers, nothing would be late either.
        let _ = window().set_timeout_with_callback_and_timeout_and_arguments_0(&resolve, milliseconds);
    });
    let _ = JsFuture::from(timer).await;
}

/// Returns the result of a future if it completes within `milliseconds`.
pub async fn within<T>(milliseconds: i32, future: impl Future<Output = T>) -> Option<T> {
    let (mut timer, mut future) = (pin!(sleep(milliseconds)), pin!(future));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => timer.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Yields to the browser's pending tasks.
pub async fn turn() {
    sleep(0).await;
}

/// Address of the site that contains this page, if there is one. A site has the page at `run/`.
pub fn site() -> Option<&'static str> {
    let path = window().location().pathname().unwrap_or_default();
    ["/run/", "/run/index.html"].iter().any(|end| path.ends_with(end)).then_some("../")
}

/// Returns whether the page comes from a server on this machine.
pub fn at_home() -> bool {
    let host = window().location().hostname().unwrap_or_default();
    ["localhost", "127.0.0.1", "[::1]"].contains(&host.as_str())
}

/// Returns whether the browser resolves an address to the page's own server.
pub fn is_here(address: &str) -> bool {
    let location = window().location();
    let href = location.href().unwrap_or_default();
    Url::new_with_base(address, &href).is_ok_and(|url| location.origin().is_ok_and(|origin| url.origin() == origin))
}

/// Returns whether a page of another site embeds this one.
pub fn framed_elsewhere() -> bool {
    let own = window().location().origin();
    let mut shown = window();
    loop {
        let Some(around) = shown.parent().ok().flatten() else { return true };
        if Object::is(&around, &shown) {
            return false;
        }
        // A window of another origin hides its origin.
        let origin = around.location().origin();
        if origin.is_err() || origin != own {
            return true;
        }
        shown = around;
    }
}

/// Returns whether the page is cross-origin isolated: finer host clock, but no tie to windows that it opens.
pub fn isolated() -> bool {
    Reflect::get(&window(), &"crossOriginIsolated".into()).is_ok_and(|flag| flag.is_truthy())
}

/// Returns whether the tab is hidden at the moment.
pub fn hidden() -> bool {
    window().document().is_some_and(|d| d.visibility_state() == VisibilityState::Hidden)
}

/// Operating system and browser, as far as the page may know them. Nothing here identifies a person.
pub fn describe() -> BTreeMap<String, String> {
    let navigator = window().navigator();
    let mut known = BTreeMap::new();
    let mut add = |key: &str, value: String| {
        if !value.is_empty() {
            known.insert(key.to_owned(), value);
        }
    };
    add("user_agent", navigator.user_agent().unwrap_or_default());
    add("platform", navigator.platform().unwrap_or_default());
    add("host_threads", navigator.hardware_concurrency().to_string());
    add("cross_origin_isolated", isolated().to_string());
    known
}

/// Keeps the screen on while it lives, if the browser supports that.
pub struct ScreenLock(JsValue);

impl ScreenLock {
    /// Requests the lock; `None` if unavailable, which is not an error.
    pub async fn hold() -> Option<ScreenLock> {
        // By name, because web-sys still counts this interface among the unstable ones.
        let locks = Reflect::get(&window().navigator(), &"wakeLock".into()).ok()?;
        let request: Function = Reflect::get(&locks, &"request".into()).ok()?.dyn_into().ok()?;
        let promise: Promise = request.call1(&locks, &"screen".into()).ok()?.dyn_into().ok()?;
        JsFuture::from(promise).await.ok().map(ScreenLock)
    }
}

impl Drop for ScreenLock {
    fn drop(&mut self) {
        let release = Reflect::get(&self.0, &"release".into()).ok().and_then(|f| f.dyn_into::<Function>().ok());
        if let Some(release) = release {
            // A lock that the browser has already taken back cannot be released again. The error is harmless.
            let _ = release.call0(&self.0);
        }
    }
}
