//! Readers of data: right files, files with errors, and both ways to treat their lines.

use std::collections::BTreeMap;

use parallax_model::data::{DataError, Lines, Offsets, Tensor, Weights, WeightsError, labelled, notes, table};
use parallax_model::quality::Entity;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const TABLE: &str = "a,label,\"b, c\"\n1,yes,2.5\n-3e2,\"no\",0\n";

#[test]
fn tables_have_numbers_and_labels() {
    for text in [TABLE.to_owned(), format!("\u{feff}{}", TABLE.replace('\n', "\r\n"))] {
        let read = table(text.as_bytes(), "label", Lines::Strict).expect("a table");
        assert_eq!(read.items.columns, ["a", "b, c"]);
        assert_eq!(read.items.values, [1.0, 2.5, -300.0, 0.0]);
        assert_eq!(read.items.labels, ["yes", "no"]);
    }
}

#[test]
fn errors_of_tables_name_the_line() {
    for (line, problem) in [
        ("1,yes", "line 4: there are 2 values, and 3 columns"),
        ("1,yes,x", "line 4: `x` in column `b, c` is no finite number"),
        ("inf,yes,1", "line 4: `inf` in column `a` is no finite number"),
        ("1,,1", "line 4: the label is empty"),
    ] {
        let text = format!("{TABLE}{line}\n5,yes,6\n");
        let error = table(text.as_bytes(), "label", Lines::Strict).expect_err(line);
        assert_eq!(error.to_string(), problem);
        let read = table(text.as_bytes(), "label", Lines::Lenient).expect("the other lines");
        assert_eq!((read.items.labels.len(), read.skipped, read.first), (3, 1, Some(error)));
    }
    let error = |text: &str| table(text.as_bytes(), "label", Lines::Lenient).expect_err("refused").to_string();
    assert_eq!(error("a,b\n1,2\n"), "there is no column `label`; columns are a, b");
    assert_eq!(error("a,label,a\n1,2,3\n"), "column `a` is there twice");
    assert_eq!(error("a,label\n"), "there is no item in it");
    assert_eq!(error("a,label\nx,y\n"), "line 2: `x` in column `a` is no finite number");
}

#[test]
fn texts_have_labels() {
    let text = "{\"text\": \"a b\", \"label\": \"x\"}\n\n{\"text\": \"c\", \"label\": 3}\n";
    let error = labelled(text.as_bytes(), Lines::Strict).expect_err("a number").to_string();
    assert!(error.starts_with("line 3: invalid type: integer `3`") && !error.contains("at line"), "{error}");
    let read = labelled(text.as_bytes(), Lines::Lenient).expect("one line");
    assert_eq!((read.items.len(), read.skipped), (1, 1));
    let bytes = [text.as_bytes(), b"\xff\n"].concat();
    assert_eq!(labelled(&bytes, Lines::Lenient).expect("one line").skipped, 2);
}

#[test]
fn notes_have_spans_or_tags() {
    let text = "{\"text\": \"é 5 mg\", \"entities\": [{\"start\": 2, \"end\": 6, \"label\": \"dose\"}]}\n\
                {\"tokens\": [\"é\", \"5\", \"mg\"], \"tags\": [\"O\", \"B-dose\", \"I-dose\"]}\n";
    let read = notes(text.as_bytes(), Offsets::Characters, Lines::Strict).expect("two notes");
    let dose = Entity { start: 2, end: 6, label: "dose".to_owned() };
    for note in &read.items {
        assert_eq!((note.text.as_str(), note.entities.as_slice()), ("é 5 mg", std::slice::from_ref(&dose)));
    }
    for (line, problem) in [
        (r#"{"text":"ab","entities":[{"start":1,"end":3,"label":"x"}]}"#, "entity 1..3 is not within the 2 characters"),
        (r#"{"text":"ab","entities":[{"start":1,"end":1,"label":"x"}]}"#, "entity 1..1 is not within"),
        (r#"{"text":"ab","entities":[{"start":0,"end":1,"label":""}]}"#, "an empty label"),
        (
            r#"{"text":"abc","entities":[{"start":1,"end":3,"label":"x"},{"start":0,"end":2,"label":"y"}]}"#,
            "entities 0..2 and 1..3 overlap",
        ),
        (r#"{"text":"a","entities":[],"split":"dev"}"#, "split is train or test"),
        (r#"{"text":"ab","entities":[{"start":-1,"end":1,"label":"x"}]}"#, "write text and entities"),
        (r#"{"tokens":["a"],"tags":[]}"#, "there are 1 tokens, and 0 tags"),
        (r#"{"tokens":[""],"tags":["O"]}"#, "token 0 is empty"),
        (r#"{"tokens":["a"],"tags":["E-x"]}"#, "tag 0 is `E-x`"),
        (r#"{"text":"a"}"#, "write text and entities"),
        ("{", "EOF while parsing"),
    ] {
        let error = notes(line.as_bytes(), Offsets::Characters, Lines::Strict).expect_err(line);
        assert!(matches!(&error, DataError::Line { line: 1, problem: got } if got.contains(problem)), "{error}");
    }
}

#[test]
fn offsets_are_characters_or_bytes() {
    let line = |start: usize, end: usize| {
        format!("{{\"text\":\"ß→𝛼 5 µg\",\"entities\":[{{\"start\":{start},\"end\":{end},\"label\":\"x\"}}]}}")
    };
    let read = |(start, end), offsets| notes(line(start, end).as_bytes(), offsets, Lines::Strict);
    let span = |read: Result<_, DataError>| {
        let read: parallax_model::data::Items<Vec<parallax_model::data::Note>> = read.expect("a note");
        (read.items[0].entities[0].start, read.items[0].entities[0].end)
    };
    // `ß`, `→`, `𝛼` and `µ` have two, three, four and two bytes.
    assert_eq!(span(read((4, 8), Offsets::Characters)), (4, 8));
    assert_eq!(span(read((10, 15), Offsets::Bytes)), (4, 8));
    assert_eq!(span(read((0, 2), Offsets::Bytes)), (0, 1));
    for (at, offsets, problem) in [
        ((4, 9), Offsets::Characters, "not within the 8 characters"),
        ((10, 16), Offsets::Bytes, "not within the 15 bytes"),
        ((1, 5), Offsets::Bytes, "begins or ends within a character"),
        ((0, 3), Offsets::Bytes, "begins or ends within a character"),
    ] {
        let error = read(at, offsets).expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn notes_may_say_their_part() {
    let text = "{\"text\":\"a\",\"entities\":[],\"split\":\"train\"}\n{\"tokens\":[\"a\"],\"tags\":[\"O\"],\"split\":\"test\"}\n\
                {\"text\":\"b\",\"entities\":[]}\n";
    let read = notes(text.as_bytes(), Offsets::Characters, Lines::Strict).expect("three notes");
    assert_eq!(read.items.iter().map(|note| note.held_out).collect::<Vec<_>>(), [Some(false), Some(true), None]);
}

fn weights() -> Weights {
    let tensor = Tensor { shape: vec![2, 1], values: vec![0.5, -1.0] };
    Weights { tensors: [("w".to_owned(), tensor)].into(), about: [("step".to_owned(), "7".to_owned())].into() }
}

#[test]
fn weights_survive_their_file() {
    let bytes = weights().to_bytes().expect("a file");
    let read = Weights::read(&bytes).expect("its own file");
    assert_eq!(read, weights());
    assert_eq!((read.tensor("w", &[2, 1]), read.about::<u64>("step")), (Ok(&[0.5, -1.0][..]), Ok(7)));
    assert_eq!(read.about::<u64>("seed"), Err(WeightsError::About("seed")));
    assert!(matches!(read.tensor("w", &[1, 2]), Err(WeightsError::Shape { .. })));
    assert!(matches!(read.tensor("v", &[1]), Err(WeightsError::Missing(_))));
    assert!(matches!(Weights::read(&bytes[..bytes.len() - 1]), Err(WeightsError::Format(_))));
    let wrong = Weights {
        tensors: BTreeMap::from([("w".to_owned(), Tensor { shape: vec![3], values: vec![0.0] })]),
        ..weights()
    };
    assert!(wrong.to_bytes().is_err());
    let infinite = Tensor { shape: vec![1], values: vec![f32::INFINITY] };
    let bytes = Weights { tensors: [("w".to_owned(), infinite)].into(), ..weights() }.to_bytes().expect("a file");
    assert_eq!(Weights::read(&bytes), Err(WeightsError::NotFinite("w".to_owned())));
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Arbitrary bytes, and a byte changed in a right file, are read or refused.
    #[test]
    fn broken_files_are_refused(bytes in any::<Vec<u8>>(), at in 0..96usize, noise in any::<u8>()) {
        let mut file = weights().to_bytes().expect("a file");
        let index = at % file.len();
        file[index] = noise;
        for bytes in [bytes, file] {
            let _ = Weights::read(&bytes);
            for lines in [Lines::Strict, Lines::Lenient] {
                let _ = (labelled(&bytes, lines), notes(&bytes, Offsets::Bytes, lines));
                if let Ok(read) = table(&bytes, "label", lines) {
                    prop_assert_eq!(read.items.values.len(), read.items.columns.len() * read.items.labels.len());
                }
            }
        }
    }
}
