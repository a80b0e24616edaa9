//! Data and weights of models: refused with a reason, or as many values as rows and columns.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_model::data::{Lines, Weights, labelled, notes, table};

fuzz_target!(|bytes: &[u8]| {
    for lines in [Lines::Strict, Lines::Lenient] {
        let _ = labelled(bytes, lines);
        if let Ok(read) = notes(bytes, lines) {
            for note in read.items {
                let length = note.text.chars().count();
                assert!(note.entities.iter().all(|entity| entity.start < entity.end && entity.end <= length));
            }
        }
        if let Ok(read) = table(bytes, "label", lines) {
            assert_eq!(read.items.values.len(), read.items.columns.len() * read.items.labels.len());
        }
    }
    if let Ok(weights) = Weights::read(bytes) {
        let written = weights.to_bytes().expect("its own tensors");
        assert_eq!(Weights::read(&written).expect("our own file"), weights);
    }
});
