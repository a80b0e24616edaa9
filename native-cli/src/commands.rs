//! What each command does, apart from `eval`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use parallax_core::compare::{Comparison, compare as pair};
use parallax_core::plan::plan;
use parallax_core::record::Run;
use parallax_core::report;
use parallax_core::runner::{Flow, Mode};

use crate::args::{Cli, Command, Common, Compare};
use crate::browser::{self, RemoteEvent};
use crate::output::writable_folder;
use crate::session::{interrupted, listen_for_interrupts, session};
use crate::targets::{Opened, TARGETS, choose};
use crate::{eval, table};

/// Do what was asked. Errors are the user's to mend, and end with exit code 2.
pub fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command.unwrap_or(Command::Run(cli.common)) {
        Command::Run(common) => run(&common),
        Command::Verify(common) => verify(&common),
        Command::List(common) => list(&common),
        Command::Devices(common) => devices(&common),
        Command::Compare(args) => compare(&args),
        Command::Eval(args) => eval::eval(&args).map(|()| ExitCode::SUCCESS),
        Command::Schema => {
            println!("{}", serde_json::to_string_pretty(&parallax_core::record::json_schema())?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// People's text goes to stdout, unless stdout is for machines.
fn say(common: &Common, text: &str) {
    if common.json { eprintln!("{text}") } else { println!("{text}") }
}

fn run(common: &Common) -> anyhow::Result<ExitCode> {
    writable_folder(&common.out)?;
    let mut written = Vec::new();
    let runs = each_target(common, Mode::Measure, &common.out, |run, json, trace| {
        say(common, &table::run(run));
        written.push(format!("{}\n{}", json.display(), trace.display()));
    })?;
    say(common, &format!("\nwritten:\n{}", written.join("\n")));
    finish(common, &runs)
}

fn verify(common: &Common) -> anyhow::Result<ExitCode> {
    // Verdicts are for the eye; the files that a session keeps are not part of the bargain here.
    let scratch = tempfile::tempdir().context("no folder for temporary files")?;
    let runs = each_target(common, Mode::Verify, scratch.path(), |run, _, _| say(common, &table::checks(run)))?;
    finish(common, &runs)
}

/// Run a mode on each target asked for; a target that fails with `all` is told and does not take the others along.
fn each_target(
    common: &Common,
    mode: Mode,
    out: &Path,
    mut done: impl FnMut(&Run, &Path, &Path),
) -> anyhow::Result<Vec<Run>> {
    let spec = common.spec()?;
    listen_for_interrupts()?;
    let all = common.target.as_deref() == Some("all");
    let opened = choose(common.target.as_deref(), &common.device, |name, why| {
        eprintln!("target {name} is left out: {why}");
    })?;
    let mut runs = Vec::new();
    for (name, target) in opened {
        match session(name, target, &spec, mode, &common.device, out) {
            Ok(file) => {
                let (run, json, trace) = file.finish()?;
                done(&run, &json, &trace);
                runs.push(run);
            }
            Err(error) if all => eprintln!("target {name} is left out: {error:#}"),
            Err(error) => return Err(error),
        }
        if interrupted() {
            break;
        }
    }
    if runs.is_empty() {
        bail!("no target could run; `parallax devices` says what each one lacks");
    }
    Ok(runs)
}

/// Exit code 1 when a case was wrong, failed or was not reached.
fn finish(common: &Common, runs: &[Run]) -> anyhow::Result<ExitCode> {
    if common.json {
        match runs {
            [one] => println!("{}", serde_json::to_string(one)?),
            many => println!("{}", serde_json::to_string(many)?),
        }
    }
    let bad =
        |run: &Run| run.interrupted.is_some() || run.records.iter().any(|r| matches!(r.verdict(), "WRONG" | "FAILED"));
    Ok(if runs.iter().any(bad) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn list(common: &Common) -> anyhow::Result<ExitCode> {
    let spec = common.spec()?;
    let opened = choose(common.target.as_deref(), &common.device, |name, why| {
        eprintln!("target {name} is left out: {why}");
    })?;
    let mut lists = Vec::new();
    for (name, target) in opened {
        let (cases, skips) = match target {
            Opened::Here(profiler) => {
                let plan = plan(&spec, &profiler.device().caps)?;
                let cases: Vec<(String, Option<String>)> = plan
                    .cases
                    .iter()
                    .map(|p| (p.case.to_string(), p.actual.as_ref().map(|a| format!("{}, {}", a.variant, a.reason))))
                    .collect();
                let skips: Vec<(String, String)> =
                    plan.skips.iter().map(|s| (s.case.to_string(), s.reason.clone())).collect();
                (cases, skips)
            }
            Opened::Browser(options) => {
                let mut planned = Vec::new();
                let mut unavailable = None;
                browser::run(&options, &spec, Mode::Verify, &mut |event| {
                    match event {
                        RemoteEvent::Begin { run } => planned = run.planned.clone(),
                        RemoteEvent::Unavailable { reason } => unavailable = Some(reason),
                        _ => return Flow::Continue,
                    }
                    Flow::Stop
                })?;
                if let Some(reason) = unavailable {
                    bail!("target browser: {reason}");
                }
                (planned.into_iter().map(|case| (case, None)).collect(), Vec::new())
            }
        };
        if common.json {
            lists.push(serde_json::json!({
                "target": name,
                "cases": cases.iter().map(|(c, actual)| serde_json::json!({"case": c, "actual": actual})).collect::<Vec<_>>(),
                "skips": skips.iter().map(|(c, why)| serde_json::json!({"case": c, "reason": why})).collect::<Vec<_>>(),
            }));
            continue;
        }
        println!("target {name}: {} cases, {} skips", cases.len(), skips.len());
        for (case, actual) in &cases {
            println!("  {case}{}", actual.as_ref().map(|a| format!("  (runs as {a})")).unwrap_or_default());
        }
        for (case, why) in &skips {
            println!("  {case}  skip: {why}");
        }
    }
    if common.json {
        println!("{}", serde_json::to_string(&lists)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn devices(common: &Common) -> anyhow::Result<ExitCode> {
    let mut found = Vec::new();
    for target in TARGETS {
        let described = match (target.open)(&common.device) {
            Ok(Opened::Here(profiler)) => {
                let (device, clock) = (profiler.device(), profiler.clock());
                if common.json {
                    found.push(serde_json::json!({"target": target.name, "device": device, "clock": clock}));
                }
                let types = device.caps.dtypes.iter().map(|d| d.name()).collect::<Vec<_>>().join(" ");
                format!(
                    "{} ({}, {:?}; {types}; {} clock, steps of {})",
                    device.name,
                    device.api,
                    device.kind,
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
                format!("not here: {why}")
            }
        };
        if !common.json {
            println!("{:>8}  {described}", target.name);
        }
    }
    if common.json {
        println!("{}", serde_json::to_string(&found)?);
    } else {
        for (i, (name, kind)) in pollster::block_on(parallax_shaders::adapters()).iter().enumerate() {
            println!("{:>8}  --adapter {i}: {name} ({kind:?})", "");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(args: &Compare) -> anyhow::Result<ExitCode> {
    let mut runs = Vec::new();
    for path in &args.files {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let run = Run::parse(&text).with_context(|| path.display().to_string())?;
        runs.push((run.target.clone(), run));
    }
    // Names are targets while they tell the runs apart, file names otherwise.
    let distinct: std::collections::BTreeSet<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    if distinct.len() < runs.len() {
        for ((name, _), path) in runs.iter_mut().zip(&args.files) {
            *name = path.file_stem().map_or_else(|| path.display().to_string(), |s| s.to_string_lossy().into_owned());
        }
    }
    let comparison = pair(&runs)?;
    if args.json {
        println!("{}", json(&comparison));
    } else if args.markdown {
        let (columns, rows) = table::comparison_cells(&comparison);
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        print!("{}", report::markdown(&columns, rows));
    } else {
        println!("{}", table::comparison(&comparison));
    }
    Ok(ExitCode::SUCCESS)
}

fn json(comparison: &Comparison) -> serde_json::Value {
    let ratio = |r: &parallax_core::compare::Ratio| serde_json::json!({"value": r.value, "low": r.low, "high": r.high});
    serde_json::json!({
        "runs": comparison.runs,
        "pairs": comparison.pairs.iter().map(|p| serde_json::json!({
            "case": p.case,
            "median_ns": p.medians,
            "ratio": p.ratios.iter().map(|r| r.as_ref().map(ratio)).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "unpaired": comparison.unpaired.iter().map(|(run, case)| serde_json::json!({"run": run, "case": case})).collect::<Vec<_>>(),
    })
}
