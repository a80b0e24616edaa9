//! `train` and `model`: scores, resumption after a kill, and refused data.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use parallax_model::data::Weights;
use parallax_schema::record::Run;

use crate::{folder, mistake, parallax};

pub fn run(folder: &Path, args: &[&str]) -> String {
    let output = parallax(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub fn score(folder: &Path, file: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(folder.join(file)).expect("a run file");
    let run = Run::parse(&text).expect("a run");
    let scores = run.records[0].scores();
    scores.iter().find(|score| score.name == name).unwrap_or_else(|| panic!("{name} in {scores:?}")).value
}

#[test]
fn shipped_models_answer_alike_on_both_targets() {
    let dir = folder();
    for (data, name, least) in [("breast-cancer", "AUC macro", 0.97), ("digits", "accuracy", 0.97)] {
        for target in ["cpu", "wgpu"] {
            let said = run(dir.path(), &["model", "classify", "--data", data, "--target", target, "--output", target]);
            assert!(said.contains("held-out rows, seed 1") && said.contains("confusion matrix"), "{said}");
            assert!(score(dir.path(), target, name) >= least, "{said}");
        }
        assert_eq!(score(dir.path(), "wgpu", "equal predictions"), 1.0);
        let said = run(dir.path(), &["compare", "cpu", "wgpu"]);
        assert!(said.lines().any(|line| line.contains(name) && line.contains("same")), "{said}");
    }
}

/// Asserts that a value of an argument is refused.
fn unusable(folder: &Path, args: &[&str], part: &str) {
    let output = parallax(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains(part), "{args:?}: {said}");
}

/// Arrays between layers are rounded to f16. Their limit is 2⁻⁷ of the largest logit.
#[test]
fn models_in_f16_answer_nearly_as_the_processor_in_f32() {
    let dir = folder();
    let of = |model: &str, target: &str, dtype: &str, file: &str| {
        run(dir.path(), &["model", model, "--target", target, "--dtype", dtype, "--output", file])
    };
    for model in ["classify", "image", "ner"] {
        of(model, "cpu", "f32", "whole");
        let said = of(model, "wgpu", "f16", "half");
        assert!(said.contains("(wgpu, f16)") && said.contains("of the host at most"), "{said}");
        assert!(score(dir.path(), "half", "equal predictions") > 0.98, "{said}");
        assert!(score(dir.path(), "half", "logit difference") > 0.0, "{said}");
        let said = run(dir.path(), &["compare", "whole", "half", "--format", "markdown"]);
        assert!(said.contains(&format!("network {model}")) && said.contains("| f16 |"), "{said}");
    }
    let refused = ["model", "classify", "--target", "cpu", "--dtype", "f16"];
    mistake(dir.path(), &refused, &["this device does not compute with f16"]);
    unusable(dir.path(), &["model", "classify", "--dtype", "f8"], "write f32, f16 or bf16");
}

/// Mixed precision: parameters in f32, layers in f16. The losses differ by roundings of 2⁻¹¹ of the activations.
#[test]
fn the_loss_falls_in_f16_as_in_f32_with_a_scale() {
    let dir = folder();
    for dtype in ["f32", "f16"] {
        let rest = ["--steps", "100", "--weights", "w", "--output", dtype, "--target", "wgpu", "--dtype", dtype];
        run(dir.path(), &training(&rest));
    }
    let [whole, half] = ["f32", "f16"].map(|file| score(dir.path(), file, "loss at step 100"));
    assert!((whole - half).abs() < 0.01 * whole, "{whole} and {half}");
    let text = std::fs::read_to_string(dir.path().join("f16")).expect("a run file");
    let scale = Run::parse(&text).expect("a run").environment.get("loss_scale").cloned().expect("a scale");
    assert!(scale.contains("of 100 steps left out"), "{scale}");
    // An infinite gradient of the first steps halves a scale that is too large.
    let large = ["--steps", "20", "--weights", "w", "--target", "wgpu", "--dtype", "f16", "--loss-scale", "16777216"];
    run(dir.path(), &training(&large));
    unusable(dir.path(), &training(&["--weights", "w", "--loss-scale", "3"]), "a power of two");
}

#[test]
fn inputs_and_logits_are_written_for_other_libraries() {
    let dir = folder();
    run(dir.path(), &["model", "classify", "--data", "digits", "--target", "cpu", "--arrays", "a"]);
    for (file, shape) in [("inputs.npy", "(359, 64"), ("logits.npy", "(359, 10")] {
        let bytes = std::fs::read(dir.path().join("a").join(file)).expect(file);
        let header = String::from_utf8_lossy(&bytes[..128]).into_owned();
        assert!(header.contains("<f4") && header.contains(shape), "{header}");
    }
}

const TRAINING: [&str; 8] = ["train", "classify", "--data", "breast-cancer", "--hidden", "4", "--batch", "16"];

fn training<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&TRAINING[..], rest].concat()
}

/// The losses are means of batches in f32. Roundings of 2⁻²⁴ grow with the steps, by the rate at most.
#[test]
fn the_loss_falls_alike_on_both_targets() {
    let dir = folder();
    for target in ["cpu", "wgpu"] {
        run(dir.path(), &training(&["--steps", "150", "--weights", "w", "--output", target, "--target", target]));
    }
    for (name, least) in [("loss at step 100", 0.05), ("loss at step 150", 0.01)] {
        let [cpu, wgpu] = ["cpu", "wgpu"].map(|file| score(dir.path(), file, name));
        assert!((cpu - wgpu).abs() < 1e-4 * cpu, "{name}: {cpu} and {wgpu}");
        assert!(cpu > least && cpu < 0.69, "{name}: {cpu}");
    }
    assert!(score(dir.path(), "cpu", "loss at step 150") < score(dir.path(), "cpu", "loss at step 100"));
}

/// Kills a training after its first checkpoint, resumes it, and compares its weights with those of a training without a pause.
pub fn resumes_to_the_same_weights(dir: &Path, training: &[&str]) {
    let train = |rest: &[&str]| {
        let args = [training, &["--target", "cpu"], rest].concat();
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(train(&["--steps", "900000", "--weights", "a.safetensors"]))
        .current_dir(dir)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let checkpoint = dir.join("a.checkpoint.safetensors");
    while !checkpoint.exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before its first checkpoint");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    let done: usize =
        Weights::read(&std::fs::read(&checkpoint).expect("readable")).expect("whole").about("done").expect("a number");
    let steps = (done + 150).to_string();
    let other = train(&["--steps", &steps, "--weights", "a.safetensors", "--seed", "2", "--resume"]);
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    mistake(dir, &other, &["a training with another `seed`"]);
    for (file, resume) in [("a.safetensors", &["--resume"][..]), ("b.safetensors", &[])] {
        let args = train(&[&["--steps", &steps, "--weights", file][..], resume].concat());
        run(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let read = |file: &str| Weights::read(&std::fs::read(dir.join(file)).expect("readable")).expect("weights");
    assert_eq!(read("a.safetensors"), read("b.safetensors"));
    assert!(!checkpoint.exists());
}

#[test]
fn a_killed_training_resumes_to_the_same_weights() {
    resumes_to_the_same_weights(folder().path(), &TRAINING);
}

#[test]
fn texts_are_classified_by_their_words() {
    let dir = folder();
    let line = |i: usize| match i % 2 {
        0 => format!("{{\"text\": \"fever and cough for {i} days\", \"label\": \"infection\"}}\n"),
        _ => format!("{{\"text\": \"fracture of the left bone {i}\", \"label\": \"injury\"}}\n"),
    };
    let good: String = (0..60).map(line).collect();
    std::fs::write(dir.path().join("notes.jsonl"), format!("{good}{{\n")).expect("writable");
    let args = ["--data", "notes.jsonl", "--weights", "w.safetensors", "--target", "cpu"];
    let train = [&["train", "classify", "--steps", "300", "--batch", "16", "--hidden", "8"][..], &args].concat();
    mistake(dir.path(), &train, &["notes.jsonl: line 61: EOF"]);
    run(dir.path(), &[&train[..], &["--lenient", "--output", "run.json"]].concat());
    assert_eq!(score(dir.path(), "run.json", "accuracy"), 1.0);
    std::fs::write(dir.path().join("more.jsonl"), format!("{}{}", line(0), line(1))).expect("writable");
    let said = run(
        dir.path(),
        &["model", "classify", "--data", "more.jsonl", "--weights", "w.safetensors", "--target", "cpu"],
    );
    assert!(said.contains("all 2 rows"), "{said}");
}

#[test]
fn wrong_data_and_weights_are_refused() {
    let dir = folder();
    let save = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writable");
    save("one.csv", "a,label\n1,x\n2,x\n");
    save("few.csv", "a,label\n1,x\n2,y\n");
    save("bad.csv", "a,label\n1,x\nq,y\n");
    save("digits.csv", "a,label\n1,0\n2,11\n");
    save("empty.csv", "");
    save("no.safetensors", "nothing");
    for (args, part) in [
        (&["model", "classify", "--data", "nope"][..], "cannot read nope; shipped tables are breast-cancer, digits"),
        (&["model", "classify", "--data", "few.csv"], "no weights are shipped for few.csv: give --weights"),
        (&["model", "classify", "--weights", "no.safetensors"], "this is no file of safetensors"),
        (&["model", "classify", "--target", "wasm", "--page", "none"], "no index.html in none"),
        (&["train", "classify", "--weights", "w", "--target", "browser"], "cpu, wgpu or cuda, not on browser"),
        (&["train", "classify", "--weights", "w", "--data", "one.csv"], "there are 1 classes"),
        (&["train", "classify", "--weights", "w", "--data", "few.csv"], "2 rows are too few"),
        (&["train", "classify", "--weights", "w", "--data", "bad.csv"], "bad.csv: line 3: `q` in column `a`"),
        (&["train", "classify", "--weights", "w", "--data", "empty.csv"], "there is no column `label`"),
        (&["train", "classify", "--weights", "w", "--data", "few.csv", "--label", "z"], "no column `z`"),
        (&["train", "classify", "--weights", "w", "--data", "no.safetensors"], "as .csv, or texts as .jsonl"),
    ] {
        let args = if args.contains(&"--target") { args.to_vec() } else { [args, &["--target", "cpu"]].concat() };
        mistake(dir.path(), &args, &[part]);
    }
    assert!(!dir.path().join("w").exists());
}
