//! The program `parallax`. Exit codes: 0 all well, 1 a case was wrong, failed, not reached, or named and not run, or a
//! gate did not hold, 2 a mistake in the call.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // Mesa's layer that sorts adapters tries to reach a display and complains on servers; we choose adapters ourselves.
    // SAFETY: no other thread exists yet.
    unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    match parallax::commands::execute(parallax::args::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("parallax: {error:#}");
            ExitCode::from(2)
        }
    }
}
