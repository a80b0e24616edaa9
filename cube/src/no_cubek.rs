//! Stand-in for CubeK in a page. Its launchers would enlarge the program that the page fetches before it can begin.

use cubecl_core::prelude::KernelDefinition;
use parallax_ir::{Chosen, Recipe, Untranslated};

/// Returns whether a stage belongs to CubeK.
pub fn knows(name: &str) -> bool {
    name.starts_with("cubek_")
}

/// Refuses every recipe.
///
/// # Errors
/// Always.
pub fn planned(_: &Recipe) -> Result<(KernelDefinition, Chosen), Untranslated> {
    Err(Untranslated::Refused("CubeK's launchers are not in the programs of a page".to_owned()))
}
