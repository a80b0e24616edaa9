//! In a page there is no CubeK: its launchers would be a part of what the page fetches before it can begin.

use cubecl_core::prelude::KernelDefinition;
use parallax_core::suite::{Chosen, Recipe, Untranslated};

/// Whether a stage is one of CubeK's.
pub fn knows(name: &str) -> bool {
    name.starts_with("cubek_")
}

/// Nothing, with the reason.
///
/// # Errors
/// Always.
pub fn planned(_: &Recipe) -> Result<(KernelDefinition, Chosen), Untranslated> {
    Err(Untranslated::Refused("CubeK's launchers are not among what a page fetches".to_owned()))
}
