//! Unit tests of the Python reader and of the scripts beside the suite.

use std::process::Command;

use crate::tidy::root;

#[test]
fn python_reads_run_files_as_the_program_does() {
    for (folder, arguments) in [("python/tests", &["discover"][..]), ("tools/torch", &["test_sensors"])] {
        let ran = Command::new("python3")
            .args(["-B", "-m", "unittest"])
            .args(arguments)
            .current_dir(root().join(folder))
            .output()
            .unwrap_or_else(|error| panic!("python3: {error}; `./x setup` installs it"));
        assert!(ran.status.success(), "{folder}:\n{}", String::from_utf8_lossy(&ran.stderr));
    }
}
