//! Tells the program which commit it was built from.

use parallax_build::emit_commit;

fn main() {
    emit_commit(&["build", "core", "cpu", "shaders", "web", "Cargo.lock"]);
}
