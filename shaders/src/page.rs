//! Requests and facts of a device in a page that `wgpu` does not provide.

use js_sys::Reflect;
use parallax_schema::device::{DeviceInfo, DeviceKind};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::experimental::{Answer, WANTED};

#[wasm_bindgen(module = "/src/ask.js")]
extern "C" {
    #[wasm_bindgen(js_name = ask)]
    fn ask_for(names: Vec<String>);

    fn answer() -> String;
}

/// Adds the experimental features to the next request for a device.
pub fn ask() {
    ask_for(WANTED.map(str::to_owned).to_vec());
}

/// Extends the device description of `wgpu`. Of the names, `wgpu` passes on only the description, which most browsers leave empty.
/// Vendor and architecture are available here. `experimental`: the request followed a call of [`ask`].
pub fn described(device: &wgpu::Device, experimental: bool, mut info: DeviceInfo) -> DeviceInfo {
    if experimental {
        Answer::read(&answer()).add_to(&mut info.caps, &mut info.features);
    }
    let Some(device) = device.as_webgpu() else { return info };
    let text = |key: &str| {
        let adapter = Reflect::get(device.as_ref(), &"adapterInfo".into()).ok()?;
        Reflect::get(&adapter, &key.into()).ok()?.as_string().filter(|s| !s.is_empty())
    };
    let (vendor, architecture) = (text("vendor").unwrap_or_default(), text("architecture").unwrap_or_default());
    if let Some(name) = text("description").or_else(|| text("device")) {
        info.name = name;
    } else if !(vendor.is_empty() && architecture.is_empty()) {
        info.name = format!("{vendor} {architecture}").trim().to_owned();
    }
    if architecture.contains("swiftshader") {
        info.kind = DeviceKind::Software;
    }
    info.vendor = vendor;
    info
}

/// Whether the browser's compiler guards every loop. That of Firefox is naga. Others guard a loop only if they cannot prove its end.
pub fn guards_loops() -> bool {
    let of = |object: &wasm_bindgen::JsValue, key: &str| Reflect::get(object, &key.into()).ok();
    let agent = of(&js_sys::global(), "navigator").and_then(|navigator| of(&navigator, "userAgent")?.as_string());
    agent.is_some_and(|agent| agent.contains("Firefox/"))
}
