//! Message about a bug in a program of the page.

use wasm_bindgen::JsValue;

use crate::{measuring, remote, view};

/// Installs a panic hook that shows the message, and reports it to the command line if the page has one.
pub fn tell(report: Option<String>) {
    std::panic::set_hook(Box::new(move |info| {
        console_error_panic_hook::hook(info);
        if web_sys::window().is_none() {
            // In a worker, which forwards the message.
            let _ = js_sys::Reflect::set(&js_sys::global(), &"panicked".into(), &JsValue::from(info.to_string()));
            return;
        }
        let at = view::worked_at().map(|name| format!(" at {name}")).unwrap_or_default();
        let what = format!("internal error of the page{at}: {info}");
        view::crashed(&what);
        measuring::abandon();
        if let Some(path) = &report {
            remote::last_words(path, &what);
        }
    }));
}
