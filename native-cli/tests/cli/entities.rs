//! `train ner` and `model ner`: entities on both targets, offsets, resumption after a kill, and refused notes.

use std::path::Path;

use crate::learning::{resumes_to_the_same_weights, run, score};
use crate::{folder, mistake};

/// Small extents, for which a step takes milliseconds.
const SMALL: [&str; 8] = ["--width", "16", "--hidden", "16", "--batch", "4", "--data", "notes.jsonl"];

/// Writes notes with two types, and non-ASCII characters before an entity.
fn write_notes(dir: &Path, name: &str, offset: impl Fn(&str, usize) -> usize) {
    let mut lines = String::new();
    for i in 0..40 {
        let text = format!("Säugling {i} mit Fieber erhält {} mg.", i % 9 + 1);
        let place = |part: &str| text.find(part).expect("a part of the text");
        let entities = [("PROBLEM", place("Fieber"), 6), ("DOSE", text.len() - 5, 4)].map(|(label, start, length)| {
            let [start, end] = [start, start + length].map(|at| offset(&text, at));
            format!(r#"{{"start":{start},"end":{end},"label":"{label}"}}"#)
        });
        lines += &format!("{{\"text\":\"{text}\",\"entities\":[{}]}}\n", entities.join(","));
    }
    std::fs::write(dir.join(name), lines).expect("writable");
}

fn characters(text: &str, at: usize) -> usize {
    text[..at].chars().count()
}

fn training<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&["train", "ner"][..], &SMALL, rest].concat()
}

#[test]
fn the_shipped_model_answers_alike_on_both_targets() {
    let dir = folder();
    for target in ["cpu", "wgpu"] {
        let said = run(dir.path(), &["model", "ner", "--target", target, "--output", target]);
        assert!(said.contains("110 held-out notes, marked `test`") && said.contains("ANATOMY"), "{said}");
        let [strict, relaxed] = ["strict", "relaxed"].map(|by| score(dir.path(), target, &format!("{by} F1 micro")));
        assert!(strict > 0.45 && relaxed > strict + 0.05 && relaxed < 0.95, "{said}");
    }
    assert_eq!(score(dir.path(), "wgpu", "equal predictions"), 1.0);
    let said = run(dir.path(), &["compare", "cpu", "wgpu"]);
    // The intervals over 110 notes are wider than the resolution.
    assert!(said.lines().any(|line| line.contains("strict F1") && line.contains("undecided")), "{said}");
}

/// The losses are means in f32 over sums of at most some hundred terms. Roundings of 2⁻²⁴ grow with the steps, by the rate at most;
/// twenty steps leave a relative difference far below 10⁻⁴.
#[test]
fn the_loss_of_a_tagger_falls_alike_on_both_targets() {
    let dir = folder();
    write_notes(dir.path(), "notes.jsonl", characters);
    for target in ["cpu", "wgpu"] {
        run(dir.path(), &training(&["--steps", "20", "--weights", "w", "--output", target, "--target", target]));
    }
    let [cpu, wgpu] = ["cpu", "wgpu"].map(|file| score(dir.path(), file, "loss at step 20"));
    assert!((cpu - wgpu).abs() < 1e-4 * cpu, "{cpu} and {wgpu}");
    // Five tags: a model without knowledge has a loss of 1.61.
    assert!(cpu > 0.05 && cpu < 1.61, "{cpu}");
}

#[test]
fn a_killed_training_of_a_tagger_resumes_to_the_same_weights() {
    let dir = folder();
    write_notes(dir.path(), "notes.jsonl", characters);
    resumes_to_the_same_weights(dir.path(), &training(&[]));
}

#[test]
fn offsets_in_bytes_and_in_characters_are_the_same_entities() {
    let dir = folder();
    write_notes(dir.path(), "notes.jsonl", characters);
    write_notes(dir.path(), "bytes.jsonl", |_, at| at);
    run(dir.path(), &training(&["--steps", "150", "--weights", "w", "--target", "cpu"]));
    for (data, offsets) in [("notes.jsonl", "characters"), ("bytes.jsonl", "bytes")] {
        let args = ["model", "ner", "--weights", "w", "--target", "cpu", "--data", data, "--offsets", offsets];
        let said = run(dir.path(), &[&args[..], &["--output", "run.json"]].concat());
        assert_eq!(score(dir.path(), "run.json", "strict F1 micro"), 1.0, "{said}");
        assert!(!said.contains("within a token"), "{said}");
    }
    let wrong = ["model", "ner", "--weights", "w", "--target", "cpu", "--data", "bytes.jsonl"];
    mistake(dir.path(), &wrong, &["bytes.jsonl: line", "characters of the text"]);
}

#[test]
fn wrong_notes_are_refused() {
    let dir = folder();
    write_notes(dir.path(), "notes.jsonl", characters);
    let good = std::fs::read_to_string(dir.path().join("notes.jsonl")).expect("readable");
    let first = good.lines().next().expect("a line");
    let other = r#"{"text":"a b","entities":[{"start":0,"end":1,"label":"OTHER"}]}"#;
    let overlap = r#"{"text":"a b","entities":[{"start":0,"end":2,"label":"x"},{"start":1,"end":3,"label":"x"}]}"#;
    for (name, text) in [
        ("empty.jsonl", String::new()),
        ("blank.jsonl", "\n \n".to_owned()),
        ("broken.jsonl", format!("{good}{}\n", &first[..first.len() - 3])),
        ("overlap.jsonl", format!("{first}\n{overlap}\n")),
        ("other.jsonl", format!("{good}{other}\n")),
        ("few.jsonl", format!("{first}\n")),
        ("none.jsonl", "{\"text\":\"a\",\"entities\":[]}\n".repeat(9)),
        ("silent.jsonl", "{\"text\":\" \",\"entities\":[]}\n".to_owned()),
        ("notes.csv", "a,b\n".to_owned()),
    ] {
        std::fs::write(dir.path().join(name), text).expect("writable");
    }
    run(dir.path(), &training(&["--steps", "1", "--weights", "small", "--target", "cpu"]));
    for (args, part) in [
        (&["train", "ner", "--weights", "w", "--data", "nope"][..], "cannot read nope; shipped notes are notes"),
        (&["train", "ner", "--weights", "w", "--data", "empty.jsonl"], "empty.jsonl: there is no item in it"),
        (&["train", "ner", "--weights", "w", "--data", "blank.jsonl"], "blank.jsonl: there is no item in it"),
        (&["train", "ner", "--weights", "w", "--data", "broken.jsonl"], "broken.jsonl: line 41: EOF"),
        (&["train", "ner", "--weights", "w", "--data", "overlap.jsonl"], "line 2: entities 0..2 and 1..3 overlap"),
        (&["train", "ner", "--weights", "w", "--data", "few.jsonl"], "1 notes are too few"),
        (&["train", "ner", "--weights", "w", "--data", "none.jsonl"], "no note has an entity"),
        (&["train", "ner", "--weights", "w", "--data", "notes.csv"], "write texts with entities as .jsonl"),
        (&["train", "ner", "--weights", "w", "--width", "20"], "a multiple of 8"),
        (&["model", "ner", "--data", "notes.jsonl"], "no weights are shipped for notes.jsonl: give --weights"),
        (
            &["model", "ner", "--data", "other.jsonl", "--weights", "small"],
            "no type `OTHER`; its types are DOSE, PROBLEM",
        ),
        (&["model", "ner", "--data", "silent.jsonl", "--weights", "small"], "no note has a word"),
        (&["model", "classify", "--weights", "small"], "the weights are of a model `ner`, not `classify`"),
    ] {
        mistake(dir.path(), &[args, &["--target", "cpu"]].concat(), &[part]);
    }
    assert!(!dir.path().join("w").exists());
    // The broken line alone is left out.
    let lenient = ["model", "ner", "--data", "broken.jsonl", "--weights", "small", "--target", "cpu", "--lenient"];
    assert!(run(dir.path(), &lenient).contains("all 40 notes"));
}
