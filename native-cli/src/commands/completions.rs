//! `completions`: completion scripts of shells for commands, options and their values.

use clap::Args;
use clap_complete::{Shell, generate};

use crate::args::Cli;
use crate::console;

/// `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell
    pub shell: Shell,
}

/// Prints the script.
pub fn completions(args: &Completions) -> anyhow::Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::whole(), "parallax", &mut script);
    console::bytes(&script);
    Ok(())
}
