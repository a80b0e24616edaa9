//! Measuring, verifying and listing: output and files.

use parallax_schema::record::Event;

use crate::{TINY, folder, parallax, parallax_with};

#[test]
fn what_a_target_cannot_do_is_a_skip_with_its_reason() {
    let dir = folder();
    let cold = ["--filter", "hash_embedding", "--cache", "cold", "--ceilings", "off", "--budget", "1"];
    let output = parallax(dir.path(), &[&["run", "--target", "cpu"], &cold[..]].concat());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let reason = "cold caches are not possible on the host";
    assert!(output.status.code() == Some(2) && text.contains("skipped") && text.contains(reason), "{text}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nothing could run: ") && said.contains(reason), "{said}");
}

#[test]
fn a_profile_tells_what_a_step_over_a_batch_is_made_of() {
    let dir = folder();
    for (target, variant, parts) in [
        ("cpu", "host", &["total", "loading", "train_step"][..]),
        ("wgpu", "fused", &["total", "loading", "transfer", "forward", "backward", "optimiser"]),
    ] {
        let case = format!("train_step/fwd+bwd/n64,e2,v5,d8,f8/f32/{variant}");
        let few = ["--budget", "1", "--ceilings", "off"];
        let output =
            parallax(dir.path(), &[&["profile", "train_step", "--target", target, "--case", &case], &few[..]].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        let heading = |line: &&str| line.starts_with("part") && line.ends_with("samples/s");
        let rows = said.lines().skip_while(|line| !heading(line)).skip(2).take_while(|line| !line.is_empty());
        let names: Vec<&str> = rows.filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, parts, "{said}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_profile_tells_how_times_scale_and_what_is_missing_in_the_table() {
    let dir = folder();
    for (args, parts) in [
        (
            &["hash_embedding", "--target", "wgpu", "--filter", "r10000,*owner"][..],
            &["hash_embedding/fwd/f32 by rows, the host's code against the fastest variant", "times as fast", "owner"]
                [..],
        ),
        (&["hash_embedding", "--target", "cpu", "--filter", "r10000"], &["no device: the target is `cpu` already"]),
        (
            &["prefetch", "--target", "wgpu", "--filter", "r4096"],
            &["rows of a batch", "`overlapped` has no time: WebGPU has one queue"],
        ),
    ] {
        let few = ["--budget", "1", "--ceilings", "off"];
        let output = parallax(dir.path(), &[&["profile"], args, &few[..]].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        for part in parts {
            assert!(said.contains(part), "{args:?}: {said} lacks {part}");
        }
    }
    // Both sides are in the output for programs.
    let args =
        ["profile", "hash_embedding", "--target", "wgpu", "--filter", "r10000,*owner", "--budget", "1", "--json"];
    let output = parallax(dir.path(), &[&args[..], &["--ceilings", "off"]].concat());
    let runs: Vec<parallax_schema::record::Run> =
        serde_json::from_slice(&output.stdout).expect("a JSON array on stdout");
    assert_eq!(runs.iter().map(|run| run.target.as_str()).collect::<Vec<_>>(), ["wgpu", "cpu"]);
    assert_eq!(runs[1].planned, ["hash_embedding/fwd/r10000,g833,d64,sorted/f32/host"]);
}

#[test]
fn a_profile_of_safety_holds_each_check_against_none_and_none_against_itself() {
    let dir = folder();
    let case = "transpose/fwd/r33,c17/f32/tiled";
    let few = ["--budget", "2", "--case", case];
    let args = [&["profile", "safety", "--target", "wgpu"], &few[..]].concat();
    let output = parallax_with(dir.path(), &args, &[("COLUMNS", "400")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for way in ["bounds", "loops", "divisions", "zeroing", "all", "unchecked again"] {
        assert!(said.contains(&format!("{way} ÷ unchecked")), "{way}: {said}");
    }
    let runs =
        std::fs::read_dir(dir.path().join("results")).expect("a folder").map(|file| file.expect("a file").path());
    let texts = runs.map(|path| std::fs::read_to_string(path).expect("text"));
    // The file of each run has its options of compilation.
    let options: Vec<String> = texts.filter(|text| text.contains("\"loop bounds: on\"")).collect();
    assert_eq!(options.len(), 2, "`loops` and `all`");
}

#[test]
fn extents_of_a_preset_can_be_swept() {
    let dir = folder();
    let kept = ["--filter", "depthwise_conv2d", "--direction", "fwd"];
    let swept = ["list", "--target", "cpu", "--shape", "c8xh128,c32xh256", "--shape", "n1,n2"];
    let output = parallax(dir.path(), &[&swept[..], &kept].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for shape in ["n1,c8,h128", "n2,c8,h128", "n1,c32,h256", "n2,c32,h256"] {
        assert!(said.contains(&format!("/{shape},")), "{shape}: {said}");
    }
    crate::mistake(dir.path(), &["list", "--shape", "8x128"], &["`8x128` is not a list of extents", "c8xh128"]);
}

#[test]
fn a_run_writes_its_json_and_its_trace() {
    let dir = folder();
    let args = ["run", "--target", "cpu", "--case", TINY, "--budget", "1", "--out", "out"];
    let output = parallax(dir.path(), &args);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("pass") && said.contains("host"), "{said}");
    let written = said.lines().skip_while(|l| *l != "written:").skip(1).take_while(|l| !l.is_empty());
    let files: Vec<String> = written.map(str::to_owned).collect();
    assert_eq!(files.len(), 2, "{said}");
    let mut last = said.lines().rev();
    assert_eq!(last.next(), Some(&*format!("Next: parallax report {} --format html --output run.html", files[0])));
    assert!(
        last.next().is_some_and(|answer| answer.starts_with("1 case measured on ") && answer.contains("all correct"))
    );
    let text = std::fs::read_to_string(dir.path().join(&files[0])).expect("the run");
    let run = parallax_schema::record::Run::parse(&text).expect("of the schema");
    assert_eq!(run.planned, [TINY]);
    assert!(run.records[0].timing().is_some());
    let trace = std::fs::read_to_string(dir.path().join(&files[1])).expect("the trace");
    let trace: serde_json::Value = serde_json::from_str(&trace).expect("JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|e| e.len() > 5));

    let again =
        parallax(dir.path(), &["run", "--target", "cpu", "--case", TINY, "--budget", "1", "--json", "--out", "out"]);
    let runs: Vec<parallax_schema::record::Run> =
        serde_json::from_slice(&again.stdout).expect("a JSON array on stdout");
    assert_eq!((runs.len(), runs[0].records.len()), (1, 1));
    // Its output is read back like a file.
    std::fs::write(dir.path().join("printed.json"), &again.stdout).expect("writable");
    let shown = parallax(dir.path(), &["report", "printed.json"]);
    assert!(
        shown.status.success()
            && String::from_utf8_lossy(&shown.stdout).contains(TINY.rsplit_once('/').expect("a case").0)
    );
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
fn events_are_printed_as_they_come_one_a_line() {
    let dir = folder();
    let args = ["run", "--target", "cpu", "--case", TINY, "--budget", "1", "--ceilings", "off", "--json-lines"];
    let output = parallax(dir.path(), &args);
    let text = String::from_utf8(output.stdout).expect("text");
    let events: Vec<Event> = parallax_schema::record::events(&text).expect("events and nothing else");
    assert!(matches!(events.first(), Some(Event::Begin { .. })) && matches!(events.last(), Some(Event::End { .. })));
    assert!(events.iter().any(|event| matches!(event, Event::Progress { .. })), "progress too");
    // Folded, they are the run that is in its file.
    let Event::Begin { run } = &events[0] else { unreachable!() };
    let mut run = (**run).clone();
    events.into_iter().for_each(|event| run.apply(event));
    assert_eq!((run.interrupted.as_deref(), run.records.len(), run.missing().count()), (None, 1, 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cpu: 1 case, up to 1 s of samples"));
    let both = parallax(dir.path(), &[&args[..], &["--json"]].concat());
    assert_eq!(both.status.code(), Some(2), "one or the other");
}

#[test]
fn a_run_may_be_rows_for_a_spreadsheet() {
    let dir = folder();
    let args = ["run", "--target", "cpu", "--case", TINY, "--budget", "1", "--ceilings", "off", "--csv"];
    let output = parallax(dir.path(), &args);
    let text = String::from_utf8(output.stdout).expect("text");
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows.len() == 2 && rows[0].starts_with("case,") && rows[1].contains("attention"), "{text}");
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
fn a_case_asked_for_by_name_that_is_skipped_is_no_success() {
    let dir = folder();
    let flash = "attention/fwd/b1,h1,s3,d2/f32/flash";
    for command in [&["run", "--budget", "1", "--out", "out"][..], &["verify"]] {
        let args = [command, &["--target", "cpu", "--case", TINY, "--case", flash]].concat();
        let output = parallax(dir.path(), &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(&format!("{flash} was named with --case and did not run: ")), "{args:?}: {said}");
    }
    // Other cases of a preset may be skipped.
    let preset = ["verify", "--target", "wgpu", "--preset", "awkward", "--filter", "copy*scalar"];
    let output = parallax(dir.path(), &preset);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A preset of which nothing can run is no success.
    let output = parallax(dir.path(), &[&preset[..], &["--dtype", "bf16"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("nothing could run: ") && said.contains("(this device does not compute with bf16)"),
        "{said}"
    );
}

/// Mesa's emulation leaves a loop over more rows than its limit; where a device does not, the result is right.
#[test]
fn a_wrong_result_names_the_devices_limit_on_loops() {
    let dir = folder();
    let case = ["--case", "rmsnorm/bwd/r65536,c4/f32/naive"];
    let output = parallax(dir.path(), &[&["verify", "--target", "wgpu"], &case[..]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    let reason = "ends a kernel's loops after 65535 iterations";
    assert_eq!(output.status.success(), !said.contains("FAIL"), "{said}");
    assert!(output.status.success() || said.contains(reason), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
