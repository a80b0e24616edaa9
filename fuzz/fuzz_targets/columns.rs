//! Lists by column: refused with a reason, or parsed. The number of rows is bounded by the length of the input. The written lists
//! parse to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_schema::device::columnar::within;
use parallax_schema::device::{Conditions, Span, columnar};
use parallax_schema::record::{Discarded, Drift};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Lists {
    #[serde(with = "columnar")]
    drift: Vec<Drift>,
    #[serde(with = "columnar")]
    conditions: Vec<Conditions>,
    #[serde(with = "columnar")]
    discarded: Vec<Discarded>,
    #[serde(with = "columnar")]
    spans: Vec<Span>,
}

/// Maximum bytes of rows, and of their strings, per byte of input.
const MOST: usize = 64;

fuzz_target!(|text: &str| {
    let read = |text: &str, length: usize| within(length, || serde_json::from_str::<Lists>(text));
    let Ok(lists) = read(text, text.len()) else { return };
    let rows = size_of::<Drift>() * lists.drift.len()
        + size_of::<Conditions>() * lists.conditions.len()
        + size_of::<Discarded>() * lists.discarded.len()
        + size_of::<Span>() * lists.spans.len();
    let texts: usize = lists.discarded.iter().map(|one| one.reason.len()).sum::<usize>()
        + lists.spans.iter().map(|span| span.name.len()).sum::<usize>();
    assert!(rows + texts <= MOST * text.len(), "{rows} and {texts} bytes of {}", text.len());
    let written = serde_json::to_string(&lists).expect("lists are JSON");
    let again = read(&written, text.len().max(written.len())).expect("written columns are read");
    // The first writing rounds; later ones change nothing.
    assert_eq!(serde_json::to_string(&again).expect("lists are JSON"), written);
});
