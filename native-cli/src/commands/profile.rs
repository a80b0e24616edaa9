//! `profile`: stages of the cases of one workload, with times, shares, bounds and advice.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use parallax_engine::plan::{Plan, Planned, plan};
use parallax_ir::Workload;
use parallax_report as report;
use parallax_report::Part;
use parallax_report::advice::{Component, advice, components};
use parallax_schema::record::{Items, Model, NamedRun, Record, Run};
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;
use parallax_schema::spec::schedule::Schedule;
use parallax_schema::units::percent;
use parallax_workloads::Registry;

use crate::args::{Common, RESULTS};
use crate::commands::measuring::{Measured, each_target, finish, say, show};
use crate::commands::safety::{SAFETY, safety};
use crate::commands::scaling;
use crate::console::{Painted, errln, width};
use crate::output::{Output, writable_folder};
use crate::{console, files, flamegraph, table};

/// `profile`.
#[derive(Debug, Args)]
pub struct Profile {
    /// Workload: attention, matmul and so on; `list` shows them
    ///
    /// Or `safety`: a set of kernels with and without the checks that browsers add, and the cost of each check. On wgpu, or with
    /// --target browser in Chromium; --filter chooses other kernels. --from profiles the operations of a model in its place.
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub workload: Option<String>,
    /// Additional output; flamegraph: times of the stages as an SVG
    #[arg(long, value_enum, help_heading = RESULTS, hide_possible_values = true, conflicts_with_all = ["json", "csv", "json_lines"])]
    pub format: Option<Format>,
    /// File for it [default: stdout, with tables on stderr]
    #[arg(long, value_name = "FILE", help_heading = RESULTS, requires = "format")]
    pub output: Option<PathBuf>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub common: Common,
}

/// Format of a profile beside its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// An SVG of the stages
    #[value(help = None)]
    Flamegraph,
}

/// Default schedule of traced executions.
const SCHEDULE: Schedule = Schedule { wait: 0, warmup: 1, active: 5, repeat: 1 };

/// Measures the workload's cases and prints their component tables.
pub fn profile(args: &Profile) -> anyhow::Result<ExitCode> {
    let graph = args.format.is_some();
    let common = &Common { stdout_taken: graph && args.output.is_none(), ..args.common.clone() };
    if args.workload.as_deref() == Some(SAFETY) {
        if graph {
            bail!("profile {SAFETY} compares runs, and a flame graph shows the stages of one: leave --format out");
        }
        return safety(common, common.spec()?);
    }
    let (spec, workload, model) = selected(args)?;
    writable_folder(&common.out)?;
    let mut written = Vec::new();
    let out = Output { model, ..Output::of(common) };
    let measured = each_target(common, &spec, Mode::Profile, &out, |done| {
        show(common, &tables(&taken_apart(&done.run), width()));
        written.push(done.paths());
    })?;
    let drawn = if graph { draw(args, &measured.runs) } else { Ok(()) };
    let beside = match workload {
        Some(workload) => {
            scaling::beside_the_host(common, &spec, workload, &measured.runs, |done| written.push(done.paths()))?
        }
        None => Measured::default(),
    };
    let measured = measured.and(beside);
    let no_device = scaling::no_device(common, &measured.runs).filter(|_| spec.scaling == Some(true));
    scaling::tell(common, &measured.runs, no_device.as_deref());
    say(common, &format!("\nwritten:\n{}", written.join("\n")));
    let code = finish(common, measured)?;
    match drawn {
        Err(error) if code == ExitCode::SUCCESS => Err(error),
        // Failures of the cases come first. They are often the reason for a missing graph.
        Err(error) => {
            errln!("{}", console::mistake(&error));
            Ok(code)
        }
        Ok(()) => Ok(code),
    }
}

/// Writes the flame graph of all targets.
fn draw(args: &Profile, runs: &[Run]) -> anyhow::Result<()> {
    let named: Vec<NamedRun> = runs.iter().map(|run| NamedRun::new(run.target.clone(), taken_apart(run))).collect();
    let svg = flamegraph::svg(&named)?;
    match &args.output {
        Some(path) => files::write_text(path, &svg),
        None => {
            console::bytes(svg.as_bytes());
            Ok(())
        }
    }
}

/// Returns a run without the records that only scaling tables need. A run with no other records stays complete.
fn taken_apart(run: &Run) -> Run {
    let without = Spec { scaling: None, ..run.spec.clone() };
    let Ok(Plan { cases, skips }) = plan(&without, &run.device().caps) else { return run.clone() };
    let kept: HashSet<String> =
        cases.iter().map(Planned::name).chain(skips.iter().map(|skip| skip.case.to_string())).collect();
    Run { records: run.records.iter().filter(|record| kept.contains(&record.case)).cloned().collect(), ..run.clone() }
}

/// Returns the spec of the flags, restricted to the workload or to the operations of the model.
fn selected(args: &Profile) -> anyhow::Result<(Spec, Option<&'static Workload>, Option<Model>)> {
    let mut spec = args.common.spec()?;
    if spec.schedule == Schedule::default() {
        spec.schedule = SCHEDULE;
    }
    let Some(name) = &args.workload else {
        let model = args.common.model.apply(&mut spec)?;
        return Ok((spec, None, model));
    };
    let Some(workload) = parallax_workloads::find(name) else {
        let names = parallax_workloads::all().iter().map(|workload| workload.name).chain([SAFETY]);
        bail!("unknown workload `{name}`: {}", parallax_schema::case::choices(name, names));
    };
    if !spec.names_cases() {
        // Named shapes replace the default axis.
        let wanted = workload.scaling().is_some() && spec.shape.is_empty();
        spec.scaling = spec.scaling.or(wanted.then_some(true));
        spec.filter = match spec.filter.is_empty() {
            true => vec![format!("{name}/")],
            false => spec.filter.iter().map(|f| format!("{name}/*{f}")).collect(),
        };
    }
    Ok((spec, Some(workload), None))
}

/// Returns the component tables of every case of a run.
fn tables(run: &Run, width: usize) -> Painted {
    let mut text = table::lines(report::heading(run), width);
    for record in &run.records {
        let (parts, step) = (components(&Registry, record, run), report::step(&Registry, record, run));
        text = text.above(&Painted::default()).above(&table::lines([heading(record, run)], width));
        if let Some(items) = record.items.as_ref().filter(|_| !step.is_empty()) {
            let columns = ["part", "time", "share", &format!("{}/s", items.name)];
            let rows = step.iter().map(|part| of_step(part, items));
            text = text.above(&table::plain(&columns, 1, rows, width)).above(&Painted::default());
        }
        if !parts.is_empty() {
            let rows = parts.iter().flat_map(|part| std::iter::once(cells(part)).chain(within(part)));
            text = text.above(&table::plain(&COLUMNS, 1, rows, width));
        }
        if let Some(counters) = report::counters_table(&Registry, record, run) {
            text = text.above(&table::text(&counters, width));
        }
        // A case with a single stage has no bottleneck.
        let worst = bottleneck(&parts)
            .filter(|_| parts.iter().filter(|part| part.share.is_some()).count() > 1)
            .map(|worst| format!("bottleneck: {worst}"));
        let said = advice(&Registry, record, run).map(|said| format!("recommendation: {said}"));
        let gaps = report::idle_gaps(record, run);
        for line in worst.into_iter().chain(gaps).chain(said) {
            text = text.above(&table::lines([line], width));
        }
    }
    text.above(&table::lines(report::counters(run), width))
}

const COLUMNS: [&str; 6] = ["component", "time", "share", "bound", "of ceiling", "occupancy"];

fn cells(part: &Component) -> Vec<String> {
    let dash = || "–".to_owned();
    vec![
        part.name.clone(),
        part.time.to_string(),
        part.share.map_or_else(dash, percent),
        part.bound.map_or_else(dash, |b| format!("{}-bound", b.name())),
        part.utilisation.map_or_else(dash, percent),
        part.occupancy.map_or_else(dash, percent),
    ]
}

/// Returns the row of a part of a step over a batch, with the rate in items per second that this part alone would
/// allow.
fn of_step(part: &Part, items: &Items) -> Vec<String> {
    vec![part.name.clone(), part.time.to_string(), percent(part.share), items.scaled(part.time)]
}

/// Returns the rows of a component's stages, indented, if it has several.
fn within(part: &Component) -> impl Iterator<Item = Vec<String>> + '_ {
    let stages = part.stages.iter().filter(|_| part.stages.len() > 1);
    stages.map(|stage| cells(&Component { name: format!("  {}", stage.name), ..stage.clone() }))
}

fn heading(record: &Record, run: &Run) -> String {
    let row = report::row(&Registry, record, run);
    match record.timing() {
        Some(_) => {
            let items = record.items_rate().map_or(String::new(), |rate| format!(", {rate}"));
            format!("{}: {} {}, {}{items}", record.case, row.median, row.interval, row.rate)
        }
        None => format!("{}: {}: {}", record.case, row.verdict, row.note),
    }
}

/// Returns the description of the stage with the largest share.
fn bottleneck(parts: &[Component]) -> Option<String> {
    let worst = parts.iter().filter(|p| p.share.is_some()).max_by(|a, b| a.time.0.total_cmp(&b.time.0))?;
    let bound = worst.bound.map_or(String::new(), |b| format!(", {}-bound", b.name()));
    Some(format!("`{}`, {} of the device's time{bound}", worst.name, percent(worst.share?)))
}
