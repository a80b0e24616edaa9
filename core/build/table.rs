// Shared by the build scripts: turn a folder into a sorted list of (stem, path).

/// Every entry of `folder` that is a file with extension `ext`, or a folder, as (stem, absolute path),
/// sorted by stem so that the result does not depend on the file system.
fn list_folder(folder: &std::path::Path, ext: &str) -> Vec<(String, std::path::PathBuf)> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("cannot list {}: {e}", folder.display()));
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("readable folder entry").path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|x| x == ext))
        .map(|path| {
            let stem = path.file_stem().expect("named").to_string_lossy().into_owned();
            (stem, path.canonicalize().expect("existing path"))
        })
        .collect();
    found.sort();
    found
}

/// Write `text` to `name` in the build script's output folder.
fn write_out(name: &str, text: &str) {
    let dir = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(std::path::Path::new(&dir).join(name), text).expect("writable OUT_DIR");
}
