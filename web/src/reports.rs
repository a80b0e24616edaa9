//! What reads files and makes reports, traces and comparisons: a program of its own, fetched when one of them is asked for. What
//! draws is in the page; all else is in a worker beside it, so that no file can break the page or keep it from answering.

use std::collections::BTreeMap;

use js_sys::{JsString, Reflect};
use parallax_core::record::{Event, Run};
use parallax_core::report::CaseInfo;
use parallax_lab::said;
use wasm_bindgen::prelude::*;

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
    /// What the program beside the page makes of a text. Rejects with an object that has one key, which says why.
    #[wasm_bindgen(catch)]
    async fn make(glue: &str, program: &str, what: &str, text: &JsString) -> Result<JsValue, JsValue>;
}

/// Its script and itself. Under names of their own for each commit, so that no cache mixes them.
const FILES: [&str; 2] = [
    concat!("./reports/parallax-reports.js?", env!("PARALLAX_COMMIT")),
    concat!("./reports/parallax-reports_bg.wasm?", env!("PARALLAX_COMMIT")),
];

/// What the program makes of a text, by the name of its function.
async fn made(what: &str, text: &JsString) -> Result<String, Unmade> {
    let [glue, program] = FILES;
    let text = make(glue, program, what, text).await.map_err(|why| Unmade::of(&why))?;
    Ok(text.as_string().expect("it makes text"))
}

/// Why the program made nothing.
enum Unmade {
    /// The text has a mistake.
    Refused(String),
    /// The text broke the program; the next one gets a fresh one.
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
            _ => Unmade::Absent(at("absent").unwrap_or_else(|| said(why))),
        }
    }

    /// In a sentence about a report or a trace.
    fn sentence(self) -> String {
        match self {
            Unmade::Refused(why) => format!("It could not be made: {why}."),
            Unmade::Broke(why) => {
                format!("Making it broke a part of the page; please report this, with the file: {why}.")
            }
            Unmade::Absent(why) => failed(&why),
        }
    }
}

fn failed(why: &str) -> String {
    format!("The part of the page that makes this did not load: {why}.")
}

/// A run from the text of a file from outside.
///
/// # Errors
/// Why it is none, as the end of a sentence. A text that breaks what reads it breaks nothing else.
pub async fn read(text: &JsString) -> Result<Run, String> {
    match made("read", text).await {
        Ok(begun) => match serde_json::from_str(&begun) {
            Ok(Event::Begin { run }) => Ok(*run),
            other => panic!("it writes the beginnings of runs, not {other:?}"),
        },
        Err(Unmade::Refused(mistake)) => Err(mistake),
        Err(Unmade::Broke(why)) => Err(format!(
            "reading it needs more memory than there is, or hit a bug of this page ({why}); if Parallax wrote the file, \
             please report this, with the file"
        )),
        Err(Unmade::Absent(why)) => {
            Err(format!("the part of the page that reads files did not load ({why}); try again"))
        }
    }
}

/// A run as one self-contained page with tables and plots.
///
/// # Errors
/// Why there is none.
pub async fn report(run: &Run) -> Result<String, String> {
    made("report", &json(run).into()).await.map_err(Unmade::sentence)
}

/// A run as Chrome trace events.
///
/// # Errors
/// Why there is none.
pub async fn trace(run: &Run) -> Result<String, String> {
    made("trace", &json(run).into()).await.map_err(Unmade::sentence)
}

/// A card about a run, as an SVG that stands alone.
///
/// # Errors
/// The reason why there is none.
pub async fn card(run: &Run) -> Result<String, String> {
    made("card", &json(run).into()).await.map_err(Unmade::sentence)
}

/// A card about the results in a link, by its payload.
///
/// # Errors
/// The reason why there is none.
pub async fn card_of_link(payload: &str) -> Result<String, String> {
    made("card_of_link", &payload.into()).await.map_err(Unmade::sentence)
}

/// What the workloads of a run's records say of them, by case.
///
/// # Errors
/// Why that is not known.
pub async fn known(run: &Run) -> Result<BTreeMap<String, CaseInfo>, String> {
    let known = made("known", &json(run).into()).await.map_err(Unmade::sentence)?;
    Ok(serde_json::from_str(&known).expect("it writes what it knows"))
}

/// Show the view that compares, and have it compare what a query names once it can.
pub async fn compare(search: String) {
    let view = View::new();
    view.version(&suite());
    view.comparing();
    view.compare_line("Fetching what compares …");
    let [glue, program] = FILES;
    let begun = async { here(glue, program).await?.unchecked_into::<Program>().compare(&search) };
    if let Err(why) = begun.await.map_err(|why| failed(&said(&why))) {
        view.compare_line("");
        view.notice(
            "reports",
            Tone::Error,
            "Runs cannot be compared now.",
            &format!("{why} Reload the page to try again."),
        );
    }
}
