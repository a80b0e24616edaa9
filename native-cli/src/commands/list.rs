//! `list`: prints the plan of every target.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use parallax_engine::coverage::coverage;
use parallax_engine::measure::runner::Flow;
use parallax_engine::plan::{Planned, plan};
use parallax_report::{operations_table, skips as skips_by_reason};
use parallax_schema::record::Event;
use parallax_schema::session::Mode;
use parallax_schema::units::Bytes;

use crate::args::{DEVICES, Device, RESULTS};
use crate::commands::measuring::left_out;
use crate::console::{Painted, outln, width};
use crate::model::FromModel;
use crate::settings::{PLANNING, Settings};
use crate::targets::{Opened, choose};
use crate::{browser, console, table};

/// `list`.
#[derive(Debug, Args)]
pub struct List {
    /// cuda, wgpu, browser, cpu, wasm, all [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub settings: Settings<PLANNING>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub model: FromModel,
    /// Print the targets and types of every variant instead, with the reason of every gap
    #[arg(long, help_heading = RESULTS, conflicts_with_all = ["target", "json"])]
    pub coverage: bool,
    /// Print JSON
    #[arg(long, help_heading = RESULTS)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Row of a planned case.
#[derive(serde::Serialize)]
struct Listed {
    case: String,
    /// Fallback, with its reason.
    actual: Option<String>,
    /// Device memory of one set of the case's buffers; absent for pages, which do not report it.
    memory: Option<Bytes>,
}

/// Prints cases with their device memory, and skips with their reasons.
pub fn list(args: &List) -> anyhow::Result<ExitCode> {
    if args.coverage {
        console::raw(coverage().trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let mut spec = args.settings.in_force()?.spec;
    let model = args.model.apply(&mut spec)?;
    if let Some(model) = model.as_ref().filter(|_| !args.json) {
        console::show(&table::text(&operations_table(model), width()).above(&Painted::default()));
    }
    let choice = choose(args.target.as_deref(), &args.device, &spec.set)?;
    left_out(args.target.as_deref(), &choice);
    let mut lists = Vec::new();
    for (name, target) in choice.reached {
        let (cases, skips) = match target {
            Opened::Here(profiler) => {
                let caps = &profiler.device().caps;
                let plan = plan(&spec, caps)?;
                let listed = |p: &Planned| Listed {
                    case: p.name(),
                    actual: p.actual.as_ref().map(|a| format!("{}, {}", a.variant, a.reason)),
                    memory: Some(p.memory(caps)),
                };
                let cases: Vec<Listed> = plan.cases.iter().map(listed).collect();
                let skips: Vec<(String, String)> =
                    plan.skips.iter().map(|s| (s.case.to_string(), s.reason.clone())).collect();
                (cases, skips)
            }
            Opened::Browser(options) => {
                let mut planned = Vec::new();
                let mut unavailable = None;
                browser::run(&options, &spec, Mode::Verify, &mut |event| {
                    match event {
                        Some(Event::Begin { run }) => planned = run.planned.clone(),
                        Some(Event::Unavailable { reason }) => unavailable = Some(reason),
                        _ => return Flow::Continue,
                    }
                    Flow::Stop
                })?;
                if let Some(reason) = unavailable {
                    bail!("target {name}: {reason}");
                }
                (planned.into_iter().map(|case| Listed { case, actual: None, memory: None }).collect(), Vec::new())
            }
        };
        if args.json {
            lists.push(serde_json::json!({
                "target": name,
                "cases": cases,
                "skips": skips.iter().map(|(c, why)| serde_json::json!({"case": c, "reason": why})).collect::<Vec<_>>(),
            }));
            continue;
        }
        outln!("target {name}: {} cases, {} skipped", cases.len(), skips.len());
        let workload = |listed: &Listed| listed.case.split('/').next().unwrap_or_default().to_owned();
        let counts: Vec<String> = cases
            .chunk_by(|a, b| workload(a) == workload(b))
            .map(|of| format!("{} {}", workload(&of[0]), of.len()))
            .collect();
        console::show(&table::lines([counts.join(", ")], console::width()));
        let memory = if cases.iter().any(|listed| listed.memory.is_some()) { "  device memory" } else { "" };
        outln!("  case: workload/direction/shape/type/variant{memory}");
        for Listed { case, actual, memory } in &cases {
            let actual = actual.as_ref().map(|a| format!("  (runs as {a})")).unwrap_or_default();
            outln!("  {case}{}{actual}", memory.map(|m| format!("  {m}")).unwrap_or_default());
        }
        for line in skips_by_reason(skips.iter().map(|(case, why)| (case.as_str(), why.as_str()))) {
            outln!("  {line}");
        }
    }
    if args.json {
        console::raw(&serde_json::to_string(&lists)?);
    }
    Ok(ExitCode::SUCCESS)
}
