//! Lengths of recorded runs as links.

use std::path::Path;

use parallax_engine::plan::plan;
use parallax_schema::record::{LINK_ROOM, Run, RunSummary};
use parallax_schema::spec::Spec;
use parallax_schema::testing::{caps, run, spread};

#[test]
fn recorded_runs_of_the_quick_preset_fit_whole() {
    let of = |session: &'static str| ["browser.json", "cuda.json", "wgpu.json"].map(|file| format!("{session}/{file}"));
    for name in [of("2026-11-22-h200"), of("2026-11-21-h200")].concat() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(&name);
        let run = Run::parse(&std::fs::read_to_string(&path).expect("readable")).expect("a run");
        let link = RunSummary::of(&run).to_link();
        let read = RunSummary::from_link(&link).expect("as written");
        println!("{name}: {} letters for {} cases", link.len(), read.cases.len());
        assert!(link.len() <= LINK_ROOM, "{name}: {} letters", link.len());
        assert!(read.cases.len() >= 35 && read.left_out == 0, "{name}: {} left out", read.left_out);
    }
}

#[test]
fn of_all_that_the_quick_preset_has_a_fifth_fits() {
    let plan = plan(&Spec::default(), &caps()).expect("a plan");
    let names: Vec<String> = plan.cases.iter().map(|case| case.name()).collect();
    let time = |i: usize| 1e3 * (1.0 + (i * 7919 % 4801) as f64 * 1.37);
    let cases: Vec<_> = names.iter().enumerate().map(|(i, name)| (name.as_str(), spread(time(i), 0.01, 20))).collect();
    let read = RunSummary::from_link(&RunSummary::of(&run("browser", "X", &cases)).to_link()).expect("as written");
    assert_eq!(read.cases.len() + read.left_out, names.len());
    assert!(read.cases.len() * 5 >= names.len(), "{} of {}", read.cases.len(), names.len());
}
