//! Models of the user: from a file to a table of operations.

use std::path::Path;

use crate::{folder, mistake, parallax};

fn example(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/model/examples").join(file).display().to_string()
}

/// Output of a command that succeeds.
fn said(folder: &Path, args: &[&str]) -> String {
    let output = parallax(folder, args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_model_is_listed_verified_and_measured() {
    let dir = folder();
    let model = example("encoder.onnx");
    let from = ["--from", &model, "--batch", "1", "--seq", "8", "--target", "cpu"];
    let with = |args: &[&'static str]| -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).chain(from.iter().map(|arg| (*arg).to_owned())).collect()
    };
    let run = |args: &[&'static str]| {
        let args = with(args);
        said(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let listed = run(&["list"]);
    for part in
        ["model encoder (ONNX graph, batch 1, seq 8):", "attention/fwd/b1,h4,s8,d32/f32", "no cost: GELU computes it"]
    {
        assert!(listed.contains(part), "{part} in {listed}");
    }
    assert!(run(&["verify"]).contains("9 pass"), "each problem once");
    let measured = run(&["run", "--budget", "0.1", "--ceilings", "off", "--out", "r"]);
    for part in ["layers.*.attention MatMul", "one pass takes", "operations cost nothing"] {
        assert!(measured.contains(part), "{part} in {measured}");
    }
    let file = std::fs::read_dir(dir.path().join("r")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = file.into_iter().find(|path| !path.to_string_lossy().contains("trace")).expect("a run file");
    let file = file.display().to_string();
    for (args, part) in [
        (&["report", &file, "--format", "markdown"][..], "| layers.*.mlp Erf | gelu/fwd/n4096,erf/f32 | 2 |"),
        (&["report", &file, "--format", "html"], "<h2>Model</h2>"),
        (&["report", &file, "--format", "flamegraph"], "attention/fwd/b1,h4,s8,d32/f32"),
        (&["compare", &file, &file], "model encoder (ONNX graph, batch 1, seq 8), times of one pass:"),
    ] {
        let text = said(dir.path(), args);
        assert!(text.contains(part), "{args:?}: {part} in {text}");
    }
    let profiled = run(&["profile", "--budget", "0.1", "--ceilings", "off", "--out", "p"]);
    assert!(profiled.contains("attention/fwd/b1,h4,s8,d32/f32/host"), "{profiled}");
}

#[test]
fn a_model_that_cannot_be_read_is_one_line() {
    let dir = folder();
    let (onnx, llama) = (example("encoder.onnx"), example("llama-3.2-1b.json"));
    std::fs::write(dir.path().join("empty.onnx"), "").expect("written");
    std::fs::write(dir.path().join("cut.json"), "{\"model_type\": \"llama\", ").expect("written");
    for (args, parts) in [
        (&["list", "--from", &onnx][..], &["encoder.onnx: no size is known for batch, seq", "--dim batch=N"][..]),
        (&["run", "--from", "nothing.onnx"], &["cannot read nothing.onnx"]),
        (&["run", "--from", "empty.onnx"], &["empty.onnx: the file is empty"]),
        (&["verify", "--from", "cut.json"], &["cut.json: this is no JSON object: EOF"]),
        (&["run", "--from", &llama, "--dim", "frames=3"], &["no dimension is called `frames`"]),
        (&["run", "--from", &llama, "--case", "copy/fwd/n8/f32/host"], &["leave --case and --problem out"]),
        (&["run", "--from", &llama, "--dtype", "f16", "--dtype", "f32"], &["one element type"]),
        (&["run", "--problem", "softmax/fwd/r4,c4/f32/host"], &["is not a problem"]),
    ] {
        mistake(dir.path(), args, parts);
    }
}
