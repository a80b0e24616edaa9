// Shared by the build scripts of the two kernel crates.

include!("table.rs");

/// Write `kernels.rs`: `TEXTS`, the name and text of each kernel file with this extension below `kernels/`: NAME, or
/// NAME/VARIANT where a workload has one text per variant, with what those share in NAME/common.
fn embed_kernels(ext: &str) {
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("kernels");
    let mut table = String::from("static TEXTS: &[(&str, &str)] = &[\n");
    for (stem, path) in list_folder(&root, ext) {
        let files = match path.is_dir() {
            true => list_folder(&path, ext).into_iter().map(|(name, file)| (format!("{stem}/{name}"), file)).collect(),
            false => vec![(stem, path)],
        };
        for (name, file) in files {
            table += &format!("    ({name:?}, include_str!({file:?})),\n");
        }
    }
    table += "];\n";
    write_out("kernels.rs", &table);
}
