//! Commands of a checkout that cargo lacks: the page, the site, tests, lints, packages. `./x` starts them.
//!
//! - `page`: the page with all its programs, in `dist/`. `test-page`: the page of the tests, in `dist-test/`.
//! - `site [FOLDER]`: the site of the recorded runs, in `site/`.
//! - `test [--all] [--fresh]`: the tests. `cube`, `lint-page` and `cross` are parts of `test --all`.
//! - `check`: format, lints, documentation. `bless`: new snapshots, traces, schema and counts.
//! - `package`: each publishable package, built from its archive.
//!
//! The exit code of a failed command is that of the command.
#![forbid(unsafe_code)]

mod bind;
mod checks;
mod files;
mod packages;
mod programs;
mod shell;
mod site;
mod steps;
mod tests;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::shell::{Failure, Shell};

const USAGE: &str = "usage: xtask page|test-page|site|test|check|bless|package|cube|lint-page|cross";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let Err(error) = run(&args) else { return ExitCode::SUCCESS };
    match error.downcast_ref::<Failure>() {
        Some(failure) => {
            eprintln!("x: {failure}");
            ExitCode::from(failure.code)
        }
        None => {
            eprintln!("x: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[&str]) -> Result<()> {
    let mut shell = Shell::new()?;
    match args {
        ["page"] => programs::build_page(&mut shell),
        ["test-page"] => programs::build_test_page(&mut shell),
        ["site"] => site::build_anew(&shell, "site"),
        ["site", folder] => site::build_anew(&shell, folder),
        ["test", options @ ..] => tests::test(&mut shell, options),
        ["check"] => checks::check(&mut shell),
        ["bless"] => tests::bless(&mut shell),
        ["package"] => packages::package(&mut shell),
        ["cube"] => checks::cube(&mut shell),
        ["lint-page"] => checks::lint_page(&mut shell),
        ["cross"] => checks::cross(&mut shell),
        ["help"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!(USAGE),
    }
}
