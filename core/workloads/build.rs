//! Lists `src/ops` into the registry, so that adding a workload edits no list.

use parallax_build::{list_folder, write_out};

fn main() {
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let mut table = String::from("static TABLE: &[(&str, Make)] = &[\n");
    let mut names = String::from("static NAMES: &[&str] = &[\n");
    let ops = list_folder(&root.join("src/ops"), "rs").into_iter().filter(|(stem, _)| stem != "mod");
    for (stem, _) in ops {
        table += &format!("    ({stem:?}, ops::{stem}::workload),\n");
        names += &format!("    {stem:?},\n");
    }
    write_out("workloads.rs", &(table + "];\n" + &names + "];\n"));
}
