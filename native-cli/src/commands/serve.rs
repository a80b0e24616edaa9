//! `serve`: the page on this machine.

use std::path::PathBuf;

use clap::Args;

use crate::browser;
use crate::console::outln;

/// `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Port of the loopback interface; 0 takes any that is free
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Folder of the built page; looked for when left out
    #[arg(long, value_name = "DIR")]
    pub page: Option<PathBuf>,
}

/// Serve until the program is ended.
pub fn serve(args: &Serve) -> anyhow::Result<()> {
    browser::serve(args.page.as_deref(), args.port, |address| outln!("{address}"))?;
    Ok(())
}
