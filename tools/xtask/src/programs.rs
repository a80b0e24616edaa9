//! Programs of the page, compiled for wasm32 and bound to JavaScript.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use crate::shell::{Shell, numbers, oldest_compiler, say};
use crate::{bind, files};

const WASM: &str = "wasm32-unknown-unknown";
const SIMD: &str = "-C target-feature=+simd128";

/// Builds the page as it is released, into `dist/`: small programs, for every browser.
///
/// # Errors
/// A program that does not compile.
pub fn build_page(shell: &mut Shell) -> Result<()> {
    with_failure_line(|| {
        shell.need(&["rust", "wasm"])?;
        let small = if library_source(shell) { small_library(shell) } else { shell.clone() };
        own_programs(&small, "page", "-simd128", "dist")?;
        build_other_programs(shell)
    })
}

/// Builds the page of the tests, into `dist-test/`: the same programs, compiled in minutes, and the one that measures.
///
/// # Errors
/// A program that does not compile.
pub fn build_test_page(shell: &mut Shell) -> Result<()> {
    with_failure_line(|| {
        shell.need(&["rust", "wasm"])?;
        own_programs(shell, "page-test", "+simd128", "dist-test")?;
        worker(shell, "page-test", "worker", "dist-test", SIMD, "")?;
        BESIDE.iter().try_for_each(|name| beside(shell, name, "page-test", "dist-test"))
    })
}

/// Runs a build, and names its object after a failure.
fn with_failure_line(build: impl FnOnce() -> Result<()>) -> Result<()> {
    build().inspect_err(|_| eprintln!("x: the page was not built"))
}

/// Builds the page's own program, and the reports program, which a browser fetches when it needs a report.
fn own_programs(shell: &Shell, profile: &str, feature: &str, folder: &str) -> Result<()> {
    let line =
        format!("cargo build --quiet -p parallax-web -p parallax-reports --bins --profile {profile} --target {WASM}");
    // A panic's message has file and line; columns would be a third of its place's bytes.
    let places = if shell.variable("RUSTC_BOOTSTRAP") == "1" { " -Zlocation-detail=file,line" } else { "" };
    shell.with("RUSTFLAGS", format!("-C target-feature={feature}{places}")).run(&line)?;
    let folder = shell.path(folder);
    files::build(&shell.path(""), &compiled(shell, profile, "parallax-web"), &folder)?;
    bind::bind(&compiled(shell, profile, "parallax-reports"), &folder.join("reports")).map(drop)
}

/// Path of a program that cargo compiled.
fn compiled(shell: &Shell, profile: &str, name: &str) -> PathBuf {
    shell.target().join(WASM).join(profile).join(format!("{name}.wasm"))
}

/// Returns whether the standard library can be compiled anew.
fn library_source(shell: &Shell) -> bool {
    shell.variable("RUSTUP_TOOLCHAIN") != "distribution" && shell.succeeds("rustup component add rust-src")
}

/// Returns a shell that compiles a small standard library, and leaves out paths of this machine. The precompiled library is made for
/// speed, and sorts and prints in more code.
fn small_library(shell: &Shell) -> Shell {
    shell
        .with("RUSTC_BOOTSTRAP", "1")
        .with("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort")
        .with("CARGO_UNSTABLE_BUILD_STD_FEATURES", "optimize_for_size")
        .with("CARGO_UNSTABLE_TRIM_PATHS", "true")
        .with("CARGO_PROFILE_PAGE_TRIM_PATHS", "all")
}

/// Builds the other programs, each in a folder of `dist/`: the worker, the worker with shared memory, CubeCL's compilers,
/// the lab, and the models.
///
/// Two are built at a time: one processor does most of the work of each, and their flags differ, so they share no dependency.
fn build_other_programs(shell: &Shell) -> Result<()> {
    let second = shell.with("CARGO_TARGET_DIR", shell.target().join("beside").to_string_lossy());
    std::thread::scope(|scope| {
        let threads = scope.spawn(|| threaded_worker(&second));
        let first = compilers(shell)
            .and_then(|()| worker(shell, "worker", "worker", "dist", SIMD, ""))
            .and_then(|()| BESIDE.iter().try_for_each(|name| beside(shell, name, "worker", "dist")));
        let threads = threads.join().map_err(|_| anyhow!("a build panicked"))?;
        first.and(threads)
    })
}

/// Builds the worker for shared memory: with thread-local data, and with imported memory up to the reach of 32 bits.
fn threaded_worker(shell: &Shell) -> Result<()> {
    if shell.variable("RUSTUP_TOOLCHAIN") != "distribution" && !library_source(shell) {
        say("rustup cannot add rust-src: the page computes on one thread");
        return Ok(());
    }
    let link = ["--shared-memory", "--import-memory", "--max-memory=4294967296"].map(str::to_owned);
    let exports = ["__wasm_init_tls", "__tls_size", "__tls_align", "__tls_base"].map(|name| format!("--export={name}"));
    let link: String = link.iter().chain(&exports).map(|arg| format!(" -C link-arg={arg}")).collect();
    let flags = format!("-C target-feature=+simd128,+atomics,+bulk-memory{link}");
    let shell = shell.with("RUSTC_BOOTSTRAP", "1");
    worker(&shell, "worker", "threads", "dist", &flags, "-Zbuild-std=std,panic_abort")
}

/// Builds the worker with flags of rustc, and binds it in a folder of the page.
fn worker(shell: &Shell, profile: &str, name: &str, folder: &str, flags: &str, library: &str) -> Result<()> {
    // The names' section has the features of a program too, and wasm-bindgen reads them.
    let line = format!(
        "cargo rustc --quiet -p parallax-worker --lib --crate-type cdylib --profile {profile} --target {WASM} {library}"
    );
    shell.with("RUSTFLAGS", flags).with("CARGO_PROFILE_WORKER_STRIP", "debuginfo").run(&line)?;
    bind_compiled(shell, profile, "parallax_worker", &shell.path(folder).join(name))
}

/// Pages of their own beside the page, each with a worker's program.
const BESIDE: [&str; 2] = ["lab", "models"];

/// Builds a page beside the page, with its worker.
fn beside(shell: &Shell, name: &str, profile: &str, folder: &str) -> Result<()> {
    let line = format!(
        "cargo rustc --quiet -p parallax-{name}-worker --lib --crate-type cdylib --profile {profile} --target {WASM}"
    );
    shell.with("RUSTFLAGS", SIMD).with("CARGO_PROFILE_WORKER_STRIP", "debuginfo").run(&line)?;
    let program = compiled(shell, profile, &format!("parallax_{name}_worker"));
    files::build_beside(&shell.path(""), name, &program, &shell.path(folder))
}

/// Builds CubeCL's compilers. They need a newer Rust than the page, which does without them.
fn compilers(shell: &Shell) -> Result<()> {
    let oldest = oldest_compiler(&shell.path("cube/Cargo.toml"))?;
    let version = shell.output("rustc", &["-V"])?;
    let here = version.split_whitespace().nth(1).unwrap_or_default();
    if numbers(here) < numbers(&oldest) {
        say(&format!("CubeCL needs Rust {oldest}, and this is {here}: the page skips its kernels"));
        return Ok(());
    }
    shell.with("RUSTFLAGS", "-C target-feature=-simd128").run(&format!(
        "cargo rustc --quiet -p parallax-gpu-cubecl --lib --crate-type cdylib --profile page --target {WASM}"
    ))?;
    bind_compiled(shell, "page", "parallax_cube", &shell.path("dist/cube"))
}

/// Binds a program that cargo compiled, in a folder.
fn bind_compiled(shell: &Shell, profile: &str, name: &str, folder: &Path) -> Result<()> {
    bind::bind(&compiled(shell, profile, name), folder).map(drop)
}
