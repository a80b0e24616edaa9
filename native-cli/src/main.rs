//! The program `parallax`. Exit codes: 0 all well, 1 a case was wrong, failed or not reached, 2 a mistake in the call, or
//! something that could not be written. A reader that closes the pipe early changes none of them.

use std::process::ExitCode;

use clap::Parser;
use parallax::args::Cli;
use parallax::commands::execute;
use parallax::console;

fn main() -> ExitCode {
    // Mesa's layer that sorts adapters tries to reach a display and complains on servers; we choose adapters ourselves.
    // SAFETY: no other thread exists yet.
    unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    let done = match Cli::try_parse() {
        Ok(cli) => execute(cli),
        Err(help) if !help.use_stderr() => {
            console::attempt(|| help.print());
            Ok(ExitCode::SUCCESS)
        }
        Err(mistake) => mistake.exit(),
    };
    let told = console::end();
    for error in [done.as_ref().err(), told.as_ref().err()].into_iter().flatten() {
        console::tell(format_args!("parallax: {error:#}"));
    }
    match (done, told) {
        (Ok(code), Ok(())) => code,
        _ => ExitCode::from(2),
    }
}
