//! Arrays in NumPy's format: refused with a reason, or exactly as many bytes as the input needs. These survive their file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use parallax_ir::Case;
use parallax_workloads::parse_case;

// The reader's file alone: the command line around it takes long to compile.
#[path = "../../native-cli/src/npy.rs"]
mod npy;

fuzz_target!(|bytes: &[u8]| {
    let case: Case = parse_case("attention/fwd/b1,h1,s2,d2/f32/flash").expect("a case");
    let spec = &case.problem.buffers()[0];
    let storage = spec.elem.storage(case.problem.dtype);
    if let Ok(read) = npy::read(bytes, Path::new("x.npy"), spec, storage) {
        assert_eq!(read.len() as u64, spec.bytes(case.problem.dtype).0);
        let mut written = Vec::new();
        npy::write(&mut written, spec, storage, &read).expect("memory takes it");
        assert_eq!(npy::read(&written[..], Path::new("y.npy"), spec, storage).expect("our own file"), read);
    }
});
