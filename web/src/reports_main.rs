//! The program that reads files and makes reports, traces and comparisons. The page's own fetches it: into a worker, and for what is
//! drawn into the page.

use std::collections::BTreeMap;

use parallax_core::record::Run;
use parallax_core::report::{Ground, Known, html};
use parallax_core::trace;
use parallax_web::{broken, compare, share};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

fn main() {
    broken::tell(None);
}

fn written(run: &str) -> Run {
    serde_json::from_str(run).expect("the page has written it")
}

/// A run of a file from outside, as JSON of this version.
///
/// # Errors
/// Why it is none.
#[wasm_bindgen]
pub fn read(text: &str) -> Result<String, String> {
    let run = Run::parse(text).map_err(|why| why.to_string())?;
    Ok(share::json(&run))
}

/// A run as one self-contained page with tables and plots.
#[wasm_bindgen]
pub fn report(run: &str) -> String {
    let run = written(run);
    html::page(&[(run.file_stem(), run)], None, None)
}

/// A run as Chrome trace events.
#[wasm_bindgen]
pub fn trace(run: &str) -> String {
    trace::text(&written(run))
}

/// What the workloads of a run's records say of them, by case.
#[wasm_bindgen]
pub fn known(run: &str) -> String {
    let run = written(run);
    let known = run.records.iter().map(|record| (&record.case, Known::of(record, Ground::of(&run))));
    serde_json::to_string(&BTreeMap::from_iter(known)).expect("what is known is JSON")
}

/// Bring the view that compares to life, for a query.
#[wasm_bindgen]
pub fn compare(search: String) {
    spawn_local(compare::start(search));
}
