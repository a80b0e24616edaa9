//! Lists `tuning` into the shipped tunings, so that a tuning for a class of devices edits no list.

use parallax_build::{list_folder, write_out};

fn main() {
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let mut texts = String::from("#[cfg(test)]\nstatic TEXTS: &[(&str, &str)] = &[\n");
    let mut tunings = String::from("static TUNINGS: &[(&str, &[Shipped])] = &[\n");
    for (stem, path) in list_folder(&root.join("tuning"), "toml") {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let table = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        tunings += &format!("    ({stem:?}, &[\n");
        for (dialect, value) in toml::Table::iter(&table) {
            for (name, number) in numbers(value, Vec::new()) {
                tunings += &format!("        ({dialect:?}, {name:?}, {number}),\n");
            }
        }
        tunings += "    ]),\n";
        texts += &format!("    ({stem:?}, include_str!({path:?})),\n");
    }
    write_out("tunings.rs", &(tunings + "];\n" + &texts + "];\n"));
}

/// Numbers below a value of a tuning file, under their full names.
fn numbers(value: &toml::Value, path: Vec<&str>) -> Vec<(String, i64)> {
    match value {
        toml::Value::Table(table) => {
            table.iter().flat_map(|(name, value)| numbers(value, [&path[..], &[name]].concat())).collect()
        }
        toml::Value::Integer(number) => vec![(path.join("."), *number)],
        _ => panic!("{} is no whole number", path.join(".")),
    }
}
