//! Case strings: parsed or refused. A parsed case survives being written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_workloads::parse_case;

fuzz_target!(|text: &str| {
    if let Ok(case) = parse_case(text) {
        let written = case.to_string();
        let again = parse_case(&written).expect("a written case is read");
        assert_eq!(again.to_string(), written);
    }
});
