//! Lists `kernels` into a table, so that adding a kernel text edits no list.

include!("../core/build/table.rs");

fn main() {
    println!("cargo::rerun-if-changed=../core/build/table.rs");
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("kernels");
    let mut table = String::from("static TABLE: &[(&str, &str)] = &[\n");
    for (stem, path) in list_folder(&root, "cu") {
        let files = match path.is_dir() {
            true => list_folder(&path, "cu").into_iter().map(|(name, file)| (format!("{stem}/{name}"), file)).collect(),
            false => vec![(stem, path)],
        };
        for (name, file) in files {
            table += &format!("    ({name:?}, include_str!({file:?})),\n");
        }
    }
    table += "];\n";
    write_out("kernels.rs", &table);
}
