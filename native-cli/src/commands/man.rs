//! `man`: the command-line help as man pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::args::Cli;
use crate::console::outln;
use crate::output::writable_folder;

/// `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Folder, as in ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Writes a page for the program and one for each command.
pub fn man(args: &Man) -> anyhow::Result<()> {
    let folder = args.folder.display();
    writable_folder(&args.folder)?;
    clap_mangen::generate_to(Cli::whole(), &args.folder).with_context(|| format!("cannot write to {folder}"))?;
    outln!("{folder}");
    Ok(())
}
