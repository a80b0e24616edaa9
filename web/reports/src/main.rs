//! The program that reads files and makes reports, traces and comparisons. The page's own program fetches it into a worker, and for
//! drawing into the page.

use std::collections::BTreeMap;

use parallax_analysis::trace;
use parallax_report::{CaseInfo, DeviceContext, device_facts, html};
use parallax_schema::record::{Event, NamedRun, Run, RunSummary};
use parallax_web::broken;
use parallax_workloads::Registry;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

mod compare;

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
