//! What recorded runs come to in a link.

use std::path::Path;

use parallax_core::record::{LINK_ROOM, Run, RunSummary};

#[test]
fn recorded_runs_of_the_quick_preset_fit_whole() {
    let of = |session: &'static str| ["browser.json", "cuda.json", "wgpu.json"].map(|file| format!("{session}/{file}"));
    for name in [of("2026-11-22-h200"), of("2026-11-21-h200")].concat() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results").join(&name);
        let run = Run::parse(&std::fs::read_to_string(&path).expect("readable")).expect("a run");
        let link = RunSummary::of(&run).to_link();
        let read = RunSummary::from_link(&link).expect("as written");
        println!("{name}: {} letters for {} cases", link.len(), read.cases.len());
        assert!(link.len() <= LINK_ROOM, "{name}: {} letters", link.len());
        assert!(read.cases.len() >= 35 && read.left_out == 0, "{name}: {} left out", read.left_out);
    }
}
