//! Tells the page which commit it was built from.

include!("../core/build/commit.rs");

fn main() {
    emit_commit();
}
