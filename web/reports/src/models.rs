//! Flow of the user's model in the page: file, choices, and the view of both. A worker reads the file, so that none can break the page.

use std::cell::{Cell, RefCell};

use js_sys::{Function, Uint8Array};
use parallax_model::{MOST_BYTES, ModelError};
use parallax_schema::case::DType;
use parallax_web::models::FoundModel;
use parallax_web::reports;
use parallax_web::view::{Tone, View};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{File, HtmlElement};

use crate::model::{Answer, Request, named};

#[wasm_bindgen(module = "/src/files.js")]
extern "C" {
    /// Bytes of a file, unpacked if gzip compressed it. Rejects with the reason as text.
    #[wasm_bindgen(catch)]
    async fn bytes(file: &File, most: f64) -> Result<JsValue, JsValue>;
    /// Names and values of a form's fields, as a JSON list of pairs.
    fn fields(form: &HtmlElement) -> String;
}

/// Key of the notice about a file without a model.
const NOTICE: &str = "model";

/// Present file.
#[derive(Clone)]
struct Present {
    file: File,
    dtypes: Vec<DType>,
    found: Function,
}

thread_local! {
    /// File of the model on display.
    static PRESENT: RefCell<Option<Present>> = const { RefCell::new(None) };
    /// Number of readings begun. A newer one supersedes an older one.
    static READINGS: Cell<u32> = const { Cell::new(0) };
}

/// Reads a new file. One without a model leaves the page as it is.
pub fn take(file: File, dtypes: &str, found: Function) {
    let dtypes = dtypes.split(',').filter_map(|name| named(&DType::ALL, name)).collect();
    spawn_local(read_new(Present { file, dtypes, found }));
}

async fn read_new(new: Present) {
    let (view, name) = (View::new(), new.file.name());
    view.notice(NOTICE, Tone::Info, &name, "is being read …");
    match read(&new, None).await {
        Some(Ok(answer)) if is_taken(&new, &answer) => {
            view.clear_notice(NOTICE);
            view.model(answer.form.as_deref(), &answer.about);
            // The first file connects the form.
            if PRESENT.replace(Some(new)).is_none() {
                view.on_model_choice(|| spawn_local(choose()));
            }
        }
        Some(Err(why)) => view.notice(NOTICE, Tone::Error, &format!("{name} cannot be measured:"), &format!("{why}.")),
        Some(Ok(_)) | None => view.clear_notice(NOTICE),
    }
}

/// Reads the present file again, with other choices.
async fn choose() {
    let Some(present) = PRESENT.with_borrow(Option::clone) else { return };
    let view = View::new();
    let chosen = serde_json::from_str(&fields(&view.model_form())).expect("a list of pairs");
    match read(&present, Some(chosen)).await {
        Some(Ok(answer)) if is_taken(&present, &answer) => view.model(None, &answer.about),
        Some(Err(why)) => {
            let _ = present.found.call1(&JsValue::NULL, &"".into());
            view.model_line(&format!("These choices cannot be measured: {why}."));
        }
        Some(Ok(_)) | None => {}
    }
}

/// Returns whether the page takes a model. It takes none during a run.
fn is_taken(present: &Present, Answer { model, .. }: &Answer) -> bool {
    let found = serde_json::to_string(&FoundModel::Model(model.clone())).expect("a model is JSON");
    present.found.call1(&JsValue::NULL, &found.into()).is_ok_and(|taken| taken.is_truthy())
}

/// Returns the answer about a file; `None` after a newer reading.
async fn read(
    Present { file, dtypes, .. }: &Present,
    chosen: Option<Vec<(String, String)>>,
) -> Option<Result<Answer, String>> {
    let number = READINGS.get() + 1;
    READINGS.set(number);
    let asked = Request { file: file.name(), dtypes: dtypes.clone(), chosen };
    let answer = async {
        if file.size() > MOST_BYTES as f64 {
            return Err(ModelError::TooLarge(file.size() as u64).to_string());
        }
        let contents = bytes(file, MOST_BYTES as f64).await.map_err(|why| why.as_string().unwrap_or_default())?;
        let asked = serde_json::to_string(&asked).expect("a request is JSON");
        let answer = reports::model(&asked, contents.unchecked_into::<Uint8Array>()).await?;
        Ok(serde_json::from_str(&answer).expect("its answer is JSON"))
    };
    let answer = answer.await;
    (READINGS.get() == number).then_some(answer)
}
