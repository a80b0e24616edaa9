//! Build script: embeds the commit and, with the feature `page`, the built page.

use parallax_build::emit_commit;

include!("build/page.rs");

fn main() {
    println!("cargo::rerun-if-changed=build");
    emit_commit(&["build", "core", "cpu", "cube", "cuda", "lab", "native-cli", "shaders", "Cargo.lock"]);
    if std::env::var_os("CARGO_FEATURE_PAGE").is_some() {
        embed_page();
    }
}
