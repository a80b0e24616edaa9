// The built page as part of the program: every file, compressed, in a table.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Write `page.rs`: `FILES`, the path below the page's folder and the compressed contents of each file.
fn embed_page() {
    println!("cargo::rerun-if-env-changed=PARALLAX_PAGE");
    let beside = || Path::new(&variable("CARGO_MANIFEST_DIR")).join("../dist");
    let page = std::env::var_os("PARALLAX_PAGE").map_or_else(beside, PathBuf::from);
    println!("cargo::rerun-if-changed={}", page.display());
    if !page.join("index.html").is_file() {
        println!(
            "cargo::error=the feature `page` puts the built page into the program, and there is no index.html in {}: build it \
             with `./x page`, or name its folder with PARALLAX_PAGE",
            page.display()
        );
        return;
    }
    let mut paths = Vec::new();
    below(&page, &mut paths);
    paths.sort();
    let out = PathBuf::from(variable("OUT_DIR"));
    let mut table = String::from("static FILES: Files = &[\n");
    for (number, path) in paths.iter().enumerate() {
        let name = path.strip_prefix(&page).expect("below it").components();
        let name: Vec<_> = name.map(|part| part.as_os_str().to_str().expect("UTF-8")).collect();
        let packed = out.join(format!("page-{number}.gz"));
        let file = std::fs::File::create(&packed).expect("writable OUT_DIR");
        let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::best());
        packer.write_all(&std::fs::read(path).expect("readable")).expect("writable OUT_DIR");
        packer.finish().expect("writable OUT_DIR");
        table += &format!("    ({:?}, include_bytes!({packed:?})),\n", name.join("/"));
    }
    table += "];\n";
    std::fs::write(out.join("page.rs"), table).expect("writable OUT_DIR");
}

fn variable(name: &str) -> String {
    std::env::var(name).expect("cargo sets it")
}

/// Every file below a folder.
fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() { below(&path, found) } else { found.push(path) }
    }
}
