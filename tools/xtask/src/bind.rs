//! JavaScript glue for a compiled program.

use std::path::Path;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

/// Writes the glue of a program to a folder and returns the program's name. `NAME.js` and `NAME_bg.wasm` lie in the folder, files
/// of its own scripts in `snippets/`.
///
/// # Errors
/// A program that is no output of wasm-bindgen's macros, or a folder that cannot be written.
pub fn bind(program: &Path, folder: &Path) -> Result<String> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(program)
        .web(true)
        .context("a program for pages")?
        .typescript(false)
        .remove_name_section(true)
        .remove_producers_section(true);
    bindgen.generate(folder).with_context(|| format!("{} into {}", program.display(), folder.display()))?;
    Ok(bindgen.stem()?.to_owned())
}
