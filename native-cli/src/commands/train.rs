//! `train`: trains a small model by the suite's own forward, backward and optimiser.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use parallax_schema::case::DType;
use parallax_schema::record::{Better, Outcome, Score};

use crate::args::{DEVICES, Device, RESULTS};
use crate::commands::model::{DataOptions, dtype, exit_code, write_run};
use crate::console::{errln, outln};
use crate::files;
use crate::learn::evaluation::EvaluationOptions;
use crate::learn::executor::Executor;
use crate::learn::loss_scale;
use crate::learn::task::{Extents, Prepared};
use crate::learn::training::{Course, EVERY, Settings};

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
    /// Steps of the optimiser [default: 1000; ner: 400; volumes: 600]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1_000_000))]
    pub steps: Option<u32>,
    /// Rows, windows or images of a batch [default: 64; ner: 16; image: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..65_536))]
    pub batch: Option<u32>,
    /// Element type of the layers: f32, f16, bf16
    #[arg(long, value_name = "TYPE", value_parser = dtype, default_value = "f32")]
    pub dtype: DType,
    /// First scale of the loss [default: 65536 in f16]
    ///
    /// A power of two, which adapts to overflows. Parameters, losses and averages are in f32 at every type.
    #[arg(long, value_name = "N", value_parser = loss_scale::parse)]
    pub loss_scale: Option<u32>,
    /// Hidden width [default: 64; ner: 128], or channels of the first convolution [default: 16; volumes: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..4096))]
    pub hidden: Option<u32>,
    /// Columns that texts are hashed into [default: 512], or width of a token [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..65_536))]
    pub width: Option<u32>,
    /// cpu, wgpu or cuda [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Trains, writes the weights, and evaluates them on the held-out part.
pub fn train(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    let task = args.data.open()?;
    let (steps, batch) = task.defaults();
    let (steps, batch) = (args.steps.unwrap_or(steps) as usize, args.batch.unwrap_or(batch) as usize);
    let mut executor = Executor::open_here(args.target.as_deref(), &args.device)?;
    let [hidden, width] = [args.hidden, args.width].map(|extent| extent.map(|extent| extent as usize));
    let Prepared { network, items, mut about, finish } =
        task.prepare(Extents { hidden, width }, args.seed, &mut executor)?;
    about.insert("seed".to_owned(), args.seed.to_string());
    about.insert("batch".to_owned(), batch.to_string());
    about.insert("dtype".to_owned(), args.dtype.name().to_owned());
    let checkpoint = args.weights.with_extension("checkpoint.safetensors");
    let course = Course { network: &*network, items: &*items, about: &about };
    let settings = Settings { seed: args.seed, steps, batch, dtype: args.dtype, loss_scale: args.loss_scale };
    let mut result = course.train(&settings, &mut executor, (&checkpoint, args.resume))?;
    result.weights.about = about;
    finish(&mut result.weights);
    let bytes = result.weights.to_bytes()?;
    files::write(&args.weights, |to| to.write_all(&bytes))?;
    outln!("{}", args.weights.display());
    let curve: Vec<Score> = result.curve.iter().zip(1..).map(|(loss, part)| point(*loss, part, &settings)).collect();
    errln!(
        "mean loss of each {EVERY} steps: {}",
        curve.iter().map(|p| format!("{:.4}", p.value)).collect::<Vec<_>>().join(" ")
    );
    let scaling = result.scale.map(|scale| format!("{}, {} of {steps} steps left out", scale.scale(), scale.skipped));
    if let Some(scaling) = &scaling {
        errln!("scale of the loss: {scaling}");
    }
    let options = EvaluationOptions { seed: args.seed, dtype: args.dtype, device: &args.device, arrays: None };
    let (mut run, lines) = task.evaluate(&result.weights, &options, &mut executor)?;
    lines.iter().for_each(|line| outln!("{line}"));
    if let Some(Outcome::Pass(measured)) = run.records.first_mut().map(|record| &mut record.outcome) {
        measured.scores.extend(curve);
    }
    run.environment.extend(scaling.map(|scaling| ("loss_scale".to_owned(), scaling)));
    if let Some(path) = &args.output {
        write_run(path, &run)?;
    }
    // The weights are complete, and checkpoints serve no more.
    let _ = std::fs::remove_file(&checkpoint);
    Ok(exit_code(&run))
}

/// Point of the loss curve as a score.
fn point(loss: f64, part: usize, settings: &Settings) -> Score {
    let last = (part * EVERY).min(settings.steps);
    let items = ((last - (part - 1) * EVERY) * settings.batch) as u64;
    Score {
        name: Score::name_at("loss", last as u64),
        value: loss,
        low: loss,
        high: loss,
        better: Better::Lower,
        items,
    }
}
