//! Exports of the page at the user's request: files, a link, and a trace for the Perfetto UI.

use js_sys::{Array, Uint8Array};
use parallax_schema::record::Run;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{Blob, BlobPropertyBag, HtmlAnchorElement, Url};

use crate::environment::{isolated, sleep, window};

#[wasm_bindgen(module = "/src/perfetto.js")]
extern "C" {
    #[wasm_bindgen(js_name = openInPerfetto)]
    fn open_in_perfetto(bytes: &Uint8Array, title: &str, tell: JsValue) -> bool;
    #[wasm_bindgen(js_name = handOver, catch)]
    async fn hand_over(bytes: &Uint8Array, title: &str) -> Result<JsValue, JsValue>;
}

#[wasm_bindgen(module = "/src/picture.js")]
extern "C" {
    #[wasm_bindgen(js_name = toPng, catch)]
    async fn to_png(svg: &str, scale: f64) -> Result<JsValue, JsValue>;
}

/// The run as JSON, in the format of all Parallax programs.
pub fn json(run: &Run) -> String {
    serde_json::to_string(run).expect("a run is JSON")
}

/// Saves text as a file of a media type.
pub fn download(name: &str, kind: &str, text: &str) -> Result<(), JsValue> {
    let options = BlobPropertyBag::new();
    options.set_type(kind);
    save(name, &Blob::new_with_str_sequence_and_options(&Array::of1(&text.into()), &options)?)
}

/// Sentence about the result of saving a file.
pub fn told(name: &str, saved: bool) -> String {
    if saved { format!("Saved as {name}.") } else { "The browser did not allow the download.".to_owned() }
}

/// Pixels per unit of a plot, for sharp slides.
const SHARP: f64 = 2.0;

/// Saves a picture as SVG or as pixels.
pub async fn download_picture(name: &str, svg: &str, as_pixels: bool) -> Result<(), JsValue> {
    if as_pixels { save(name, &to_png(svg, SHARP).await?.dyn_into()?) } else { download(name, "image/svg+xml", svg) }
}

/// Saves a card with one pixel per unit.
pub async fn download_card(name: &str, svg: &str) -> Result<(), JsValue> {
    save(name, &to_png(svg, 1.0).await?.dyn_into()?)
}

fn save(name: &str, blob: &Blob) -> Result<(), JsValue> {
    let url = Url::create_object_url_with_blob(blob)?;
    let document = window().document().ok_or("no document")?;
    let link: HtmlAnchorElement = document.create_element("a")?.dyn_into()?;
    link.set_href(&url);
    link.set_download(name);
    link.click();
    // The browser reads the blob after this call. Its memory is freed after a minute.
    spawn_local(async move {
        sleep(60_000).await;
        let _ = Url::revoke_object_url(&url);
    });
    Ok(())
}

/// Opens a trace in the Perfetto UI. Must be called soon after a click. `tell` receives every sentence for the user.
pub async fn open_trace(trace: &str, title: &str, tell: impl Fn(&str) + Clone + 'static) {
    let bytes = Uint8Array::from(trace.as_bytes());
    if isolated() {
        return match hand_over(&bytes, title).await {
            Ok(_) => open_second_page(&tell),
            Err(_) => {
                tell("The browser has no room for a copy of the trace. Download it and open it at ui.perfetto.dev.")
            }
        };
    }
    let outcome = tell.clone();
    let outcome = Closure::<dyn Fn(String)>::new(move |word: String| match word.as_str() {
        "sent" => outcome("Perfetto has the trace."),
        _ => outcome("Perfetto did not answer. Download the trace and open it at ui.perfetto.dev."),
    });
    let opened = open_in_perfetto(&bytes, title, outcome.into_js_value());
    tell(if opened {
        "Waiting for Perfetto in its own tab. The trace is handed over inside this browser; it is not uploaded."
    } else {
        "The browser blocked the new tab. Allow pop-ups for this page, or download the trace."
    });
}

/// Opens the page's second, non-isolated page, which can communicate with the Perfetto UI.
fn open_second_page(tell: &impl Fn(&str)) {
    // Isolation severs the new window anyway, so the result does not show whether it opened.
    let _ = window().open_with_url_and_target_and_features("open-trace.html", "_blank", "noopener");
    tell(
        "This page is cross-origin isolated and cannot talk to other sites' tabs, so a second page of ours opened to hand \
         the trace over. If it did not, allow pop-ups, or download the trace.",
    );
}

/// Copies text to the clipboard.
pub async fn copy(text: &str) -> Result<(), JsValue> {
    JsFuture::from(window().navigator().clipboard().write_text(text)).await.map(drop)
}
