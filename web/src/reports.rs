//! The program that reads files and makes reports, traces and comparisons, fetched on demand. Its drawing code runs in the page.
//! All else runs in a worker, so that no file can break the page or block it.

use std::collections::BTreeMap;

use js_sys::{JsString, Reflect, Uint8Array};
use parallax_protocol::error_text;
use parallax_report::CaseInfo;
use parallax_schema::case::DType;
use parallax_schema::record::{Event, Run};
use wasm_bindgen::prelude::*;
use web_sys::File;

use crate::app::suite;
use crate::share::json;
use crate::view::{Tone, View};

#[wasm_bindgen(module = "/src/reports.js")]
extern "C" {
    /// The program in the page itself.
    type Program;
    #[wasm_bindgen(catch)]
    async fn here(glue: &str, program: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn compare(this: &Program, search: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn take_model(this: &Program, file: File, dtypes: &str, found: JsValue) -> Result<(), JsValue>;
    /// Result of the worker's program for a text. Rejects with an object of one key, which names the reason.
    #[wasm_bindgen(catch)]
    async fn make(
        glue: &str,
        program: &str,
        what: &str,
        text: &JsString,
        bytes: Option<Uint8Array>,
    ) -> Result<JsValue, JsValue>;
}

/// Addresses of its script and its module. The commit in each address keeps caches from mixing versions.
const FILES: [&str; 2] = [
    concat!("./reports/parallax-reports.js?", env!("PARALLAX_COMMIT")),
    concat!("./reports/parallax-reports_bg.wasm?", env!("PARALLAX_COMMIT")),
];

/// Result of a function of the program for a text.
async fn made(what: &str, text: &JsString) -> Result<String, Unmade> {
    made_of(what, text, None).await
}

/// Result of a function of the program for a text and the bytes of a file.
async fn made_of(function: &str, text: &JsString, bytes: Option<Uint8Array>) -> Result<String, Unmade> {
    let [glue, program] = FILES;
    let text = make(glue, program, function, text, bytes).await.map_err(|why| Unmade::of(&why))?;
    Ok(text.as_string().expect("it makes text"))
}

/// Error of the program.
enum Unmade {
    /// The text has a mistake.
    Refused(String),
    /// The text broke the program; the next text gets a fresh one.
    Broke(String),
    /// The program did not load.
    Absent(String),
}

impl Unmade {
    fn of(why: &JsValue) -> Unmade {
        let at = |key: &str| Reflect::get(why, &key.into()).ok()?.as_string();
        match (at("refused"), at("broke")) {
            (Some(mistake), _) => Unmade::Refused(mistake),
            (_, Some(trap)) => Unmade::Broke(trap),
            _ => Unmade::Absent(at("absent").unwrap_or_else(|| error_text(why))),
        }
    }

    /// Sentence about a report or a trace.
    fn sentence(self) -> String {
        match self {
            Unmade::Refused(why) => format!("It could not be made: {why}."),
            Unmade::Broke(why) => {
                format!("A part of the page failed while making it; please report this, with the file: {why}.")
            }
            Unmade::Absent(why) => failed(&why),
        }
    }

    /// End of a sentence about a file from outside.
    fn of_file(self) -> String {
        match self {
            Unmade::Refused(mistake) => mistake,
            Unmade::Broke(why) => format!(
                "reading it needs more memory than there is, or hit a bug of this page ({why}); if Parallax wrote the file, \
                 please report this, with the file"
            ),
            Unmade::Absent(why) => format!("the part of the page that reads files did not load ({why}); try again"),
        }
    }
}

fn failed(why: &str) -> String {
    format!("The part of the page that makes this did not load: {why}.")
}

/// Parses a run from an external file.
///
/// # Errors
/// The reason, as the end of a sentence. A text that breaks the reader breaks nothing else.
pub async fn read(text: &JsString) -> Result<Run, String> {
    match made("read", text).await {
        Ok(begun) => match serde_json::from_str(&begun) {
            Ok(Event::Begin { run }) => Ok(*run),
            other => panic!("an answer that begins no run: {other:?}"),
        },
        Err(why) => Err(why.of_file()),
    }
}

/// Answer of the program about the bytes of a model's file.
///
/// # Errors
/// The reason, as the end of a sentence. A file that breaks the reader breaks nothing else.
pub async fn model(asked: &str, contents: Uint8Array) -> Result<String, String> {
    made_of("model", &asked.into(), Some(contents)).await.map_err(Unmade::of_file)
}

/// Gives the file of a model to the program in the page, which calls `found` with models, or with an empty text for impossible choices.
pub async fn take_model(file: File, dtypes: Vec<DType>, found: JsValue) {
    let [glue, program] = FILES;
    let dtypes: Vec<&str> = dtypes.into_iter().map(DType::name).collect();
    let given =
        async { here(glue, program).await?.unchecked_into::<Program>().take_model(file, &dtypes.join(","), found) };
    if let Err(why) = given.await {
        View::new().notice("model", Tone::Error, "No model can be read now.", &failed(&error_text(&why)));
    }
}

/// Time of each operation of a run's model, as markup.
///
/// # Errors
/// The reason of the failure.
pub async fn model_time(run: &Run) -> Result<String, String> {
    made("model_time", &json(run).into()).await.map_err(Unmade::sentence)
}

/// A run as one self-contained page with tables and plots.
///
/// # Errors
/// The reason of the failure.
pub async fn report(run: &Run) -> Result<String, String> {
    made("report", &json(run).into()).await.map_err(Unmade::sentence)
}

/// A run as Chrome trace events.
///
/// # Errors
/// The reason of the failure.
pub async fn trace(run: &Run) -> Result<String, String> {
    made("trace", &json(run).into()).await.map_err(Unmade::sentence)
}

/// A card about a run, as a standalone SVG.
///
/// # Errors
/// The reason of the failure.
pub async fn card(run: &Run) -> Result<String, String> {
    made("card", &json(run).into()).await.map_err(Unmade::sentence)
}

/// A card about the results in a link, from its payload.
///
/// # Errors
/// The reason of the failure.
pub async fn card_of_link(payload: &str) -> Result<String, String> {
    made("card_of_link", &payload.into()).await.map_err(Unmade::sentence)
}

/// Workload facts of a run's records, by case.
///
/// # Errors
/// The reason of the failure.
pub async fn known(run: &Run) -> Result<BTreeMap<String, CaseInfo>, String> {
    let known = made("known", &json(run).into()).await.map_err(Unmade::sentence)?;
    Ok(serde_json::from_str(&known).expect("its answer is JSON"))
}

/// Shows the comparison view, and compares the inputs of a query once the program has loaded.
pub async fn compare(search: String) {
    let view = View::new();
    view.version(&suite());
    view.comparing();
    view.compare_line("Fetching the program for comparisons …");
    let [glue, program] = FILES;
    let begun = async { here(glue, program).await?.unchecked_into::<Program>().compare(&search) };
    if let Err(why) = begun.await.map_err(|why| failed(&error_text(&why))) {
        view.compare_line("");
        view.notice(
            "reports",
            Tone::Error,
            "Runs cannot be compared now.",
            &format!("{why} Reload the page to try again."),
        );
    }
}
