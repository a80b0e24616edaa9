//! Opening a device works or explains itself, on every machine.

use parallax_cuda::{CudaOptions, open};
use parallax_ir::device::Profiler;

#[test]
fn opening_works_or_says_what_is_missing() {
    match open(CudaOptions { cache: None, ..CudaOptions::default() }) {
        Ok(cuda) => {
            assert!(!cuda.device().name.is_empty());
            assert!(cuda.clock().step.0 > 0.0);
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(sentence.len() > 40, "not a sentence: {sentence}");
        }
    }
}

#[test]
fn a_device_that_cannot_exist_is_an_error() {
    assert!(open(CudaOptions { ordinal: 1_000_000, cache: None, ..CudaOptions::default() }).is_err());
}
