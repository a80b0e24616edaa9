//! Kernel sources: shown with their launches, and replaced by a folder.

use std::process::Command;

use crate::{folder, mistake, parallax};

#[test]
fn the_text_of_a_case_comes_with_what_it_takes_to_launch_it() {
    let dir = folder();
    let case = "copy/fwd/n1000/f32/vec4";
    let plain = parallax(dir.path(), &["kernel", case, "--target", "wgpu"]);
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(plain.contains("@compute"), "{plain}");
    let told = parallax(dir.path(), &["kernel", case, "--target", "wgpu", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(told["texts"][0]["source"].as_str().expect("text").trim(), plain.trim());
    assert_eq!(told["options"], serde_json::json!([]));
    let stage = &told["stages"][0];
    assert_eq!(stage["args"][0], serde_json::json!({"parameter": "x", "buffer": "x", "bytes": 4000}));
    assert_eq!((stage["text"].as_u64(), stage["entry"].as_str()), (Some(0), Some("copy_vec4")));
    let (blocks, threads) = (stage["grid"][0].as_u64(), stage["block"][0].as_u64());
    assert!(blocks.zip(threads).is_some_and(|(b, t)| 4 * b * t >= 1000), "{stage}");
    mistake(dir.path(), &["kernel", "copy/fwd/n1000/f32/host"], &["`host` exists on the targets cpu and wasm only"]);
}

#[test]
fn a_text_needs_no_device_and_no_target() {
    let dir = folder();
    let text = |args: &[&str]| {
        let output = parallax(dir.path(), args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for case in ["softmax/fwd/r4096,c1024/f32/row", "attention/fwd/b1,h8,s512,d64/f32/subgroup"] {
        assert!(text(&["kernel", case]).contains("@compute"), "{case}");
    }
    assert!(text(&["kernel", "softmax/fwd/r4096,c1024/f32/row", "--target", "cuda"]).contains("__global__"));
    mistake(dir.path(), &["kernel", "softmax"], &["`softmax` begins ", "name one of them"]);
    let listed = parallax(dir.path(), &["kernel", "softmax"]).stdout;
    assert!(String::from_utf8_lossy(&listed).lines().any(|line| line == "softmax/fwd/r4096,c1024/f32/row"));
    for target in ["cpu", "wasm"] {
        let case = "softmax/fwd/r4096,c1024/f32/row";
        mistake(dir.path(), &["kernel", case, "--target", target], &["prints the WGSL"]);
    }
}

#[test]
fn a_folder_of_texts_replaces_those_of_the_program_and_the_record_tells() {
    let dir = folder();
    let kernels = dir.path().join("mine");
    std::fs::create_dir_all(kernels.join("shaders/copy")).expect("writable");
    let case = "copy/fwd/n1000/f32/scalar";
    let verify = |out: &str, folder: &std::path::Path| {
        let args =
            ["run", "--json", "--case", case, "--target", "wgpu", "--out", out, "--budget", "1", "--ceilings", "off"];
        let mut program = Command::new(env!("CARGO_BIN_EXE_parallax"));
        let output =
            program.args(args).current_dir(dir.path()).env("PARALLAX_KERNELS", folder).output().expect("starts");
        let runs: Option<Vec<parallax_schema::record::Run>> = serde_json::from_slice(&output.stdout).ok();
        let hash = runs.and_then(|runs| Some(runs.first()?.records.first()?.measured()?.compiled.text_hash.clone()));
        (output, hash)
    };
    let (output, own) = verify("own", &kernels);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = include_str!("../../../shaders/kernels/copy/scalar.wgsl");
    std::fs::write(kernels.join("shaders/copy/scalar.wgsl"), format!("{text}// mine\n")).expect("writable");
    let (output, mine) = verify("mine-too", &kernels);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(own.is_some() && mine.is_some() && own != mine, "{own:?} {mine:?}");
    let (output, _) = verify("none", &dir.path().join("nowhere"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("PARALLAX_KERNELS names"), "{said}");
}
