//! The program that makes reports, traces and comparisons. The page's own fetches it, and calls it as a part of the page.

use std::collections::BTreeMap;

use parallax_core::record::Run;
use parallax_core::report::{Ground, Known, html};
use parallax_core::trace;
use parallax_web::{broken, compare};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

fn main() {
    broken::tell(None);
}

fn read(run: &str) -> Run {
    serde_json::from_str(run).expect("the page has written it")
}

/// A run as one self-contained page with tables and plots.
#[wasm_bindgen]
pub fn report(run: &str) -> String {
    let run = read(run);
    html::page(&[(run.file_stem(), run)], None, None)
}

/// A run as Chrome trace events.
#[wasm_bindgen]
pub fn trace(run: &str) -> String {
    trace::text(&read(run))
}

/// What the workloads of a run's records say of them, by case.
#[wasm_bindgen]
pub fn known(run: &str) -> String {
    let run = read(run);
    let known = run.records.iter().map(|record| (&record.case, Known::of(record, Ground::of(&run))));
    serde_json::to_string(&BTreeMap::from_iter(known)).expect("what is known is JSON")
}

/// Bring the view that compares to life, for a query.
#[wasm_bindgen]
pub fn compare(search: String) {
    spawn_local(compare::start(search));
}
