// Shared by the build scripts of the two edges: the commit they are built from.

/// Set `PARALLAX_COMMIT` for the crate: short hash, `-dirty` when tracked files differ, empty outside a checkout.
fn emit_commit() {
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
    println!("cargo::rustc-env=PARALLAX_COMMIT={commit}{}", if dirty { "-dirty" } else { "" });
    // HEAD's log is written on every commit and checkout.
    if let Some(dir) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo::rerun-if-changed={dir}/logs/HEAD");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
