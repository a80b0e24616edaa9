//! Settings, one `key value` pair per line, and their filters on a case.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_schema::spec::Spec;

fuzz_target!(|text: &str| {
    let pairs = text.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    if let Ok(spec) = Spec::from_pairs(pairs) {
        let written = spec.to_pairs();
        let again = Spec::from_pairs(written.iter().map(|(key, value)| (*key, value.as_str())));
        assert_eq!(again.as_ref(), Ok(&spec));
        spec.keeps("attention/fwd/b1,h8,s512,d64/f16/flash");
    }
});
