//! Folders of results: their list, and old runs.

use std::path::Path;

use parallax_schema::testing;

use crate::{folder, parallax};

/// Writes a run of a target that started at a time.
fn write(folder: &Path, name: &str, target: &str, started: u64) {
    let mut run = testing::run(target, "NVIDIA H200", &[("copy/fwd/n64/f32/vec4", testing::spread(1e5, 0.004, 12))]);
    run.started = started;
    std::fs::write(folder.join(name), serde_json::to_string(&run).expect("JSON")).expect("a file");
}

#[test]
fn the_newest_runs_of_each_target_stay() {
    let dir = folder();
    let results = dir.path().join("results");
    std::fs::create_dir_all(results.join("baselines")).expect("a folder");
    for (name, target, started) in [("a.json", "cuda", 300), ("b.json", "cuda", 100), ("c.json", "cuda", 200)] {
        write(&results, name, target, started);
    }
    write(&results, "d.json", "cpu", 1);
    write(&results, "baselines/v1.json", "cuda", 1);
    for other in ["b.trace.json", "b.trace.json.gz", "a.trace.json", "broken.json", "notes.txt"] {
        std::fs::write(results.join(other), "{").expect("a file");
    }
    let files = || {
        let entries = std::fs::read_dir(&results).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let said = |args: &[&str]| {
        let done = parallax(dir.path(), &[&["results"], args].concat());
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let (code, listed) = said(&["list"]);
    let at = |name: &str| listed.find(name).unwrap_or_else(|| panic!("{name} is not in {listed}"));
    assert!(code == Some(0) && at("a.json") < at("c.json") && at("c.json") < at("b.json"), "{listed}");
    assert!(listed.contains("1 file is no readable run"), "{listed}");
    let before = files();
    let (_, planned) = said(&["prune", "--keep", "2", "--dry-run"]);
    assert!(planned.contains("results/b.trace.json.gz") && planned.contains("1 run would be deleted"), "{planned}");
    assert_eq!(files(), before);
    let (code, done) = said(&["prune", "--keep", "2"]);
    assert!(code == Some(0) && done.contains("1 run deleted") && done.contains("3 kept"), "{done}");
    assert_eq!(files(), ["a.json", "a.trace.json", "baselines", "broken.json", "c.json", "d.json", "notes.txt"]);
    assert!(results.join("baselines/v1.json").exists());
    let (_, again) = said(&["prune"]);
    assert!(again.contains("0 runs deleted"), "{again}");
    let (code, none) = said(&["list", "--out", "nowhere"]);
    assert!(code == Some(0) && none.contains("`parallax run` makes one"), "{none}");
    assert_eq!(said(&["prune", "--keep", "0"]).0, Some(2));
}
