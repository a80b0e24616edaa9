//! Files of models, in all formats: refused with a reason, or a list of operations whose problems the suite has.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_model::{Options, read};
use parallax_workloads::parse_problem;

fuzz_target!(|bytes: &[u8]| {
    let extents = [("batch".to_owned(), 2), ("seq".to_owned(), 3)].into();
    let options = [Options::default(), Options { extents, ..Options::default() }];
    for options in options {
        if let Ok(model) = read(bytes.to_vec().into(), "m", &options) {
            assert!(!model.operations.is_empty());
            for problem in model.problems() {
                parse_problem(problem).expect("a problem of the suite");
            }
        }
    }
});
