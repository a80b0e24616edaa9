//! Run files as a folder of pages.

use std::path::PathBuf;

use crate::{folder, mistake, parallax};

/// A run file of the repository.
fn recorded(name: &str) -> String {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/results")).join(name);
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn a_site_has_a_front_devices_comparisons_and_explanations() {
    let dir = folder();
    let (cuda, browser) = (recorded("2026-11-22-h200/cuda.json"), recorded("2026-11-22-h200/browser.json"));
    let made = parallax(dir.path(), &["site", &cuda, &browser, "--no-page"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |path: &str| std::fs::read_to_string(dir.path().join("site").join(path)).expect(path);
    let front = read("index.html");
    assert!(front.contains(" as long as in CUDA (") && !front.contains("run/"), "{front}");
    for path in ["device/h200/index.html", "compare/on-h200/index.html", "explain/tax/index.html", "site.css"] {
        assert!(read(path).len() > 1000, "{path}");
    }
    let run = parallax_schema::record::Run::parse(&read("runs/h200/cuda.json")).expect("a run file");
    assert_eq!(run.target, "cuda");
    let again = parallax(dir.path(), &["site", &cuda, "--no-page"]);
    assert!(again.status.success(), "a site is made over the last one");
}

#[test]
fn earlier_runs_are_shown_over_time_alone() {
    let dir = folder();
    let shown = recorded("2026-11-22-h200/cuda.json");
    let args = [
        "site",
        &shown,
        "--no-page",
        "--history",
        &recorded("2026-11-22-h200"),
        "--history",
        &recorded("2026-11-21-h200"),
    ];
    let made = parallax(dir.path(), &args);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |path: &str| std::fs::read_to_string(dir.path().join("site").join(path)).expect(path);
    let page = read("history/index.html");
    assert!(page.contains("runs from 2026-11-21") && page.contains("Series with too few runs"), "{page}");
    assert!(!page.contains("counted once"), "the shown run is read once");
    assert!(!read("device/h200/index.html").contains("2026-11-21"));
    mistake(dir.path(), &["site", &shown, "--no-page", "--history", "none"], &["none", "no such file or folder"]);
}

#[test]
fn the_page_that_measures_comes_along_where_it_is_built() {
    let dir = folder();
    let page = dir.path().join("built");
    std::fs::create_dir_all(page.join("snippets")).expect("writable");
    std::fs::write(page.join("index.html"), "<!doctype html>the page").expect("writable");
    std::fs::write(page.join("snippets/a.js"), "1").expect("writable");
    let made =
        parallax(dir.path(), &["site", &recorded("2026-11-22-h200/wgpu.json"), "--page", "built", "--out", "made"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |path: &str| std::fs::read_to_string(dir.path().join("made").join(path)).expect(path);
    assert_eq!((read("run/index.html").as_str(), read("run/snippets/a.js").as_str()), ("<!doctype html>the page", "1"));
    assert!(
        read("index.html").contains("href=\"./run/\"") && read("index.html").contains("content=\"./run/card.png\"")
    );
}

#[test]
fn figures_of_other_libraries_and_an_address_are_taken() {
    let dir = folder();
    std::fs::write(dir.path().join("index.html"), "the page").expect("writable");
    let args = [
        "site",
        &recorded("2026-11-22-h200/cuda.json"),
        "--page",
        ".",
        "--peers",
        &recorded("2026-11-23-h200/peers.json"),
        "--peers",
        &recorded("2026-11-25-h200/peers.json"),
        "--address",
        "https://x.example/p",
    ];
    let made = parallax(dir.path(), &args);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |path: &str| std::fs::read_to_string(dir.path().join("site").join(path)).expect(path);
    assert!(read("index.html").contains("content=\"https://x.example/p/run/card.png\""));
    let device = read("device/h200/index.html");
    for library in ["PyTorch 2.11", "ONNX Runtime Web", "TensorFlow.js"] {
        assert!(device.contains(library), "{library}");
    }
}

#[test]
fn mistakes_are_told() {
    let dir = folder();
    let run = recorded("2026-11-22-h200/wgpu.json");
    mistake(dir.path(), &["site", "nowhere.json"], &["cannot read nowhere.json"]);
    mistake(dir.path(), &["site", &run, "--page", "nowhere"], &["nowhere"]);
    mistake(dir.path(), &["site", &run, "--no-page", "--peers", "nowhere.json"], &["cannot read nowhere.json"]);
    mistake(dir.path(), &["site", &run, "--no-page", "--peers", &run], &["wgpu.json", "no file of peers"]);
    let unusable = parallax(dir.path(), &["site", &run, "--no-page", "--address", "x y"]);
    assert!(!unusable.status.success() && String::from_utf8_lossy(&unusable.stderr).contains("begins with https://"));
    std::fs::write(dir.path().join("taken"), "a file").expect("writable");
    mistake(dir.path(), &["site", &run, "--no-page", "--out", "taken"], &["cannot make the folder taken"]);
}

#[test]
fn documents_become_pages_whose_links_lead_somewhere() {
    let dir = folder();
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    let made = parallax(dir.path(), &["site", &recorded("2026-11-22-h200/wgpu.json"), "--no-page", "--docs", docs]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let site = dir.path().join("site");
    let mut folders = vec![site.join("docs")];
    let (mut pages, mut links) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("readable");
            // Tests of the page count elements; a tag that opens is one.
            assert!(text.matches('<').count() - text.matches("</").count() <= 8000, "{}", path.display());
            assert!(!text.contains(" style=") && text.contains("<nav aria-label=\"Site\">"), "{}", path.display());
            let targets = text.split("href=\"").skip(1).map(|rest| rest.split(['"', '#']).next().expect("closed"));
            for link in targets.filter(|link| !link.is_empty() && !link.starts_with("https://")) {
                let to = folder.join(link);
                let to = if link.ends_with('/') { to.join("index.html") } else { to };
                assert!(to.is_file(), "{}: {link}", path.display());
                links += 1;
            }
            pages += 1;
        }
    }
    assert!(pages >= 60 && links >= 400, "{pages} pages, {links} links");
    for path in ["index.html", "explain/index.html"] {
        assert!(std::fs::read_to_string(site.join(path)).expect(path).contains("docs/\""), "{path}");
    }
}

#[test]
fn a_recorded_session_is_summarised() {
    let dir = folder();
    let session = recorded("2026-11-25-h100");
    let made = parallax(dir.path(), &["report", "--session", &session]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let kept = std::fs::read_to_string(PathBuf::from(&session).join("summary.md")).expect("a summary");
    assert_eq!(String::from_utf8_lossy(&made.stdout), kept);
    mistake(dir.path(), &["report", "--session", "."], &["cannot read", "manifest.toml"]);
}
