//! JavaScript glue for a compiled program.

use std::path::Path;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

/// Name of the bound program: `NAME.js` and `NAME_bg.wasm` lie in the folder, files of its own scripts in `snippets/`.
///
/// # Errors
/// When the program is no output of wasm-bindgen's macros, or the folder cannot be written.
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
