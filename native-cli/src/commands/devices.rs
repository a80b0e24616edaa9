//! `devices`: every target with its device, or the reason for its absence.

use std::process::ExitCode;

use clap::Args;

use crate::args::Device;
use crate::browser;
use crate::cards::cards;
use crate::console;
use crate::console::width;
use crate::table;
use crate::targets::{Opened, TARGETS};

/// `devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Prints every target.
pub fn devices(args: &Devices) -> anyhow::Result<ExitCode> {
    let mut found = Vec::new();
    let mut rows = Vec::new();
    for target in TARGETS {
        let described = match (target.open)(&args.device) {
            Ok(Opened::Here(profiler)) => {
                let (device, clock) = (profiler.device(), profiler.clock());
                if args.json {
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
                if args.json {
                    found.push(serde_json::json!({"target": target.name, "browser": path}));
                }
                format!("{} (a running page shows its devices)", path.display())
            }
            Err(why) => {
                if args.json {
                    found.push(serde_json::json!({"target": target.name, "unavailable": why}));
                }
                format!("not available: {why}")
            }
        };
        if !args.json {
            rows.push(vec![target.name.to_owned(), described]);
        }
    }
    for (number, card) in cards().iter().enumerate() {
        match args.json {
            true => found.push(serde_json::json!({"number": number, "card": card, "targets": card.targets()})),
            false => rows.push(vec![format!("--device {number}"), card.words()]),
        }
    }
    if args.json {
        console::raw(&serde_json::to_string(&found)?);
    } else {
        console::show(&table::plain(&["target", "device"], 2, rows.into_iter(), width()));
    }
    Ok(ExitCode::SUCCESS)
}
