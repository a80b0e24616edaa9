//! `schema`: the JSON Schema of run files.

/// Print it.
pub fn schema() -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(&parallax_core::record::json_schema())?);
    Ok(())
}
