//! `completions`: what a shell needs to complete commands, options and their words.

use clap::Args;
use clap_complete::{Shell, generate};

use crate::args::Cli;
use crate::console;

/// `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Print the script.
pub fn completions(args: &Completions) -> anyhow::Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::whole(), "parallax", &mut script);
    console::bytes(&script);
    Ok(())
}
