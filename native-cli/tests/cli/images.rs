//! `train image` and `model image`: digits and volumes on both targets, repeatability, and refused images.

use std::path::Path;

use parallax_model::data::Weights;

use crate::learning::{resumes_to_the_same_weights, run, score};
use crate::{folder, mistake};

/// A short training with few channels.
fn training<'a>(data: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&["train", "image", "--hidden", "2", "--batch", "8", "--data", data][..], rest].concat()
}

#[test]
fn shipped_models_of_images_answer_alike_on_both_targets() {
    let dir = folder();
    for (data, least) in [("digits", 0.97), ("volumes", 0.9)] {
        for target in ["cpu", "wgpu"] {
            let said = run(dir.path(), &["model", "image", "--data", data, "--target", target, "--output", target]);
            assert!(said.contains("held-out rows, seed 1") && said.contains("latency p95"), "{said}");
            assert!(score(dir.path(), target, "accuracy") >= least, "{said}");
        }
        assert!(score(dir.path(), "wgpu", "equal predictions") > 0.99);
    }
}

/// The losses are means in f32 over sums of at most some hundred terms. Roundings of 2⁻²⁴ grow with the steps, by the rate at most;
/// ten steps leave a relative difference far below 10⁻⁴. ReLU and the maximum of a window have slopes that jump, but an input that
/// close to a jump changes the loss by as little.
#[test]
fn the_loss_of_images_falls_alike_on_both_targets() {
    let dir = folder();
    write_images(dir.path(), "images.csv", 64);
    for data in ["images.csv", "volumes"] {
        for target in ["cpu", "wgpu"] {
            let rest = ["--steps", "10", "--weights", "w", "--output", target, "--target", target];
            run(dir.path(), &training(data, &rest));
        }
        let [cpu, wgpu] = ["cpu", "wgpu"].map(|file| score(dir.path(), file, "loss at step 10"));
        assert!((cpu - wgpu).abs() < 1e-4 * cpu, "{data}: {cpu} and {wgpu}");
    }
}

#[test]
fn one_seed_gives_one_set_of_weights_on_a_target() {
    let dir = folder();
    write_images(dir.path(), "images.csv", 64);
    let weights = |seed: &str, target: &str| {
        let rest = ["--steps", "10", "--seed", seed, "--weights", "w", "--target", target];
        run(dir.path(), &training("images.csv", &rest));
        Weights::read(&std::fs::read(dir.path().join("w")).expect("readable")).expect("weights")
    };
    for target in ["cpu", "wgpu"] {
        let first = weights("1", target);
        assert_eq!(first, weights("1", target), "{target}");
        assert_ne!(first.tensors, weights("2", target).tensors, "{target}");
    }
}

#[test]
fn a_killed_training_of_images_resumes_to_the_same_weights() {
    let dir = folder();
    write_images(dir.path(), "images.csv", 16);
    resumes_to_the_same_weights(dir.path(), &training("images.csv", &[]));
}

/// Writes images whose upper or lower half is bright.
fn write_images(dir: &Path, name: &str, pixels: usize) {
    let mut lines: String = (0..pixels).map(|pixel| format!("p{pixel},")).collect();
    lines += "label\n";
    for row in 0..40 {
        for pixel in 0..pixels {
            let bright = (pixel < pixels / 2) == (row % 2 == 0);
            lines += &format!("{},", if bright { 9 - row % 3 } else { pixel % 3 });
        }
        lines += if row % 2 == 0 { "upper\n" } else { "lower\n" };
    }
    std::fs::write(dir.join(name), lines).expect("writable");
}

#[test]
fn images_of_a_table_are_learned() {
    let dir = folder();
    write_images(dir.path(), "images.csv", 16);
    let rest = ["--steps", "150", "--weights", "w", "--target", "cpu", "--output", "run.json"];
    let said = run(dir.path(), &training("images.csv", &rest));
    assert_eq!(score(dir.path(), "run.json", "accuracy"), 1.0, "{said}");
    let curve = ["loss at step 100", "loss at step 150"].map(|name| score(dir.path(), "run.json", name));
    assert!(curve[1] < curve[0], "{curve:?}");
}

#[test]
fn wrong_images_are_refused() {
    let dir = folder();
    write_images(dir.path(), "images.csv", 16);
    write_images(dir.path(), "strip.csv", 15);
    write_images(dir.path(), "odd.csv", 9);
    std::fs::write(dir.path().join("notes.jsonl"), "{}\n").expect("writable");
    run(dir.path(), &training("images.csv", &["--steps", "1", "--weights", "small", "--target", "cpu"]));
    for (args, part) in [
        (&["train", "image", "--weights", "w", "--data", "nope"][..], "shipped images are digits, volumes"),
        (&["train", "image", "--weights", "w", "--data", "strip.csv"], "15 columns are no square image"),
        (&["train", "image", "--weights", "w", "--data", "odd.csv"], "9 columns are no square image"),
        (&["train", "image", "--weights", "w", "--data", "notes.jsonl"], "write images as .csv"),
        (&["model", "image", "--data", "images.csv"], "no weights are shipped for images.csv"),
        (&["model", "image", "--weights", "small"], "images are 8 × 8, and those of the weights 4 × 4"),
        (&["model", "image", "--data", "volumes", "--weights", "small"], "images are 8 × 8 × 8, and those"),
        (&["model", "ner", "--weights", "small"], "the weights are of a model `image`, not `ner`"),
    ] {
        mistake(dir.path(), &[args, &["--target", "cpu"]].concat(), &[part]);
    }
    assert!(!dir.path().join("w").exists());
}
