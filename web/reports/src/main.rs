//! The program that reads files and makes reports, traces and comparisons. The page's own program fetches it into a worker, and for
//! drawing into the page.

use std::collections::BTreeMap;

use js_sys::Function;
use parallax_analysis::trace;
use parallax_report::{CaseInfo, DeviceContext, device_facts, html};
use parallax_schema::record::{Event, NamedRun, Run, RunSummary};
use parallax_web::broken;
use parallax_workloads::Registry;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::File;

mod compare;
mod model;
mod models;

/// Largest number of characters of a reason.
const LONGEST: usize = 400;

fn main() {
    broken::tell(None);
}

fn written(run: &str) -> Run {
    serde_json::from_str(run).expect("the page has written it")
}

/// Parses a run from an external file. Returns the beginning of a run as JSON of this version, because the page reads events in any
/// case.
///
/// # Errors
/// The reason, for a text without a run.
#[wasm_bindgen]
pub fn read(text: &str) -> Result<String, String> {
    let run = Run::parse(text).map_err(|why| why.to_string())?;
    Ok(serde_json::to_string(&Event::Begin { run: Box::new(run) }).expect("an event is JSON"))
}

/// A run as one self-contained page with tables and plots.
#[wasm_bindgen]
pub fn report(run: &str) -> String {
    let run = written(run);
    html::page(&Registry, &[NamedRun::new(run.file_stem(), run)], None, None)
}

/// A run as Chrome trace events.
#[wasm_bindgen]
pub fn trace(run: &str) -> String {
    trace::text(&written(run), &Registry)
}

/// A card about a run, as a standalone SVG.
#[wasm_bindgen]
pub fn card(run: &str) -> String {
    let run = written(run);
    html::card(&RunSummary::of(&run), device_facts(&run).as_deref())
}

/// A card about the results in a link.
///
/// # Errors
/// The mistake in the link.
#[wasm_bindgen]
pub fn card_of_link(payload: &str) -> Result<String, String> {
    let summary = RunSummary::from_link(payload).map_err(|why| why.to_string())?;
    Ok(html::card(&summary, None))
}

/// Reads a model of the user for a [`model::Request`] as JSON. Returns a [`model::Answer`] as JSON.
///
/// # Errors
/// The reason, for a file without a model that the page can measure.
#[wasm_bindgen]
pub fn model(asked: &str, contents: Vec<u8>) -> Result<String, String> {
    let asked = serde_json::from_str(asked).expect("the page has written it");
    // A file may have names of any length.
    let read = model::read(contents, &asked).map_err(|why| why.chars().take(LONGEST).collect::<String>())?;
    Ok(serde_json::to_string(&read).expect("the answer is JSON"))
}

/// Shows the model of a file in the page. `dtypes` has the element types of the device, separated by commas. `found` is called with each
/// [`FoundModel`](parallax_web::models::FoundModel) as JSON, or with an empty text for impossible choices.
#[wasm_bindgen]
pub fn take_model(file: File, dtypes: &str, found: Function) {
    models::take(file, dtypes, found);
}

/// Time of each operation of a run's model; empty for a run of no model.
#[wasm_bindgen]
pub fn model_time(run: &str) -> String {
    html::model_time(&written(run))
}

/// Workload facts of a run's records, by case, as JSON.
#[wasm_bindgen]
pub fn known(run: &str) -> String {
    let run = written(run);
    let known =
        run.records.iter().map(|record| (&record.case, CaseInfo::of(record, DeviceContext::new(&Registry, &run))));
    serde_json::to_string(&BTreeMap::from_iter(known)).expect("the answer is JSON")
}

/// Starts the comparison view for a query.
#[wasm_bindgen]
pub fn compare(search: String) {
    spawn_local(compare::start(search));
}
