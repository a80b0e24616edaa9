//! `model`: answers of a small model made of the suite's workloads, with scores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use parallax_model::classifier::{Classifier, split};
use parallax_model::data::Weights;
use parallax_model::layers::Arrays;
use parallax_schema::case::{Cost, DType};
use parallax_schema::device::Compiled;
use parallax_schema::record::{Measured, Outcome, Parts, Record, Run, Score};
use parallax_schema::spec::Spec;
use parallax_schema::units::four_digits;

use crate::args::{DEVICES, Device, RESULTS};
use crate::console::outln;
use crate::learn::labelled::{self, Data, shipped_weights};
use crate::learn::machine::Machine;
use crate::learn::scoring::{about_classes, agreement, answers, quality, speed};
use crate::learn::training::Part;
use crate::{files, session, targets};

/// Kind of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Classes of table rows or texts
    Classify,
}

/// Options of the data.
#[derive(Debug, Args)]
pub struct DataOptions {
    /// Model
    pub name: Kind,
    /// breast-cancer, digits, a FILE.csv, or a FILE.jsonl with text and label
    #[arg(long, value_name = "DATA", default_value = "breast-cancer")]
    pub data: String,
    /// Column of labels in a CSV file
    #[arg(long, value_name = "COLUMN", default_value = "label")]
    pub label: String,
    /// Skip lines with errors, and count them
    #[arg(long)]
    pub lenient: bool,
}

/// `model`.
#[derive(Debug, Args)]
pub struct ModelArgs {
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub data: DataOptions,
    /// Weights, as `train` writes them [default: those shipped for DATA]
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Seed of the bootstrap intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run file to write, for `compare`
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub output: Option<PathBuf>,
    /// cpu, wgpu or cuda [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Evaluates the model. Exit code 1: logits differ from the processor's.
pub fn model(args: &ModelArgs) -> anyhow::Result<ExitCode> {
    let data = labelled::read(&args.data.data, &args.data.label, args.data.lenient)?;
    let weights = weights(args.weights.as_deref(), &args.data.data)?;
    let mut machine = Machine::open(args.target.as_deref(), &args.device, &[])?;
    let evaluation = Evaluation { data: &data, weights: &weights, seed: args.seed };
    let (run, lines) = evaluation.run(&mut machine, &args.device)?;
    lines.iter().for_each(|line| outln!("{line}"));
    if let Some(path) = &args.output {
        write_run(path, &run)?;
    }
    let passed = run.records.iter().all(|record| record.measured().is_some());
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes a run file.
pub fn write_run(path: &Path, run: &Run) -> anyhow::Result<()> {
    let text = serde_json::to_string(run)?;
    files::write_text(path, &text)?;
    outln!("{}", path.display());
    Ok(())
}

fn weights(path: Option<&Path>, data: &str) -> anyhow::Result<Weights> {
    let Some(path) = path else {
        let bytes =
            shipped_weights(data).with_context(|| format!("no weights are shipped for {data}: give --weights"))?;
        return Ok(Weights::read(bytes)?);
    };
    let named = || format!("cannot read {}", path.display());
    Weights::read(&std::fs::read(path).with_context(named)?).with_context(named)
}

/// Evaluation of weights on data.
pub struct Evaluation<'a> {
    /// The data.
    pub data: &'a Data,
    /// The weights, with their metadata.
    pub weights: &'a Weights,
    /// Seed of the intervals.
    pub seed: u64,
}

impl Evaluation<'_> {
    /// Returns the run with its scores, and lines for the terminal. Rows are the held-out part of the data that the weights were
    /// trained on, and all rows of other data.
    ///
    /// # Errors
    /// Weights without their metadata, unknown labels, or an error of the device.
    pub fn run(&self, machine: &mut Machine, device: &Device) -> anyhow::Result<(Run, Vec<String>)> {
        let Evaluation { data, weights, .. } = self;
        let names: Vec<String> = serde_json::from_str(&weights.about::<String>("classes")?)
            .ok()
            .filter(|names: &Vec<String>| names.len() > 1)
            .context("metadata `classes` is damaged")?;
        let model =
            Classifier { features: weights.about("features")?, hidden: weights.about("hidden")?, classes: names.len() };
        let mut arrays = Arrays::default();
        // Before any product of extents: a damaged number has no tensor of its size.
        model.load(weights, &mut arrays)?;
        if data.columns.is_some() != (weights.about::<String>("input")? == "table") {
            bail!("{}: the weights are of the other kind of data, tables or texts", data.name);
        }
        let part = self.part(model, &names, machine)?;
        let rows = part.targets.len();
        let ours = answers(model, &part.values, &mut arrays, machine)?;
        let mut scores = quality(model.classes, &part.targets, &ours, self.seed);
        scores.extend(speed(model, &part.values, &mut arrays, machine, self.seed)?);
        let processor = match machine.target {
            targets::CPU => None,
            _ => {
                let mut cpu = Machine::open(Some(targets::CPU), device, &[])?;
                Some(answers(model, &part.values, &mut arrays, &mut cpu)?)
            }
        };
        let agreement = agreement(&ours, processor.as_ref().unwrap_or(&ours));
        let mut lines = vec![self.head(machine, rows)?];
        lines.extend(about_classes(&names, &part, &ours)?);
        if processor.is_some() {
            scores.extend(agreement.scores);
        }
        lines.extend(scores.iter().map(shown));
        if !agreement.parted.is_empty() {
            let some: Vec<String> = agreement.parted.iter().take(10).map(usize::to_string).collect();
            lines.push(format!("predictions differ from those of the processor in rows {}", some.join(", ")));
        }
        if !agreement.check.passed {
            lines.push(format!("logits differ from those of the processor: {}", agreement.check.sentence()));
        }
        let outcome = match agreement.check.passed {
            false => Outcome::Fail { check: agreement.check },
            true => Outcome::Pass(Box::new(Measured {
                compiled: Compiled::default(),
                check: agreement.check,
                timing: None,
                call: None,
                scores,
                memory: machine.memory(),
                launches: Vec::new(),
                analysis: None,
                trace: None,
                phases: Vec::new(),
            })),
        };
        Ok((record(machine, model, (&data.name, rows), "fwd", outcome), lines))
    }

    /// Whether the weights were trained on the data.
    fn knows(&self) -> bool {
        self.weights.about.get("data") == Some(&self.data.hash)
    }

    fn part(&self, model: Classifier, names: &[String], machine: &mut Machine) -> anyhow::Result<Part> {
        let values = self.data.features(model.features, machine)?;
        let targets = self.data.targets(names)?;
        let rows = match self.knows() {
            true => split(targets.len(), self.weights.about("seed")?).1,
            false => (0..targets.len()).collect(),
        };
        if rows.is_empty() {
            bail!("{}: no row is held out of {}", self.data.name, targets.len());
        }
        Ok(part(&rows, (&values, model.features), &targets))
    }

    fn head(&self, machine: &Machine, rows: usize) -> anyhow::Result<String> {
        let which = match self.knows() {
            true => format!("{rows} held-out rows, seed {}", self.weights.about::<u64>("seed")?),
            false => format!("all {rows} rows"),
        };
        Ok(format!("{} on {} ({}): {which}", self.data.name, machine.profiler().device().name, machine.target))
    }
}

/// Returns some rows of a table.
pub fn part(rows: &[usize], (values, width): (&[f32], usize), targets: &[usize]) -> Part {
    Part {
        values: rows.iter().flat_map(|row| &values[row * width..][..width]).copied().collect(),
        targets: rows.iter().map(|row| targets[*row]).collect(),
        texts: false,
    }
}

fn shown(score: &Score) -> String {
    let [value, low, high] = [score.value, score.low, score.high].map(four_digits);
    format!("{:>20} {value:>10} [{low}, {high}] over {}", score.name, score.items)
}

/// Returns a run of one record.
pub fn record(
    machine: &Machine,
    model: Classifier,
    (data, rows): (&str, usize),
    direction: &str,
    outcome: Outcome,
) -> Run {
    let Classifier { features, hidden, classes } = model;
    let extents = [("n", rows), ("f", features), ("h", hidden), ("c", classes)];
    let shape: BTreeMap<String, u64> =
        extents.iter().map(|(axis, extent)| ((*axis).to_owned(), *extent as u64)).collect();
    // A case string has no other separators.
    let stem = Path::new(data).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let option: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
    let numbers: Vec<String> = extents.iter().map(|(axis, extent)| format!("{axis}{extent}")).collect();
    let case = format!("classify/{direction}/{},{option}/f32/mlp", numbers.join(","));
    let products = features * hidden + hidden * classes;
    let parts = Parts {
        workload: "classify".to_owned(),
        direction: direction.to_owned(),
        shape,
        decimals: BTreeMap::new(),
        options: vec![option],
        dtype: DType::F32,
        variant: "mlp".to_owned(),
    };
    let cost =
        Cost::new((2 * rows * products) as u64, (4 * (rows * features + products)) as u64, (4 * rows * classes) as u64);
    let record = Record { case: case.clone(), parts, actual: None, device: 0, cost, items: None, outcome };
    let (device, clock) = (machine.profiler().device(), machine.profiler().clock());
    let mut run = Run::begin_on(machine.target, session::suite(), (device, clock), &Spec::default(), vec![case]);
    run.started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    run.records = vec![record];
    run
}
