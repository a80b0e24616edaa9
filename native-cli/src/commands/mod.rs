//! What each command does.

pub mod a_a;
pub mod compare;
pub mod eval;
pub mod kernel;
pub mod profile;

use std::process::ExitCode;

use anyhow::{Context, bail};
use parallax_core::measure::runner::{Flow, Mode};
use parallax_core::plan::{Spec, plan};
use parallax_core::record::Run;

use crate::args::{Cli, Command, Common};
use crate::browser::RemoteEvent;
use crate::output::{Finished, Output, writable_folder};
use crate::session::{interrupted, listen_for_interrupts, session};
use crate::targets::{Opened, TARGETS, choose};
use crate::{browser, table};

/// Do what was asked. Errors are the user's to mend, and end with exit code 2.
pub fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Run(args) => match args.a_a {
            Some(runs) => a_a::a_a(&args.common, runs),
            None => run(&args.common),
        },
        Command::Profile(args) => profile::profile(&args),
        Command::Verify(common) => verify(&common),
        Command::List(common) => list(&common),
        Command::Devices(common) => devices(&common),
        Command::Compare(args) => compare::compare(&args),
        Command::Report(args) => compare::report(&args),
        Command::Eval(args) => eval::eval(&args).map(|()| ExitCode::SUCCESS),
        Command::Kernel(args) => kernel::kernel(&args).map(|()| ExitCode::SUCCESS),
        Command::Schema => {
            println!("{}", serde_json::to_string_pretty(&parallax_core::record::json_schema())?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// People's text goes to stdout, unless stdout is for machines.
pub fn say(common: &Common, text: &str) {
    if common.json { eprintln!("{text}") } else { println!("{text}") }
}

fn run(common: &Common) -> anyhow::Result<ExitCode> {
    writable_folder(&common.out)?;
    let mut written = Vec::new();
    let out = Output { folder: common.out.clone(), gzip: common.trace.trace_gzip };
    let runs = each_target(common, &common.spec()?, Mode::Measure, &out, |done| {
        say(common, &table::run(&done.run));
        say(common, &format!("the trace has {}", done.trace_size));
        written.push(format!("{}\n{}", done.json.display(), done.trace.display()));
    })?;
    say(common, &format!("\nwritten:\n{}", written.join("\n")));
    finish(common, &runs)
}

fn verify(common: &Common) -> anyhow::Result<ExitCode> {
    // Verdicts are for the eye; the files that a session keeps are not part of the bargain here.
    let scratch = tempfile::tempdir().context("no folder for temporary files")?;
    let out = Output { folder: scratch.path().to_owned(), gzip: false };
    let runs = each_target(common, &common.spec()?, Mode::Verify, &out, |done| say(common, &table::checks(&done.run)))?;
    finish(common, &runs)
}

/// Run a mode on each target asked for; a target that fails with `all` is told and does not take the others along.
pub fn each_target(
    common: &Common,
    spec: &Spec,
    mode: Mode,
    out: &Output,
    mut done: impl FnMut(&Finished),
) -> anyhow::Result<Vec<Run>> {
    listen_for_interrupts()?;
    let all = common.target.as_deref() == Some("all");
    let opened = choose(common.target.as_deref(), &common.device, |name, why| {
        eprintln!("target {name} is left out: {why}");
    })?;
    let mut runs = Vec::new();
    for (name, target) in opened {
        match session(name, target, spec, mode, &common.device, out) {
            Ok(file) => {
                let finished = file.finish()?;
                done(&finished);
                runs.push(finished.run);
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
pub fn finish(common: &Common, runs: &[Run]) -> anyhow::Result<ExitCode> {
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
