//! House rules that no compiler checks.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

pub(crate) fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("readable").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Every workload is a module of `ops`, so that formatting, documentation and editors see it. `PARALLAX_BLESS=1` writes the list.
#[test]
fn every_workload_is_listed_as_a_module() {
    let folder = root().join("core/workloads/src/ops");
    let entries = std::fs::read_dir(&folder).expect("readable");
    let stem = |path: PathBuf| path.file_stem().expect("named").to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(|entry| stem(entry.expect("readable").path())).collect();
    names.retain(|name| name != "mod");
    names.sort();
    let list: String = names.iter().map(|name| format!("pub mod {name};\n")).collect();
    let head = "//! One module for each workload. `./x bless` lists the folder; a test holds the list.\n\n";
    let (file, text) = (folder.join("mod.rs"), format!("{head}{list}"));
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        std::fs::write(&file, &text).expect("writable");
    }
    let found = std::fs::read_to_string(&file).expect("readable");
    assert_eq!(found, text, "core/workloads/src/ops/mod.rs lists other modules than the folder has: run ./x bless");
}

/// WGSL sets a variable of a loop to zero at every iteration, with or without an initialiser. Chromium 156 does so only with an
/// initialiser. Without one, the variable keeps its value of the previous iteration.
#[test]
fn variables_of_loops_say_what_they_begin_with() {
    let mut found = Vec::new();
    files(&root().join("shaders/kernels"), &mut found);
    let mut functions = 0;
    for path in found {
        let text = std::fs::read_to_string(&path).expect("readable");
        for (line, number) in text.lines().zip(1..) {
            functions += usize::from(line.starts_with("fn "));
            let inner = line.starts_with("        ") && line.trim_start().starts_with("var ");
            assert!(!inner || line.contains('='), "{}:{number}: `{}`", path.display(), line.trim());
        }
    }
    assert!(functions > 100, "the texts were not found");
}

/// Drivers return codes that a binding's enums do not name. So the code uses the driver's types and none of the binding's calls.
#[test]
fn no_call_of_the_driver_fills_an_enum() {
    let mut found = Vec::new();
    files(&root().join("cuda/src"), &mut found);
    assert!(found.len() > 20, "the sources were not found");
    for path in found {
        let text = std::fs::read_to_string(&path).expect("readable");
        for (number, line) in (1..).zip(text.lines()) {
            let of_driver = line.split("cudarc::driver::").skip(1).all(|rest| rest.starts_with("sys"));
            let call = line.split("sys::cu").skip(1).any(|rest| rest.starts_with(|c: char| c.is_uppercase()));
            assert!(of_driver && !call && !line.contains("-> CUresult"), "{}:{number}: {line}", path.display());
        }
    }
}

/// Core decides and computes. It has no clock, touches no file, prints nothing and knows no GPU interface.
#[test]
fn core_stays_pure() {
    let mut found = Vec::new();
    for krate in ["schema", "ir", "workloads", "engine", "analysis", "report", "model", "learn"] {
        files(&root().join("core").join(krate).join("src"), &mut found);
    }
    assert!(found.len() > 300, "the sources were not found");
    for path in found.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = std::fs::read_to_string(&path).expect("readable");
        let code: String = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        for word in
            ["std::time", "std::fs", "std::net", "std::env", "web_time", "println!", "eprintln!", "wgpu::", "cudarc"]
        {
            assert!(!code.contains(word), "{} uses {word}", path.display());
        }
    }
}

/// Unsafe code is in the crates that call drivers, the system or a browser, and nowhere else.
#[test]
fn crates_without_unsafe_code_forbid_it() {
    let callers =
        ["cube", "cuda", "native-cli", "shaders", "web", "web/lab", "web/models", "web/reports", "web/worker"];
    let forbidding = [
        ("build/src/lib.rs", "forbid"),
        ("core/analysis/src/lib.rs", "deny"),
        ("core/engine/src/lib.rs", "deny"),
        ("core/ir/src/lib.rs", "deny"),
        ("core/learn/src/lib.rs", "deny"),
        ("core/model/src/lib.rs", "deny"),
        ("core/report/src/lib.rs", "deny"),
        ("core/schema/src/lib.rs", "deny"),
        ("core/workloads/src/lib.rs", "deny"),
        ("cpu/src/lib.rs", "forbid"),
        ("lab/src/lib.rs", "forbid"),
        ("testing/src/lib.rs", "forbid"),
        ("tests/lib.rs", "forbid"),
        ("tools/xtask/src/main.rs", "forbid"),
        ("web/protocol/src/lib.rs", "forbid"),
    ];
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("readable");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).expect("a list");
    for member in members.split('"').skip(1).step_by(2).filter(|member| !callers.contains(member)) {
        let (file, word) =
            forbidding.iter().find(|(file, _)| file.starts_with(&format!("{member}/"))).unwrap_or_else(|| {
                panic!("{member} forbids unsafe code, or is among those that call others: say here which")
            });
        let text = std::fs::read_to_string(root().join(file)).expect("readable");
        assert!(text.contains(&format!("\n#![{word}(unsafe_code)]\n")), "{file}");
    }
    assert!(manifest.contains("\nundocumented_unsafe_blocks = \"deny\"\n"), "each such block says why it is sound");
}

/// Crates of the workspace that each crate depends on, development aside. Data flows from the first to the last.
const ARROWS: [(&str, &[&str]); 21] = [
    ("core/schema", &[]),
    ("core/ir", &["schema"]),
    ("core/workloads", &["schema", "ir"]),
    ("core/engine", &["schema", "ir", "workloads"]),
    ("core/analysis", &["schema"]),
    ("core/report", &["schema", "analysis"]),
    ("core/model", &["schema", "ir", "workloads"]),
    ("core/learn", &["schema", "ir", "workloads", "engine", "model"]),
    ("testing", &["schema", "ir"]),
    ("shaders", &["schema", "ir"]),
    ("lab", &["schema", "ir", "engine", "analysis", "shaders"]),
    ("cuda", &["schema", "ir"]),
    ("cpu", &["schema", "ir"]),
    ("cube", &["schema", "ir"]),
    ("web/protocol", &["schema", "report"]),
    ("web/worker", &["schema", "ir", "workloads", "engine", "report", "cpu", "shaders", "protocol"]),
    ("web/lab", &["ir", "shaders", "lab"]),
    ("web/models", &["schema", "ir", "engine", "learn", "cpu", "shaders"]),
    ("web", &["schema", "analysis", "report", "protocol"]),
    ("web/reports", &["schema", "workloads", "analysis", "report", "model", "web"]),
    (
        "native-cli",
        &[
            "schema",
            "ir",
            "workloads",
            "engine",
            "analysis",
            "report",
            "model",
            "learn",
            "cuda",
            "shaders",
            "cpu",
            "cube",
            "lab",
        ],
    ),
];

#[test]
fn manifests_have_the_arrows_of_the_architecture() {
    for (krate, allowed) in ARROWS {
        let manifest = std::fs::read_to_string(root().join(krate).join("Cargo.toml")).expect("readable");
        let mut section = "";
        let mut found = 0;
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let normal = section.ends_with("dependencies]") && !section.contains("dev-") && !section.contains("build-");
            let Some(rest) = line.strip_prefix("parallax-").filter(|_| normal) else { continue };
            let name = rest.split(['.', ' ']).next().unwrap_or_default();
            assert!(allowed.contains(&name), "{krate} depends on {name}: the architecture has no such arrow");
            found += 1;
        }
        assert_eq!(
            found == 0,
            allowed.is_empty(),
            "{krate}: its manifest has no dependency on a crate of the workspace"
        );
    }
}

/// Dependencies support the oldest compiler that Cargo.toml promises.
#[test]
fn no_dependency_asks_for_a_newer_compiler_than_we_do() {
    let about = Command::new("rustc").arg("-vV").output().expect("rustc is installed");
    let about = String::from_utf8_lossy(&about.stdout).into_owned();
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc knows its host");
    // A new machine lacks dependencies of packages that were not compiled: they are fetched, by the lock file. Those of other systems
    // are not needed.
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", host]).current_dir(root());
    let output = metadata.output().expect("cargo is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let version = |text: &str| text.split('.').map(|n| n.parse().expect("a number")).collect::<Vec<u32>>();
    let of = |name: &str| packages.iter().find(|p| p["name"] == name).and_then(|p| p["rust_version"].as_str());
    let ours = version(of("parallax-gpu-schema").expect("it says which compiler it needs"));
    let needed = without(&metadata, "parallax-gpu-cubecl");
    let newer: Vec<String> = packages
        .iter()
        .filter(|package| needed.contains(package["id"].as_str().expect("an id")))
        .filter_map(|package| Some((package, package["rust_version"].as_str()?)))
        .filter(|(_, needed)| version(needed) > [&ours[..], &[u32::MAX]].concat())
        .map(|(package, needed)| format!("{} needs Rust {needed}", package["name"]))
        .collect();
    assert!(newer.is_empty(), "rust-version in Cargo.toml is {ours:?}, but {newer:?}");
}

/// Packages that the workspace needs without one of its members, by their ids. The member declares its own oldest compiler.
fn without<'a>(metadata: &'a serde_json::Value, member: &str) -> std::collections::BTreeSet<&'a str> {
    let ids = |list: &'a serde_json::Value| list.as_array().expect("a list").iter().filter_map(|id| id.as_str());
    let packages = metadata["packages"].as_array().expect("packages");
    let left_out = packages.iter().find(|p| p["name"] == member).and_then(|p| p["id"].as_str()).expect("a member");
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let mut needed = std::collections::BTreeSet::new();
    let mut next: Vec<&str> = ids(&metadata["workspace_members"]).collect();
    while let Some(id) = next.pop() {
        if id != left_out && needed.insert(id) {
            let node = nodes.iter().find(|node| node["id"] == id).expect("every package is a node");
            next.extend(ids(&node["dependencies"]));
        }
    }
    needed
}
