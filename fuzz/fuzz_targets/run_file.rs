//! Run files: refused with a reason, or parsed. A parsed run is drawn as a table and a trace, and when written it parses to the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_workloads::Registry;
use parallax_analysis::trace;
use parallax_schema::record::Run;

fuzz_target!(|text: &str| {
    if let Ok(run) = Run::parse(text) {
        let _ = parallax_report::table(&Registry, &run).markdown();
        let _ = trace::text(&run, &Registry);
        // Padded to the length of the source text.
        let written = format!("{:1$}", serde_json::to_string(&run).expect("a run is JSON"), text.len());
        Run::parse(&written).expect("a written run is read");
    }
});
