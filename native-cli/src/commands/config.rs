//! `config`: every setting in force, and the origin of its value.

use clap::Args;
use serde_json::json;

use crate::console;
use crate::settings::{Origin, Settings};
use crate::table;

/// `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub settings: Settings,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the settings.
pub fn config(args: &ConfigArgs) -> anyhow::Result<()> {
    let in_force = args.settings.in_force()?;
    let origin = |origin: &Origin, name: &str| match origin {
        Origin::Default => "default".to_owned(),
        Origin::File(path) => path.display().to_string(),
        Origin::Flag => format!("--{name}"),
    };
    let rows = in_force
        .origins
        .iter()
        .map(|(setting, from)| (setting.name, setting.get(&in_force.spec), origin(from, setting.name)));
    if args.json {
        let rows: Vec<_> =
            rows.map(|(name, values, from)| json!({"setting": name, "values": values, "from": from})).collect();
        console::raw(&serde_json::to_string(&rows)?);
        return Ok(());
    }
    let shown = |values: Vec<String>| if values.is_empty() { "–".to_owned() } else { values.join(" ") };
    let rows = rows.map(|(name, values, from)| vec![name.to_owned(), shown(values), from]);
    console::show(&table::plain(&["setting", "value", "from"], 3, rows, console::width()));
    Ok(())
}
