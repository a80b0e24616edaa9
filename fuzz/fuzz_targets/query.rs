//! URL queries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_schema::spec::{Spec, query};

fuzz_target!(|text: &str| {
    let pairs = query::read(text);
    if let Ok(spec) = Spec::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))) {
        let read = query::read(&query::write(&spec.to_pairs()));
        let again = Spec::from_pairs(read.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        assert_eq!(again, Ok(spec));
    }
});
