// Shared by the build scripts of the two kernel crates.

include!("table.rs");

/// Write `kernels.rs`: `FILES`, the name and text of each file with one of these extensions below `kernels/`, as in
/// `matmul/tiled.cu`.
fn embed_kernels(extensions: &[&str]) {
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("kernels");
    let mut files = Vec::new();
    for extension in extensions {
        for (folder, path) in list_folder(&root, extension) {
            let found = match path.is_dir() {
                true => list_folder(&path, extension).into_iter().map(|(n, file)| (format!("{folder}/{n}"), file)).collect(),
                false => vec![(folder, path)],
            };
            files.extend(found.into_iter().map(|(name, file)| (format!("{name}.{extension}"), file)));
        }
    }
    files.sort();
    let mut table = String::from("static FILES: &[(&str, &str)] = &[\n");
    for (name, file) in files {
        table += &format!("    ({name:?}, include_str!({file:?})),\n");
    }
    table += "];\n";
    write_out("kernels.rs", &table);
}
