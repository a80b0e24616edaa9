//! `devices`: every target with what it would run on, or why it is not there.

use std::process::ExitCode;

use crate::args::Common;

use crate::browser;
use crate::console;
use crate::console::width;
use crate::table;
use crate::targets::{Opened, TARGETS};

/// Print every target.
pub fn devices(common: &Common) -> anyhow::Result<ExitCode> {
    let mut found = Vec::new();
    let mut rows = Vec::new();
    for target in TARGETS {
        let described = match (target.open)(&common.device) {
            Ok(Opened::Here(profiler)) => {
                let (device, clock) = (profiler.device(), profiler.clock());
                if common.json {
                    found.push(serde_json::json!({"target": target.name, "device": device, "clock": clock}));
                }
                let types = device.caps.dtypes.iter().map(|d| d.name()).collect::<Vec<_>>().join(" ");
                format!(
                    "{} ({}, {}), computes with {types}; {} clock, steps of {}",
                    device.name,
                    device.api,
                    device.kind.name(),
                    clock.clock.label(),
                    clock.step
                )
            }
            Ok(Opened::Browser(options)) => {
                let path = browser::ready(&options)?;
                if common.json {
                    found.push(serde_json::json!({"target": target.name, "browser": path}));
                }
                format!("{} (its devices show when a page runs)", path.display())
            }
            Err(why) => {
                if common.json {
                    found.push(serde_json::json!({"target": target.name, "unavailable": why}));
                }
                format!("not available: {why}")
            }
        };
        if !common.json {
            rows.push(vec![target.name.to_owned(), described]);
        }
    }
    if common.json {
        console::raw(&serde_json::to_string(&found)?);
    } else {
        for (i, (name, kind)) in pollster::block_on(parallax_shaders::adapters()).iter().enumerate() {
            rows.push(vec![format!("wgpu --adapter {i}"), format!("{name} ({})", kind.name())]);
        }
        console::show(&table::plain(&["target", "device"], 2, rows.into_iter(), width()));
    }
    Ok(ExitCode::SUCCESS)
}
