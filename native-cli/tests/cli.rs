//! The program as its user meets it: what it writes, and what it says when it cannot.

use std::path::Path;
use std::process::{Command, Output};

use npyz::WriterBuilder;

fn parallax(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parallax")).args(args).current_dir(folder).output().expect("the program starts")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

/// A mistake gives exit code 2 and one line that names the thing and the remedy.
fn mistake(folder: &Path, args: &[&str], parts: &[&str]) {
    let output = parallax(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{args:?}: {said}");
    for part in parts {
        assert!(lines[0].contains(part), "{args:?}: {said} lacks {part}");
    }
}

const TINY: &str = "attention/fwd/b1,h1,s3,d2/f32/host";

fn save(path: &Path, shape: &[u64], values: &[f32]) {
    let file = std::fs::File::create(path).expect("writable");
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(shape).writer(file).begin_nd().expect("header");
    writer.extend(values.iter().copied()).expect("values");
    writer.finish().expect("whole");
}

#[test]
fn a_run_writes_its_json_and_its_trace() {
    let dir = folder();
    let args = ["run", "--target", "cpu", "--case", TINY, "--budget", "1", "--out", "out"];
    let output = parallax(dir.path(), &args);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("pass") && said.contains("host"), "{said}");
    let files: Vec<String> = said.lines().skip_while(|l| *l != "written:").skip(1).map(str::to_owned).collect();
    assert_eq!(files.len(), 2, "{said}");
    let text = std::fs::read_to_string(dir.path().join(&files[0])).expect("the run");
    let run = parallax_core::record::Run::parse(&text).expect("of the schema");
    assert_eq!(run.planned, [TINY]);
    assert!(run.records[0].timing().is_some());
    let trace = std::fs::read_to_string(dir.path().join(&files[1])).expect("the trace");
    let trace: serde_json::Value = serde_json::from_str(&trace).expect("JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|e| e.len() > 5));

    let again =
        parallax(dir.path(), &["run", "--target", "cpu", "--case", TINY, "--budget", "1", "--json", "--out", "out"]);
    let run = parallax_core::record::Run::parse(&String::from_utf8_lossy(&again.stdout)).expect("JSON on stdout");
    assert_eq!(run.records.len(), 1);
    let mut jsons: Vec<String> = std::fs::read_dir(dir.path().join("out"))
        .expect("the folder")
        .map(|e| e.expect("readable").path().display().to_string())
        .filter(|p| p.ends_with(".json") && !p.ends_with(".trace.json"))
        .collect();
    jsons.sort();
    assert_eq!(jsons.len(), 2, "runs never overwrite each other");
    let compared = parallax(dir.path(), &["compare", &jsons[0], &jsons[1]]);
    assert!(compared.status.success() && String::from_utf8_lossy(&compared.stdout).contains(TINY));
    let json = parallax(dir.path(), &["compare", "--json", &jsons[0], &jsons[1]]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["pairs"][0]["case"], TINY);
}

#[test]
fn plans_verdicts_devices_and_schema_are_shown() {
    let dir = folder();
    for (args, part) in [
        (&["list", "--target", "cpu"][..], "attention/fwd/b1,h8,s512,d64/f32/host"),
        (&["list", "--target", "wgpu", "--dtype", "bf16"], " skipped: this device does not compute with bf16"),
        (&["verify", "--target", "cpu", "--case", TINY], "6 of 6 elements compared"),
        (&["verify", "--target", "wgpu", "--case", "attention/fwd/b1,h1,s3,d2/f32/flash"], "1 pass"),
        (&["verify", "--target", "cpu", "--inputs", "hard", "--case", TINY], "f32/host [saturating]"),
        (&["list", "--target", "wgpu", "--inputs", "hard", "--filter", "copy"], "[not finite]"),
        (&["list", "--target", "wgpu", "--preset", "huge"], "the largest binding is"),
        (&["devices"], "cpu  "),
        (&["schema"], "Parallax run"),
        (&["--help"], "compare"),
    ] {
        let output = parallax(dir.path(), args);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(part), "{args:?}: {said} lacks {part}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("the folder").count(), 0, "only run leaves files");
}

#[test]
fn eval_computes_the_users_arrays() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    // All keys equal, so every query sees the mean of the values.
    save(&at("q.npy"), &[1, 1, 3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    save(&at("k.npy"), &[1, 1, 3, 2], &[1.0; 6]);
    save(&at("v.npy"), &[1, 1, 3, 2], &[0.0, 3.0, 3.0, 6.0, 6.0, 9.0]);
    let inputs = ["--input", "q=q.npy", "--input", "k=k.npy", "--input", "v=v.npy", "--output-dir", "out"];
    for (target, variant) in [("cpu", "host"), ("wgpu", "flash"), ("wgpu", "manual")] {
        let case = format!("attention/fwd/b1,h1,s3,d2/f32/{variant}");
        let args = [&["eval", case.as_str(), "--target", target], &inputs[..]].concat();
        let output = parallax(dir.path(), &args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = std::fs::File::open(at("out/out.npy")).expect("the output");
        let npy = npyz::NpyFile::new(std::io::BufReader::new(file)).expect("NumPy's format");
        assert_eq!(npy.shape(), [1, 1, 3, 2]);
        let values: Vec<f32> = npy.into_vec().expect("f32");
        for (got, want) in values.iter().zip([3.0, 6.0, 3.0, 6.0, 3.0, 6.0]) {
            assert!((got - want).abs() < 1e-5, "{target}/{variant}: {values:?}");
        }
    }
}

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
    mistake(dir.path(), &["kernel", "copy/fwd/n1000/f32/host", "--target", "wgpu"], &["name the variant that runs"]);
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
        let run = parallax_core::record::Run::parse(&String::from_utf8_lossy(&output.stdout)).ok();
        let hash = run.and_then(|run| Some(run.records.first()?.measured()?.compiled.text_hash.clone()));
        (output, hash)
    };
    let (output, own) = verify("own", &kernels);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = include_str!("../../shaders/kernels/copy/scalar.wgsl");
    std::fs::write(kernels.join("shaders/copy/scalar.wgsl"), format!("{text}// mine\n")).expect("writable");
    let (output, mine) = verify("mine-too", &kernels);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(own.is_some() && mine.is_some() && own != mine, "{own:?} {mine:?}");
    let (output, _) = verify("none", &dir.path().join("nowhere"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("PARALLAX_KERNELS names"), "{said}");
}

#[test]
fn mistakes_in_cases_and_settings() {
    let dir = folder();
    for (args, parts) in [
        (&["run", "--case", "attention/fwd/b1/f32/flash"][..], &["`h` (heads) is missing", "the form is bN,hN,sN"][..]),
        (&["run", "--case", "nothing"], &["`nothing` is not a case", "parallax list"]),
        (
            &["eval", "atention/fwd/b1,h1,s1,d1/f32/host", "--output-dir", "o"],
            &["unknown workload `atention`", "attention"],
        ),
        (&["list", "--target", "cpu", "--filter", "zebra"], &["filter `zebra`", "parallax list"]),
        (&["list", "--target", "cpu", "--filter", "conv2d"], &["filter `conv2d`"]),
        (&["list", "--config", "absent.toml"], &["absent.toml: cannot be read"]),
        (&["list", "--preset", "vast"], &["unknown preset `vast`", "quick, standard, full, awkward, huge"]),
        (
            &["list", "--target", "cpu", "--launch", "graph"],
            &["`graph` does not exist on this target", "leave the setting"],
        ),
        (&["list", "--target", "wgpu", "--launch", "stream"], &["`stream` does not exist", "one-pass, pass-each"]),
        (&["list", "--target", "gpu"], &["unknown target `gpu`", "cuda, wgpu, browser, cpu"]),
        (&["list", "--adapter", "Voodoo 2"], &["no adapter matches `Voodoo 2`", "0: "]),
        (&["run", "--budget", "0"], &["budget", "seconds above 0"]),
    ] {
        mistake(dir.path(), args, parts);
    }
}

#[test]
fn a_settings_file_is_read_and_flags_win_over_it() {
    let dir = folder();
    std::fs::write(dir.path().join("parallax.toml"), "filter = '*conv2d'\nbudget = 3\n").expect("written");
    std::fs::write(dir.path().join("other.toml"), "filter = ['matmul', 'copy']\nceilings = false\n").expect("written");
    let shown = |args: &[&str]| -> Vec<(String, String, String)> {
        let output = parallax(dir.path(), &[&["config", "--json"], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        let values = |row: &serde_json::Value| {
            let values = row["values"].as_array().expect("a list");
            values.iter().map(|v| v.as_str().expect("text")).collect::<Vec<_>>().join(" ")
        };
        let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
        rows.iter().map(|row| (text(&row["setting"]), values(row), text(&row["from"]))).collect()
    };
    let row = |name: &str, value: &str, from: &str| (name.to_owned(), value.to_owned(), from.to_owned());
    let usual = shown(&["--budget", "9", "--with-stack"]);
    for expected in [
        row("filter", "*conv2d", "parallax.toml"),
        row("budget", "9", "--budget"),
        row("with-stack", "on", "--with-stack"),
        row("preset", "quick", "default"),
        row("precision", "", "default"),
    ] {
        assert!(usual.contains(&expected), "{expected:?} in {usual:?}");
    }
    let other = shown(&["--config", "other.toml", "--filter", "fma", "--ceilings", "on"]);
    for expected in
        [row("filter", "fma", "--filter"), row("ceilings", "on", "--ceilings"), row("budget", "45", "default")]
    {
        assert!(other.contains(&expected), "{expected:?} in {other:?}");
    }
    let said = parallax(dir.path(), &["list", "--target", "cpu"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("depthwise_conv2d/") && !said.contains("attention/"), "{said}");
    std::fs::write(dir.path().join("parallax.toml"), "presett = 'quick'\n").expect("written");
    mistake(dir.path(), &["list", "--target", "cpu"], &["parallax.toml: unknown setting `presett`", "preset, filter"]);
}

#[test]
fn an_absent_driver_is_a_reason() {
    let dir = folder();
    if parallax_cuda::open(parallax_cuda::Options::default()).is_ok() {
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
        (&["eval", TINY, "--output-dir", "o", "--input", "x=q.npy"], &["no such input", "q, k, v"]),
        (&["eval", TINY, "--output-dir", "o", "--input", "q"], &["write NAME=FILE.npy"]),
        (&["run", "--target", "cpu", "--case", TINY, "--out", "broken.json/results"], &["cannot write to the folder"]),
    ] {
        mistake(dir.path(), args, parts);
    }
}

#[test]
fn eval_refuses_arrays_that_break_what_the_form_asks_for() {
    let dir = folder();
    let save_integers = |name: &str, values: [u32; 3]| {
        let file = std::fs::File::create(dir.path().join(name)).expect("writable");
        let mut writer =
            npyz::WriteOptions::<u32>::new().default_dtype().shape(&[3]).writer(file).begin_nd().expect("header");
        writer.extend(values).expect("values");
        writer.finish().expect("whole");
    };
    save_integers("id.npy", [7, 8, 9]);
    save(&dir.path().join("weight.npy"), &[3], &[1.0; 3]);
    let eval = |target: &str, order: &str, group: &str| {
        let variant = if target == "cpu" { "host" } else { "basic" };
        let case = format!("hash_embedding/fwd/r3,g2,d4,{order}/f32/{variant}");
        let inputs = ["--input", "id=id.npy", "--input", "weight=weight.npy", "--input"].map(str::to_owned);
        let start = ["eval", &case, "--target", target, "--output-dir", "o"].map(str::to_owned);
        [&start[..], &inputs[..], &[format!("group={group}")]].concat()
    };
    save_integers("beyond.npy", [0, 1, 2]);
    save_integers("falling.npy", [1, 0, 1]);
    for target in ["cpu", "wgpu"] {
        for (order, group, part) in [
            ("unsorted", "beyond.npy", "`group`[2] is 2, and must be below 2"),
            ("sorted", "falling.npy", "`group`[1] is 0, and must be no less than 1 before it"),
        ] {
            let args = eval(target, order, group);
            mistake(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>(), &[part]);
        }
        let args = eval(target, "unsorted", "falling.npy");
        let output = parallax(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn runs_with_nothing_in_common_cannot_be_compared() {
    let dir = folder();
    for (out, case) in [("a", TINY), ("b", "attention/fwd/b1,h1,s4,d2/f32/host")] {
        let output = parallax(dir.path(), &["run", "--target", "cpu", "--case", case, "--budget", "1", "--out", out]);
        assert!(output.status.success());
    }
    let file = |out: &str| {
        let mut entries = std::fs::read_dir(dir.path().join(out)).expect("the folder");
        let is_run = |p: &std::path::PathBuf| !p.to_string_lossy().ends_with(".trace.json");
        entries.find_map(|e| Some(e.expect("readable").path()).filter(is_run)).expect("a run").display().to_string()
    };
    mistake(dir.path(), &["compare", &file("a"), &file("b")], &["no timed case and no score in common", "--preset"]);
    mistake(dir.path(), &["compare", &file("a")], &["at least two runs"]);
}

/// A recorded run of one case, written with all its times multiplied; gives the file's name.
fn recorded(folder: &Path, name: &str, target: &str, device: &str, factor: f64) -> String {
    let run = serde_json::json!({
        "schema": "parallax.run", "version": 1, "suite": {"version": "0", "commit": ""}, "target": target, "started": 0,
        "device": {
            "name": device, "vendor": "", "kind": "unknown", "api": "x", "driver": "", "limits": {}, "features": [],
            "caps": {
                "dialect": "cpu", "dtypes": ["f32"], "subgroup": null, "shared_bytes": 0, "max_invocations": 1,
                "max_workgroup": [1, 1, 1], "max_grid": [1, 1, 1], "max_binding": 1, "memory": null,
                "compute_capability": null, "units": null,
            },
        },
        "environment": {}, "clock": {"clock": "host", "step": 1.0, "host_step": 1.0, "note": null},
        "spec": {"preset": "quick", "filter": [], "dtype": [], "variant": [], "case": [], "seed": 0, "budget": 1.0, "precision": 0.01},
        "planned": [TINY], "interrupted": null,
        "records": [{
            "case": TINY, "actual": null, "cost": {"flops": 100, "read": 10, "written": 10}, "outcome": "ok",
            "parts": {"workload": "attention", "direction": "fwd", "shape": {}, "options": [], "dtype": "f32", "variant": "host"},
            "compiled": {"time": 0.0, "cached": false, "text_hash": "", "options": []},
            "check": {
                "right": true, "compared": 1, "elements": 1, "worst_error": 0.0, "bound": 1.0, "worst_ratio": 0.0,
                "mismatch": null,
            },
            "memory": {"current": 0, "peak": 0, "reserved": null}, "trace": null, "phases": [],
            "timing": {
                "repeats": 1, "samples": vec![100.0 * factor; 9], "host_samples": vec![100.0 * factor; 9], "warm_up": 0,
                "stopped": "precise",
                "summary": {
                    "n": 9, "median": 100.0 * factor, "low": 99.9 * factor, "high": 100.1 * factor, "q1": 100.0 * factor,
                    "q3": 100.0 * factor, "min": 99.9 * factor, "max": 100.1 * factor, "spread": 0.0,
                },
            },
        }],
    });
    parallax_core::record::Run::parse(&run.to_string()).expect("the reader takes it");
    std::fs::write(folder.join(name), run.to_string()).expect("writable");
    name.to_owned()
}

#[test]
fn a_gate_fails_on_what_is_surely_slower() {
    let dir = folder();
    for (name, factor) in [("base.json", 1.0), ("slow.json", 1.1), ("same.json", 1.003), ("fast.json", 0.5)] {
        recorded(dir.path(), name, "cpu", "X", factor);
    }
    for (other, limit, code, part) in [
        ("slow.json", "5%", 1, "slower by more than 5.00 %"),
        ("slow.json", "0.05", 1, TINY),
        ("slow.json", "20%", 0, "no case is slower by more than 20.0 %"),
        ("same.json", "0", 0, "no case is slower"),
        ("fast.json", "5%", 0, "no case is slower"),
    ] {
        let args = ["compare", "base.json", other, "--fail-if-slower", limit];
        let output = parallax(dir.path(), &args);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said} lacks {part}");
    }
    // From the other side, the slow run is the base.
    for base in ["slow", "2"] {
        let args = ["compare", "base.json", "slow.json", "--base", base, "--fail-if-slower", "5%", "--json"];
        let output = parallax(dir.path(), &args);
        assert!(output.status.success(), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no case is slower"), "stdout is for machines");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
        assert_eq!((&json["base"], &json["pairs"][0]["ratios"][0]["verdict"]), (&1.into(), &"faster".into()));
    }
    let files = ["compare", "base.json", "slow.json"];
    for (more, parts) in [
        (&["--fail-if-slower", "5"][..], &["--fail-if-slower `5`", "5%"][..]),
        (&["--fail-if-slower", "much"], &["`much`", "0.05"]),
        (&["--resolution", "-1%"], &["--resolution `-1%`"]),
        (&["--base", "third"], &["no run `third`", "base, slow"]),
        (&["--output", "no/such/folder/x"], &["cannot write no/such/folder/x"]),
    ] {
        mistake(dir.path(), &[&files[..], more].concat(), parts);
    }
}

#[test]
fn comparisons_and_reports_come_in_every_format() {
    let dir = folder();
    recorded(dir.path(), "a.json", "cuda", "X", 1.0);
    recorded(dir.path(), "b.json", "browser", "X", 2.0);
    recorded(dir.path(), "c.json", "wgpu", "Y", 2.0);
    for (format, compared, reported) in [
        ("text", "2.000× [1.996, 2.004] slower", "1 pass"),
        ("markdown", "| --- |", "| --- |"),
        ("csv", ",slower,", "case,workload,"),
        ("json", "\"verdict\":\"slower\"", "\"median_ns\":200.0"),
        ("html", "<svg", "<svg"),
    ] {
        for (args, part) in [(&["compare", "a.json", "b.json"][..], compared), (&["report", "b.json"], reported)] {
            let shown = parallax(dir.path(), &[args, &["--format", format]].concat());
            let text = String::from_utf8_lossy(&shown.stdout).into_owned();
            assert!(shown.status.success() && text.contains(part), "{args:?} {format}: {text} lacks {part}");
            let written = parallax(dir.path(), &[args, &["--format", format, "--output", "out"]].concat());
            assert!(written.status.success() && written.stdout.is_empty());
            assert_eq!(std::fs::read_to_string(dir.path().join("out")).expect("a file"), text, "the same in a file");
        }
    }
    let tax = parallax(dir.path(), &["compare", "b.json", "a.json", "--tax"]);
    let said = String::from_utf8_lossy(&tax.stdout);
    assert!(tax.status.success() && said.contains("browser against cuda"), "{said}");
    mistake(dir.path(), &["compare", "a.json", "c.json", "--tax"], &["cuda ran on `X` and wgpu on `Y`", "--same-gpu"]);
    assert!(parallax(dir.path(), &["compare", "a.json", "c.json", "--tax", "--same-gpu"]).status.success());
}

/// Ctrl-C ends a run with the cases that have samples enough: their figures stand, and the file says that it was stopped.
#[cfg(unix)]
#[test]
fn an_interrupted_run_keeps_what_was_finished() {
    let dir = folder();
    let cases = [TINY, "attention/fwd/b1,h1,s4,d2/f32/host", "attention/fwd/b1,h1,s5,d2/f32/host"];
    let mut args = vec!["run", "--target", "cpu", "--budget", "600", "--precision", "0.0000001", "--ceilings", "off"];
    args.extend(["--out", "out"]);
    args.extend(cases.iter().flat_map(|case| ["--case", case]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(&args)
        .current_dir(dir.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let read = || recorded_in(&dir.path().join("out")).and_then(|text| parallax_core::record::Run::parse(&text).ok());
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while read().is_none() {
        assert!(std::time::Instant::now() < give_up, "no file within two minutes");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // Long enough for the rounds to have begun, and far from the end of the budget.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill is there").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "it was stopped");
    let run = read().expect("a whole file");
    assert_eq!(run.interrupted.as_deref(), Some("stopped on request"));
    assert_eq!(run.records.len() + run.missing().count(), cases.len());
    let asked = |r: &parallax_core::record::Record| {
        r.timing().is_some_and(|t| t.stopped == parallax_core::record::Stopped::Asked && t.samples.len() >= 6)
    };
    assert!(run.records.iter().any(asked), "{:?}", run.records);
}

/// The text of the run file in a folder.
#[cfg(unix)]
fn recorded_in(folder: &Path) -> Option<String> {
    let file = std::fs::read_dir(folder).ok()?.find_map(|e| {
        let path = e.ok()?.path();
        (path.extension()? == "json" && !path.to_string_lossy().ends_with(".trace.json")).then_some(path)
    })?;
    Some(String::from_utf8_lossy(&std::fs::read(file).ok()?).into_owned())
}

/// A run that is killed leaves a file that loads, with every finished record, and that can be cut off anywhere.
#[cfg(unix)]
#[test]
fn a_killed_run_leaves_every_finished_record() {
    let dir = folder();
    // Too many cases for one group, so that records come while others are still measured.
    let cases: Vec<String> = (3..200).map(|s| format!("attention/fwd/b1,h1,s{s},d2/f32/host")).collect();
    let mut args = vec!["run", "--target", "cpu", "--budget", "20", "--ceilings", "off", "--out", "out"];
    args.extend(cases.iter().flat_map(|case| ["--case", case]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(&args)
        .current_dir(dir.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let out = dir.path().join("out");
    let records = |text: &str| text.matches("\n{\"event\":\"record\"").count();
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(240);
    while recorded_in(&out).is_none_or(|text| records(&text) < 5) {
        assert!(std::time::Instant::now() < give_up, "no five records within four minutes");
        assert!(child.try_wait().expect("known").is_none(), "the run ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().expect("alive");
    child.wait().expect("dead");

    let text = recorded_in(&out).expect("a file");
    let run = parallax_core::record::Run::parse(&text).expect("it loads");
    let whole = text.rsplit_once('\n').map_or(0, |(whole, _)| records(&format!("{whole}\n")));
    assert!(whole >= 5 && run.records.len() >= whole, "{} of {whole}", run.records.len());
    assert!(run.records.iter().all(|r| r.timing().is_some()), "all of them are finished");
    assert_eq!(run.interrupted.as_deref(), Some(parallax_core::record::UNFINISHED));
    assert_eq!(run.records.len() + run.missing().count(), cases.len());
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writable");
    file("killed.json", &text);
    let shown = parallax(dir.path(), &["report", "killed.json"]);
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && said.contains("the file is not closed"), "{said}");
    let compared = parallax(dir.path(), &["compare", "killed.json", "killed.json"]);
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));

    // Wherever it is cut off, at most one record is lost.
    let header = text.find('\n').expect("a header");
    let step = (text.len() - header) / 300 + 1;
    for at in (header..text.len()).step_by(step).filter(|at| text.is_char_boundary(*at)) {
        let read = parallax_core::record::Run::parse(&text[..at]).unwrap_or_else(|e| panic!("{at}: {e}"));
        let begun = records(&text[..at]);
        assert!(
            (begun.saturating_sub(1)..=begun).contains(&read.records.len()),
            "{at}: {} of {begun}",
            read.records.len()
        );
    }
}
