//! Tells the page which commit it was built from.

use parallax_build::emit_commit;

fn main() {
    emit_commit(&["build", "core", "web", "Cargo.lock"]);
}
