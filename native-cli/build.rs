//! Tells the program which commit it was built from, and puts the page into it where that is asked for.

use parallax_build::emit_commit;

include!("build/page.rs");

fn main() {
    println!("cargo::rerun-if-changed=build");
    emit_commit();
    if std::env::var_os("CARGO_FEATURE_PAGE").is_some() {
        embed_page();
    }
}
