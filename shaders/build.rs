//! Embeds `kernels/`: NAME.wgsl, or NAME/VARIANT.wgsl where a workload has one text per variant, with what those share
//! in NAME/common.wgsl.

include!("../core/build/table.rs");

fn main() {
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("kernels");
    let mut table = String::from("static TEXTS: &[(&str, &str)] = &[\n");
    let mut add = |name: &str, path: &std::path::Path| {
        table += &format!("    ({name:?}, include_str!({path:?})),\n");
    };
    for (stem, path) in list_folder(&root, "wgsl") {
        if path.is_dir() {
            for (variant, path) in list_folder(&path, "wgsl") {
                add(&format!("{stem}/{variant}"), &path);
            }
        } else {
            add(&stem, &path);
        }
    }
    table += "];\n";
    write_out("texts.rs", &table);
}
