//! Tests of a checkout, and their snapshots.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::shell::Shell;
use crate::steps::Steps;
use crate::{checks, packages, programs, site};

/// Runs the tests that a change needs, or every test with `--all`; `--fresh` ignores the kept results.
///
/// # Errors
/// A test that fails, or an unknown option.
pub fn test(shell: &mut Shell, options: &[&str]) -> Result<()> {
    let mut everything = false;
    for option in options {
        match *option {
            "--all" => {
                everything = true;
                *shell = shell.with("PARALLAX_TESTS", "all");
            }
            "--fresh" => *shell = shell.with("PARALLAX_FRESH", "1"),
            _ => bail!("`test` takes --all and --fresh, not `{option}`"),
        }
    }
    let mut steps = Steps::new();
    steps.step("packages and tools", || {
        shell.need(&["rust", "vulkan", "browser", "firefox", "node", "nvrtc", "nvdisasm"])
    })?;
    // A test that uses a kept result renews its time.
    let kept = cache(shell).join("parallax/tests");
    shell.succeeds(&format!("find {} -type f -mtime +14 -delete", kept.display()));
    let tests = format!("cargo test {}", checks::WITHOUT_CUBE);
    steps.step("compile tests", || shell.run(&format!("{tests} --quiet --no-run")))?;
    steps.step("unit, agreement, pairing, NVRTC and command-line tests", || {
        shell.run(&format!("{tests} --no-fail-fast"))
    })?;
    let page = if everything { "dist" } else { "dist-test" };
    match everything {
        true => steps.step("build the page as it is released", || programs::build_page(&mut shell.clone()))?,
        false => steps.step("build the page for tests", || programs::build_test_page(&mut shell.clone()))?,
    }
    page_steps(shell, &mut steps, page)?;
    if everything {
        steps.step("lints for wasm32", || checks::lint_page(&mut shell.clone()))?;
        steps.step("recipes and measures of quality in Python", || checks::python(&mut shell.clone()))?;
        steps.step("other systems", || checks::cross(&mut shell.clone()))?;
        steps.step("CubeCL", || checks::cube(&mut shell.clone()))?;
        steps.step("packages", || packages::package(&mut shell.clone()))?;
        steps.step("the oldest compiler", || checks::oldest(shell))?;
    }
    Ok(())
}

/// Runs the tests of the page, the site and the collector in browsers.
fn page_steps(shell: &Shell, steps: &mut Steps, page: &str) -> Result<()> {
    let path = |file: &str| shell.path(file).to_string_lossy().into_owned();
    let (built, artefacts, written) = (path(page), path("tests/artefacts"), path("tests/artefacts/site"));
    let program = shell.target().join("debug/parallax").to_string_lossy().into_owned();
    let node = |args: &[&str]| page_test(shell, args);
    steps.step("the page", || node(&["run.mjs", &built, &artefacts]))?;
    steps.step("the page in Firefox, without WebGPU and with it", || node(&["firefox.mjs", &built, &artefacts]))?;
    steps.step("the lab", || node(&["lab.mjs", &built, &artefacts]))?;
    steps.step("models in the page", || node(&["models.mjs", &program, &built]))?;
    steps.step("write the site", || site::build(shell, &program, page, &written))?;
    steps.step("the site", || node(&["site.mjs", &written, &artefacts]))?;
    steps.step("the collector", || node(&["collector.mjs", &program, &built, &artefacts]))
}

fn page_test(shell: &Shell, args: &[&str]) -> Result<()> {
    let folder = shell.path("tests/page");
    if !folder.join("node_modules").is_dir() {
        shell.run_words("npm", &["ci", "--silent"], &folder)?;
    }
    shell.run_words("node", args, &folder)
}

fn cache(shell: &Shell) -> PathBuf {
    match shell.variable("XDG_CACHE_HOME") {
        folder if folder.is_empty() => PathBuf::from(shell.variable("HOME")).join(".cache"),
        folder => PathBuf::from(folder),
    }
}

/// Accepts the present snapshots, traces, schema and counts, and lists the files that changed.
///
/// # Errors
/// A test that fails for another reason than a snapshot.
pub fn bless(shell: &mut Shell) -> Result<()> {
    shell.need(&["rust"])?;
    let accepting = shell.with("INSTA_UPDATE", "always");
    accepting.run("cargo test --quiet -p parallax-tests --test suite output::")?;
    accepting.run("cargo test --quiet -p parallax-tests --test suite recorded::")?;
    accepting.run("cargo test --quiet -p parallax-gpu-engine --test suite trace::")?;
    let counting = accepting.with("PARALLAX_BLESS", "1");
    counting.run("cargo test --quiet -p parallax-tests --test suite -- prose:: tidy::every_workload")?;
    shell.run("git status --short tests docs README.md")
}
