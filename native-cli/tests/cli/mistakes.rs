//! Mistakes: exit code 2, and one line that names the thing and the remedy.

use npyz::WriterBuilder;

use crate::{TINY, folder, mistake, save};

#[test]
fn mistakes_in_cases_and_settings() {
    let dir = folder();
    for (args, parts) in [
        (
            &["run", "--case", "attention/fwd/b1/f32/flash"][..],
            &["`h` (heads) is missing", "the form is bN,hN,[kvN],sN"][..],
        ),
        (&["run", "--case", "nothing"], &["`nothing` is not a case", "parallax list"]),
        (
            &["eval", "atention/fwd/b1,h1,s1,d1/f32/host", "--output-dir", "o"],
            &["unknown workload `atention`", "attention"],
        ),
        (&["list", "--target", "cpu", "--filter", "zebra"], &["filter `zebra`", "parallax list"]),
        (&["list", "--target", "cpu", "--filter", "decode"], &["filter `decode`"]),
        (&["list", "--target", "cpu", "--filter", "copy", "--direction", "bwd"], &["filter `copy`, direction `bwd`"]),
        (
            &["profile", "encoder_layer", "--direction", "both"],
            &["unknown direction `both`", "choose one of fwd, bwd, fwd+bwd"],
        ),
        (&["list", "--config", "absent.toml"], &["absent.toml: cannot be read"]),
        (&["list", "--preset", "vast"], &["unknown preset `vast`", "quick, standard, full, awkward, huge"]),
        (
            &["list", "--target", "cpu", "--launch", "graph"],
            &["`graph` does not exist on this target", "leave the setting"],
        ),
        (&["list", "--target", "wgpu", "--launch", "stream"], &["`stream` does not exist", "one-pass, pass-each"]),
        (&["list", "--target", "gpu"], &["unknown target `gpu`", "cuda, wgpu, browser, cpu"]),
        (&["list", "--adapter", "Voodoo 2"], &["no device matches `Voodoo 2`", "0: "]),
        (&["run", "--budget", "0"], &["budget", "seconds above 0"]),
        (&["profile", "safety", "--target", "cpu"], &["target cpu puts no checks", "--target wgpu or browser"]),
        (&["profile", "safety", "--checked=bounds"], &["leave --checked out"]),
        (&["profile", "safety", "--format", "flamegraph"], &["leave --format out"]),
    ] {
        mistake(dir.path(), args, parts);
    }
}

#[test]
fn an_absent_driver_is_a_reason() {
    let dir = folder();
    if parallax_cuda::open(parallax_cuda::CudaOptions::default()).is_ok() {
        return;
    }
    mistake(dir.path(), &["run", "--target", "cuda"], &["target cuda: ", "driver"]);
    mistake(dir.path(), &["run", "--target", "browser", "--browser", "/no/such/browser"], &["target browser: "]);
}

#[test]
fn mistakes_in_files() {
    let dir = folder();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writable");
    write("broken.json", "{\"schema\": ");
    write("foreign.json", "{\"schema\": \"something.else\"}");
    write("newer.json", "{\"schema\": \"parallax.run\", \"version\": 999}");
    save(&dir.path().join("q.npy"), &[3, 2], &[0.0; 6]);
    save(&dir.path().join("right.npy"), &[1, 1, 3, 2], &[0.0; 6]);
    let file = std::fs::File::create(dir.path().join("double.npy")).expect("writable");
    let mut writer =
        npyz::WriteOptions::<f64>::new().default_dtype().shape(&[1, 1, 3, 2]).writer(file).begin_nd().expect("header");
    writer.extend([0.0f64; 6]).expect("values");
    writer.finish().expect("whole");
    for (args, parts) in [
        (&["compare", "broken.json", "newer.json"][..], &["broken.json", "not a Parallax run"][..]),
        (&["compare", "foreign.json", "newer.json"], &["foreign.json", "something.else"]),
        (&["compare", "newer.json", "foreign.json"], &["newer.json", "newer version", "update it"]),
        (&["compare", "absent.json", "newer.json"], &["cannot read absent.json"]),
        (&["eval", TINY, "--output-dir", "o"], &["input `q` is missing", "[1, 1, 3, 2]"]),
        (&["eval", TINY, "--output-dir", "o", "--input", "q=q.npy"], &["q.npy: shape is [3, 2]", "[1, 1, 3, 2]"]),
        (&["eval", TINY, "--output-dir", "o", "--input", "q=double.npy"], &["dtype is <f8", "needs <f4"]),
        (&["eval", TINY, "--output-dir", "o", "--input", "q=broken.json"], &["broken.json is not a NumPy array"]),
        (
            &["eval", TINY, "--output-dir", "o", "--input", "q=right.npy", "--input", "q=right.npy"],
            &["--input q is given twice"],
        ),
        (&["eval", TINY, "--output-dir", "o", "--input", "x=q.npy"], &["no such input", "q, k, v"]),
        (&["eval", TINY, "--output-dir", "o", "--input", "q"], &["write NAME=FILE.npy"]),
        (&["run", "--target", "cpu", "--case", TINY, "--out", "broken.json/results"], &["cannot write to the folder"]),
    ] {
        mistake(dir.path(), args, parts);
    }
}

#[test]
fn a_collector_opens_only_where_results_can_be_kept() {
    let dir = folder();
    for name in ["index.html", "file"] {
        std::fs::write(dir.path().join(name), "").expect("writable");
    }
    for (results, why) in [("file", "cannot write results to file: it is not a folder"), ("file/below", "file/below: ")]
    {
        let args = ["serve", "--port", "0", "--page", ".", "--results", results];
        mistake(dir.path(), &args, &[why, "--results DIR"]);
    }
}
