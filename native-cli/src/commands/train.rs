//! `train`: trains a small model by the suite's own forward, backward and optimiser.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use parallax_model::classifier::{Classifier, split};
use parallax_model::data::Weights;
use parallax_schema::record::{Better, Outcome, Score};

use crate::args::{DEVICES, Device, RESULTS};
use crate::commands::model::{DataOptions, Evaluation, part, write_run};
use crate::console::{errln, outln};
use crate::files;
use crate::learn::labelled;
use crate::learn::machine::Machine;
use crate::learn::training::{Part, Settings, train as trained};

/// `train`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub data: DataOptions,
    /// File of the weights; checkpoints are beside it
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub weights: PathBuf,
    /// Run file to write, with the loss curve and the scores
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub output: Option<PathBuf>,
    /// Continue from the last checkpoint
    #[arg(long)]
    pub resume: bool,
    /// Seed of the held-out part, the first weights and the batches
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Steps of the optimiser
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..1_000_000))]
    pub steps: u32,
    /// Rows of a batch
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..65_536))]
    pub batch: u32,
    /// Hidden width
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..4096))]
    pub hidden: u32,
    /// Columns that texts are hashed into
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..65_536))]
    pub width: u32,
    /// cpu, wgpu or cuda [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Trains, writes the weights, and evaluates them on the held-out part.
pub fn train(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    let data = labelled::read(&args.data.data, &args.data.label, args.data.lenient)?;
    let classes = data.classes()?;
    let targets = data.targets(&classes)?;
    let (training, held_out) = split(targets.len(), args.seed);
    if held_out.is_empty() {
        bail!("{}: {} rows are too few; a fifth is held out", data.name, targets.len());
    }
    let mut machine = Machine::open(args.target.as_deref(), &args.device, &[])?;
    let features = data.columns.as_ref().map_or(args.width as usize, Vec::len);
    let values = data.features(features, &mut machine)?;
    let model = Classifier { features, hidden: args.hidden as usize, classes: classes.len() };
    let settings = Settings { seed: args.seed, steps: args.steps as usize, batch: args.batch as usize };
    let input = if data.columns.is_some() { "table" } else { "text" };
    let about = BTreeMap::from([
        ("classes".to_owned(), serde_json::to_string(&classes)?),
        ("features".to_owned(), features.to_string()),
        ("hidden".to_owned(), args.hidden.to_string()),
        ("seed".to_owned(), args.seed.to_string()),
        ("batch".to_owned(), args.batch.to_string()),
        ("input".to_owned(), input.to_owned()),
        ("data".to_owned(), data.hash.clone()),
    ]);
    let about = Weights { about, ..Weights::default() };
    let checkpoint = args.weights.with_extension("checkpoint.safetensors");
    let texts = data.columns.is_none();
    let rows = Part { texts, ..part(&training, (&values, features), &targets) };
    let result = trained(model, (&rows, &about), &settings, &mut machine, (&checkpoint, args.resume))?;
    let bytes = result.weights.to_bytes()?;
    files::write(&args.weights, |to| to.write_all(&bytes))?;
    outln!("{}", args.weights.display());
    let curve: Vec<Score> = result.curve.iter().zip(1..).map(|(loss, hundred)| point(*loss, hundred, args)).collect();
    errln!(
        "mean loss of each hundred steps: {}",
        curve.iter().map(|p| format!("{:.4}", p.value)).collect::<Vec<_>>().join(" ")
    );
    let evaluation = Evaluation { data: &data, weights: &result.weights, seed: args.seed };
    let (mut run, lines) = evaluation.run(&mut machine, &args.device)?;
    lines.iter().for_each(|line| outln!("{line}"));
    if let Some(Outcome::Pass(measured)) = run.records.first_mut().map(|record| &mut record.outcome) {
        measured.scores.extend(curve);
    }
    if let Some(path) = &args.output {
        write_run(path, &run)?;
    }
    // The weights are complete, and checkpoints serve no more.
    let _ = std::fs::remove_file(&checkpoint);
    let passed = run.records.iter().all(|record| record.measured().is_some());
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Point of the loss curve as a score.
fn point(loss: f64, hundred: usize, args: &TrainArgs) -> Score {
    let last = (hundred * 100).min(args.steps as usize);
    let items = ((last - (hundred - 1) * 100) * args.batch as usize) as u64;
    Score { name: format!("loss at step {last}"), value: loss, low: loss, high: loss, better: Better::Lower, items }
}
