//! Format, lints, documentation, and compilations for other systems and compilers.

use anyhow::Result;

use crate::shell::{Shell, oldest_compiler, say};

/// Members of `check` and of the tests. CubeCL's compilers take as long as all else together, and have a command of their own.
pub const WITHOUT_CUBE: &str = "--workspace --exclude parallax-gpu-cubecl";

/// Values of scikit-learn and seqeval that the measures of quality are tested with.
const QUALITY: &str = "core/model/tests/quality/measures.json";

const WASM: &str = "wasm32-unknown-unknown";

/// Checks format, lints as errors, and documentation. Lints for wasm32, other systems and the oldest compiler are steps of `test --all`.
///
/// # Errors
/// A finding.
pub fn check(shell: &mut Shell) -> Result<()> {
    shell.need(&["rust"])?;
    shell.succeeds("rustup component add clippy rustfmt");
    shell.run("cargo fmt --all --check")?;
    shell.run(&format!(
        "cargo clippy {WITHOUT_CUBE} --exclude parallax-web --exclude parallax-reports --all-targets -- -D warnings"
    ))?;
    let documented = shell.with("RUSTDOCFLAGS", "-D warnings");
    documented
        .run(&format!("cargo doc {WITHOUT_CUBE} --exclude parallax-web --exclude parallax-reports --no-deps --quiet"))
}

/// Lints and tests the kernels in CubeCL.
///
/// # Errors
/// A finding, or a test that fails.
pub fn cube(shell: &mut Shell) -> Result<()> {
    shell.need(&["rust", "vulkan", "nvrtc", "nvdisasm"])?;
    shell.run(
        "cargo clippy -p parallax-gpu-cubecl -p parallax-gpu -p parallax-tests --features cube --all-targets \
         -- -D warnings",
    )?;
    let mut page = shell.clone();
    page.need(&["wasm"])?;
    page.run(&format!("cargo clippy -p parallax-gpu-cubecl --target {WASM} -- -D warnings"))?;
    shell.run("cargo test -p parallax-gpu-cubecl")?;
    shell.run("cargo test -p parallax-tests --features cube --test suite -- pairing agree")
}

/// Lints the page's code for wasm32.
///
/// # Errors
/// A finding.
pub fn lint_page(shell: &mut Shell) -> Result<()> {
    shell.need(&["rust", "wasm"])?;
    shell.succeeds("rustup component add clippy");
    shell.run(&format!(
        "cargo clippy -p parallax-web -p parallax-reports -p parallax-worker -p parallax-lab-worker \
         -p parallax-models-worker --target {WASM} -- -D warnings"
    ))
}

/// Runs the recipes of `docs/guide/tables.md`, validates those of clusters, and compares the measures of quality with those of
/// scikit-learn and seqeval.
///
/// # Errors
/// A recipe that finds nothing or is invalid, or a measure that differs.
pub fn python(shell: &mut Shell) -> Result<()> {
    shell.need(&["rust", "python"])?;
    shell.run("cargo build --quiet -p parallax-gpu")?;
    let (python, root) = (shell.variable("PARALLAX_PYTHON"), shell.path(""));
    let program = shell.target().join("debug/parallax").to_string_lossy().into_owned();
    shell.run_words(&python, &["-B", "python/tests/recipes.py", &program], &root)?;
    shell.run_words(&python, &["-B", "tests/recipes/schemas.py"], &root)?;
    shell.run_words(&python, &["-B", "tools/quality/fixtures.py", "--check", QUALITY], &root)
}

/// Type-checks the program for Windows and for Linux on ARM, where rustup has their standard libraries.
///
/// # Errors
/// A program that does not compile.
pub fn cross(shell: &mut Shell) -> Result<()> {
    shell.need(&["rust", "cross"])?;
    let installed = shell.output("rustup", &["target", "list", "--installed"])?;
    let mut targets = String::new();
    for target in ["x86_64-pc-windows-gnu", "aarch64-unknown-linux-gnu"] {
        if installed.lines().any(|line| line == target)
            || shell.succeeds(&format!("timeout 90 rustup target add {target}"))
        {
            targets += &format!(" --target {target}");
        } else {
            say(&format!("{target} is not checked: rustup cannot fetch its standard library"));
        }
    }
    // Build scripts and derives are the same for each target: one command compiles them once.
    if targets.is_empty() { Ok(()) } else { shell.run(&format!("cargo check --quiet -p parallax-gpu{targets}")) }
}

/// Type-checks the workspace with the oldest compiler of Cargo.toml, where it is installed.
///
/// # Errors
/// A package that does not compile.
pub fn oldest(shell: &Shell) -> Result<()> {
    let oldest = oldest_compiler(&shell.path("Cargo.toml"))?;
    let installed = shell.output("rustup", &["toolchain", "list"])?;
    let Some(toolchain) = installed.split_whitespace().find(|word| word.starts_with(&oldest)) else {
        say(&format!("Rust {oldest} is not installed: only CI compiles with it"));
        return Ok(());
    };
    shell.run(&format!(
        "cargo +{toolchain} check {WITHOUT_CUBE} --exclude parallax-web --exclude parallax-reports --target-dir target/oldest --quiet"
    ))
}
