//! Collectives without a group of GPUs: host code where a filter names them, and reasons elsewhere.

use crate::{folder, mistake, parallax};

#[test]
fn a_group_of_gpus_is_for_cuda_alone() {
    let dir = folder();
    for target in ["cpu", "wgpu", "wasm"] {
        mistake(dir.path(), &["list", "--target", target, "--gpus", "2"], &["--gpus 2", "only for cuda"]);
    }
    if parallax_cuda::devices().is_empty() {
        mistake(dir.path(), &["list", "--gpus", "2"], &["target cuda: ", "driver"]);
    }
}

#[test]
fn host_code_of_collectives_runs_where_it_is_named_and_no_preset_has_it() {
    let dir = folder();
    let said = |args: &[&str]| {
        let output = parallax(dir.path(), args);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        said
    };
    assert!(!said(&["list", "--target", "cpu", "--preset", "full"]).contains("all_reduce"));
    let named = ["--filter", "all_reduce", "--filter", "send_recv", "--dtype", "f32"];
    let checked = said(&[&["verify", "--target", "cpu", "--preset", "awkward"], &named[..]].concat());
    for case in ["all_reduce/fwd/n1009,gpus5/f32/host", "send_recv/fwd/n1/f32/host"] {
        assert!(checked.contains(case), "{checked}");
    }
}
