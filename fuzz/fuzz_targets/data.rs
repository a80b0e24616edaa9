//! Data and weights of models: refused with a reason, or as many values as rows and columns.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_model::data::{Lines, Note, Offsets, Weights, labelled, notes, table};
use parallax_model::ner::Sentences;

fuzz_target!(|bytes: &[u8]| {
    for lines in [Lines::Strict, Lines::Lenient] {
        let _ = labelled(bytes, lines);
        for offsets in [Offsets::Characters, Offsets::Bytes] {
            if let Ok(read) = notes(bytes, offsets, lines) {
                windows(&read.items);
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

/// Entities lie in their texts and apart, and true tags give back all that begin and end with a token.
fn windows(notes: &[Note]) {
    let mut types: Vec<String> = notes.iter().flat_map(|note| &note.entities).map(|e| e.label.clone()).collect();
    types.sort();
    types.dedup();
    for note in notes {
        let length = note.text.chars().count();
        assert!(note.entities.iter().all(|entity| entity.start < entity.end && entity.end <= length));
        assert!(note.entities.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
    let all = Sentences::new(&notes.iter().collect::<Vec<_>>(), &types, 64);
    let found = all.entities(&all.truth());
    assert_eq!(found.len(), notes.len());
    if all.misaligned() == 0 {
        assert!(found.iter().zip(notes).all(|(found, note)| *found == note.entities));
    }
}
