//! Results in a link.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_schema::record::RunSummary;

fuzz_target!(|text: &str| {
    if let Ok(summary) = RunSummary::from_link(text) {
        RunSummary::from_link(&summary.to_link()).expect("a summary survives a round trip");
    }
});
