//! External run files: a file from the user, or one of the page's own site.

use std::borrow::Cow;

use js_sys::{Array, JsString, Reflect, Uint8Array};
use parallax_schema::record::{HEAD, ReadError, decoded, is_gzip, is_trace};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, File, ReadableStreamDefaultReader, RequestInit, RequestMode, Response, Url};

use crate::environment::window;
use crate::view;

/// Size limit of a run file, in bytes.
const LIMIT: usize = 16 << 20;

fn too_large() -> String {
    format!("it is larger than {} MiB, the limit for run files", LIMIT >> 20)
}

/// Text of a file from the user. It stays outside this program's memory.
pub async fn text_of(file: &File) -> Result<JsString, String> {
    text_in(file).await?.map_err(|_| "the browser could not read it; choose it again".to_owned())
}

/// Text of a blob. Outer error: the reason why the text is not of a run. Inner error: a read error of the browser.
async fn text_in(blob: &Blob) -> Result<Result<JsString, JsValue>, String> {
    // A trace has gigabytes, and its first bytes identify it.
    let head = match blob.slice_with_f64_and_f64(0.0, HEAD as f64) {
        Ok(head) => bytes_of(&head).await,
        Err(why) => Err(why),
    };
    let head = match head {
        Ok(head) => head,
        Err(why) => return Ok(Err(why)),
    };
    text(&head)?;
    if blob.size() > LIMIT as f64 {
        return Err(too_large());
    }
    if matches!(decoded(&head), Cow::Borrowed(_)) {
        return Ok(JsFuture::from(blob.text()).await.map(JsCast::unchecked_into));
    }
    match bytes_of(blob).await {
        Ok(bytes) => Ok(Ok(text(&bytes)?.into())),
        Err(why) => Ok(Err(why)),
    }
}

async fn bytes_of(blob: &Blob) -> Result<Vec<u8>, JsValue> {
    Ok(Uint8Array::new(&JsFuture::from(blob.array_buffer()).await?).to_vec())
}

/// Decodes the text of a file, in any encoding that editors and shells write.
fn text(bytes: &[u8]) -> Result<String, String> {
    if is_gzip(bytes) {
        return Err("it is compressed with gzip; unpack it first, as with `gunzip`".to_owned());
    }
    let text = decoded(bytes);
    if is_trace(&text) { Err(ReadError::Trace.to_string()) } else { Ok(text.into_owned()) }
}

/// Text of a file of this page's own site.
pub async fn text_at(address: &str) -> Result<JsString, String> {
    let location = window().location();
    let href = location.href().unwrap_or_default();
    let url = Url::new_with_base(address, &href).map_err(|_| "it is not an address".to_owned())?;
    if url.origin() != location.origin().unwrap_or_default() {
        return Err("it is on another site, and this page fetches files of its own only; download it and drop it here"
            .to_owned());
    }
    let failed = |_: JsValue| "the server did not give it".to_owned();
    let asked = RequestInit::new();
    // A redirection to another site also fails.
    asked.set_mode(RequestMode::SameOrigin);
    let response = JsFuture::from(window().fetch_with_str_and_init(&url.href(), &asked)).await.map_err(failed)?;
    let response: Response = response.dyn_into().map_err(failed)?;
    let Some(body) = response.body().filter(|_| response.ok()) else {
        return Err(format!("the server did not give it: status {}", response.status()));
    };
    let reader: ReadableStreamDefaultReader = body.get_reader().unchecked_into();
    let (parts, mut size) = (Array::new(), 0);
    loop {
        let part = JsFuture::from(reader.read()).await.map_err(failed)?;
        let value = Reflect::get(&part, &"value".into()).map_err(failed)?;
        let Ok(value) = value.dyn_into::<Uint8Array>() else { break };
        size += value.length() as usize;
        if size > LIMIT {
            // The effect of the cancellation on the server is irrelevant here.
            let _ = reader.cancel();
            return Err(too_large());
        }
        parts.push(&value);
    }
    text_in(&Blob::new_with_u8_array_sequence(&parts).map_err(failed)?).await?.map_err(failed)
}

/// Calls `f` on external data. Meanwhile the document names the data, for [`broken`](crate::broken) and for `alive.js`, which
/// detects exhausted memory. Nothing else of the page may be borrowed.
pub fn guarded<T>(name: &str, f: impl FnOnce() -> T) -> T {
    view::working_at(Some(name));
    let made = f();
    view::working_at(None);
    made
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn files_are_read_by_their_first_bytes() {
        let utf16: Vec<u8> = "{\"ä\"}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(text(&[&[0xff, 0xfe], &utf16[..]].concat()).as_deref(), Ok("{\"ä\"}"));
        assert_eq!(text("\u{feff}{}".as_bytes()).as_deref(), Ok("{}"));
        for (bytes, said) in [(&[0x1f, 0x8b, 8][..], "gzip"), (b"{\"traceEvents\":[", "a trace")] {
            assert!(text(bytes).is_err_and(|why| why.contains(said)), "{said}");
        }
    }
}
