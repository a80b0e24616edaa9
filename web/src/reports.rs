//! What makes reports, traces and comparisons: a program of its own, fetched when one of them is asked for.

use std::collections::BTreeMap;

use parallax_core::record::Run;
use parallax_core::report::Known;
use parallax_lab::said;
use wasm_bindgen::prelude::*;

use crate::app::suite;
use crate::share::json;
use crate::view::{Tone, View};

#[wasm_bindgen(module = "/src/reports.js")]
extern "C" {
    /// It.
    type Program;
    #[wasm_bindgen(catch)]
    async fn reports(glue: &str, program: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn report(this: &Program, run: &str) -> Result<String, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn trace(this: &Program, run: &str) -> Result<String, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn known(this: &Program, run: &str) -> Result<String, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn compare(this: &Program, search: &str) -> Result<(), JsValue>;
}

/// Its script and itself. Under names of their own for each commit, so that no cache mixes them.
const FILES: [&str; 2] = [
    concat!("./reports/parallax-reports.js?", env!("PARALLAX_COMMIT")),
    concat!("./reports/parallax-reports_bg.wasm?", env!("PARALLAX_COMMIT")),
];

async fn fetched() -> Result<Program, JsValue> {
    let [glue, program] = FILES;
    Ok(reports(glue, program).await?.unchecked_into())
}

fn failed(why: JsValue) -> String {
    format!("The part of the page that makes this did not load: {}.", said(&why))
}

/// A run as one self-contained page with tables and plots.
///
/// # Errors
/// Why there is none.
pub async fn report(run: &Run) -> Result<String, String> {
    let run = json(run);
    let made = async { fetched().await?.report(&run) };
    made.await.map_err(failed)
}

/// A run as Chrome trace events.
///
/// # Errors
/// Why there is none.
pub async fn trace(run: &Run) -> Result<String, String> {
    let run = json(run);
    let made = async { fetched().await?.trace(&run) };
    made.await.map_err(failed)
}

/// What the workloads of a run's records say of them, by case.
///
/// # Errors
/// Why that is not known.
pub async fn known(run: &Run) -> Result<BTreeMap<String, Known>, String> {
    let run = json(run);
    let made = async { fetched().await?.known(&run) };
    Ok(serde_json::from_str(&made.await.map_err(failed)?).expect("it writes what it knows"))
}

/// Show the view that compares, and have it compare what a query names once it can.
pub async fn compare(search: String) {
    let view = View::new();
    view.version(&suite());
    view.comparing();
    view.compare_line("Fetching what compares …");
    let begun = async { fetched().await?.compare(&search) };
    if let Err(why) = begun.await.map_err(failed) {
        view.compare_line("");
        view.notice(
            "reports",
            Tone::Error,
            "Runs cannot be compared now.",
            &format!("{why} Reload the page to try again."),
        );
    }
}
