//! Bodies posted to a collector: refused in a sentence, or parsed as a run. The run is displayed, and when written it parses to the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_report::site::{Pages, Site};
use parallax_schema::record::NamedRun;
use parallax_workloads::Registry;

// The collector's reader alone: the command line around it takes long to compile.
#[path = "../../native-cli/src/collector/read.rs"]
mod read;

fuzz_target!(|body: &[u8]| match read::read(body) {
    Ok(run) => {
        let written = serde_json::to_string(&run).expect("a run is JSON");
        let again = read::read(written.as_bytes()).expect("a written run is read");
        assert_eq!(serde_json::to_string(&again).expect("a run is JSON"), written);
        let named = [NamedRun::new(run.file_stem(), run)];
        let pages = Pages::new(&named, Site::new(&Registry));
        assert!(pages.text("index.html").is_some(), "a front");
    }
    Err(refused) => assert!(refused.to_string().ends_with('.'), "{refused}"),
});
