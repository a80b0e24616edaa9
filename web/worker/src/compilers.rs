//! CubeCL's compilers. The page fetches them when a request names a kernel in CubeCL.

use std::cell::RefCell;
use std::sync::Arc;

use parallax_ir::{KernelSources, Recipe, Translated, Translator, Untranslated};
use parallax_schema::units::Bytes;
use wasm_bindgen::prelude::*;

use parallax_protocol::error_text;
use parallax_protocol::messages::Compilers;

#[wasm_bindgen(module = "/src/compilers.js")]
extern "C" {
    /// The loaded compilers.
    type Loaded;
    #[wasm_bindgen(catch)]
    async fn load(glue: &str, program: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn translate(this: &Loaded, recipe: &str) -> Result<String, JsValue>;
    #[wasm_bindgen(method, getter)]
    fn milliseconds(this: &Loaded) -> f64;
    #[wasm_bindgen(method, getter)]
    fn sent(this: &Loaded) -> f64;
    #[wasm_bindgen(method, getter)]
    fn bytes(this: &Loaded) -> f64;
}

#[wasm_bindgen]
extern "C" {
    /// Address of the page, or of its worker's script, which lies in the same folder.
    #[wasm_bindgen(thread_local_v2, js_namespace = location, js_name = href)]
    static HERE: String;
}

/// Paths of the script and of the program that it starts. The commit in each path keeps caches from mixing versions.
const FILES: [&str; 2] = [
    concat!("cube/parallax_cube.js?", env!("PARALLAX_COMMIT")),
    concat!("cube/parallax_cube_bg.wasm?", env!("PARALLAX_COMMIT")),
];

/// Reason of the skip of kernels in CubeCL when no filter names them.
const UNASKED: &str = "the page loads CubeCL's compilers only for a variant that the filter names: \
                       write `cube` or `cubek` into the filter, as in `softmax*cube`";

thread_local! {
    /// The loaded compilers. They stay loaded.
    static LOADED: RefCell<Option<Loaded>> = const { RefCell::new(None) };
}

/// Returns the kernel sources, with the compilers if `asked` and if they load, and the cost of the fetch. Otherwise the kernel
/// sources hold the reason.
pub async fn beside(texts: KernelSources, asked: bool) -> (KernelSources, Option<Compilers>) {
    if !asked {
        return (texts.untranslated_because(UNASKED.to_owned()), None);
    }
    match fetch().await {
        Ok(took) => (texts.translated_by(Arc::new(Fetched)), Some(took)),
        Err(why) => (texts.untranslated_because(why), None),
    }
}

async fn fetch() -> Result<Compilers, String> {
    let here = HERE.with(Clone::clone);
    let address = |file: &str| web_sys::Url::new_with_base(file, &here).map(|url| url.href());
    let loaded = async {
        let [glue, program] = FILES.map(address);
        load(&glue?, &program?).await
    };
    let failed = |why| format!("CubeCL's compilers did not load: {}", error_text(&why));
    let loaded: Loaded = loaded.await.map_err(failed)?.unchecked_into();
    let [sent, bytes] = [loaded.sent(), loaded.bytes()].map(|size| Bytes(size as u64));
    let took = Compilers { sent, bytes, milliseconds: loaded.milliseconds() };
    LOADED.set(Some(loaded));
    Ok(took)
}

/// Translator that uses the fetched compilers. Only the thread that fetched them holds them and makes kernels.
struct Fetched;

impl Translator for Fetched {
    fn translate(&self, recipe: &Recipe) -> Result<Translated, Untranslated> {
        let recipe = serde_json::to_string(recipe).expect("a recipe is JSON");
        LOADED.with_borrow(|loaded| {
            let loaded = loaded.as_ref().ok_or_else(|| "CubeCL's compilers are not in this thread".to_owned())?;
            let made = loaded.translate(&recipe).map_err(|end| error_text(&end))?;
            serde_json::from_str(&made).map_err(|mistake| mistake.to_string())?
        })
    }
}
