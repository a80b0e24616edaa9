//! Case strings: parsed or refused. A parsed case survives being written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_ir::Case;

fuzz_target!(|text: &str| {
    if let Ok(case) = text.parse::<Case>() {
        let written = case.to_string();
        let again: Case = written.parse().expect("a written case is read");
        assert_eq!(again.to_string(), written);
    }
});
