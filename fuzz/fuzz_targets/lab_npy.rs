//! Arrays in NumPy's format as contents of a binding in the lab: refused in one line, or planned with the array's size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_lab::{BindingPoint, LabError, Plan, Request, Side, Source};

const TEXT: &str = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main() { y[0] += 1.0; }";

fuzz_target!(|bytes: &[u8]| {
    let side = || Side { text: TEXT.to_owned(), ..Side::default() };
    let point = BindingPoint { group: 0, binding: 0 };
    let mut request = Request { a: side(), b: side(), ..Request::default() };
    request.sources.insert(point, Source::File(bytes.to_vec()));
    match Plan::new(request) {
        Ok(plan) => assert!(plan.bindings[0].bytes <= bytes.len() as u64),
        Err(error @ (LabError::Contents { .. } | LabError::Dtype { .. })) => {
            assert!(!error.to_string().contains('\n'));
        }
        Err(error) => panic!("{error}"),
    }
});
