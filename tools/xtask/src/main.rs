//! Build steps of the page that cargo has no command for. `./x` calls them after each compilation for wasm32.
//!
//! ```text
//! xtask bind PROGRAM.wasm FOLDER   JavaScript glue for a program, in a folder
//! xtask page PROGRAM.wasm FOLDER   the page: index.html, styles, scripts and the page's own program
//! ```
#![forbid(unsafe_code)]

mod bind;
mod page;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: xtask bind|page PROGRAM.wasm FOLDER";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let [command, program, folder] = args else { bail!(USAGE) };
    let (program, folder) = (Path::new(program), Path::new(folder));
    match command.as_str() {
        "bind" => bind::bind(program, folder).map(|_| ()),
        "page" => page::build(Path::new("."), program, folder),
        _ => bail!(USAGE),
    }
}
