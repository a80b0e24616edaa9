//! Tells the program which commit it was built from.

include!("../core/build/commit.rs");

fn main() {
    emit_commit();
}
