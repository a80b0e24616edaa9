//! `schema`: the JSON Schema of run files.

use crate::console;

/// Prints the schema.
pub fn schema() -> anyhow::Result<()> {
    console::raw(&serde_json::to_string_pretty(&parallax_schema::record::json_schema())?);
    Ok(())
}
