//! `model`: answers of a small model made of the suite's workloads, with scores.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use parallax_model::data::Weights;
use parallax_schema::case::DType;
use parallax_schema::record::Run;

use crate::args::{DEVICES, Device, RESULTS};
use crate::browser::BrowserError;
use crate::console::{errln, outln};
use crate::files;
use crate::learn::evaluation::EvaluationOptions;
use crate::learn::executor::Executor;
use crate::learn::task::{Given, Kind, Task, check_kind, open};

/// Unit of the offsets of entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Offsets {
    /// Unicode characters, as in Python
    Characters,
    /// Bytes of the text in UTF-8
    Bytes,
}

/// Options of the data.
#[derive(Debug, Args)]
pub struct DataOptions {
    /// Model
    pub name: Kind,
    /// classify: breast-cancer, digits, FILE.csv, or FILE.jsonl with text and label; ner: notes, or FILE.jsonl with entities;
    /// image: digits, volumes, or FILE.csv of square images [default: the first]
    #[arg(long, value_name = "DATA")]
    pub data: Option<String>,
    /// Column of labels in a CSV file
    #[arg(long, value_name = "COLUMN", default_value = "label")]
    pub label: String,
    /// Unit of the offsets of entities
    #[arg(long, value_enum, default_value = "characters")]
    pub offsets: Offsets,
    /// Skip lines with errors, and count them
    #[arg(long)]
    pub lenient: bool,
}

impl DataOptions {
    /// Reads the data.
    ///
    /// # Errors
    /// File that cannot be read, or a line with an error, unless lenient.
    pub fn open(&self) -> anyhow::Result<Box<dyn Task>> {
        let bytes = self.offsets == Offsets::Bytes;
        let given = Given { data: self.data.as_deref(), label: &self.label, bytes, lenient: self.lenient };
        open(self.name, given)
    }
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
    /// Element type of the layers: f32, f16, bf16
    #[arg(long, value_name = "TYPE", value_parser = dtype, default_value = "f32")]
    pub dtype: DType,
    /// Seed of the bootstrap intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run file to write, for `compare`
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub output: Option<PathBuf>,
    /// Folder for inputs.npy and logits.npy of all rows, for other libraries
    #[arg(long, value_name = "DIR", help_heading = RESULTS)]
    pub arrays: Option<PathBuf>,
    /// cpu, wgpu, cuda, browser or wasm [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Evaluates the model. Exit code 1: logits differ from the processor's, or the model in a page was interrupted.
pub fn model(args: &ModelArgs) -> anyhow::Result<ExitCode> {
    let task = args.data.open()?;
    let weights = weights(args.weights.as_deref(), &*task, args.data.data.as_deref())?;
    check_kind(&weights, args.data.name)?;
    let mut executor = Executor::open(args.target.as_deref(), &args.device)?;
    let (device, arrays) = (&args.device, args.arrays.as_deref());
    let options = EvaluationOptions { seed: args.seed, dtype: args.dtype, device, arrays };
    let (run, lines) = match task.evaluate(&weights, &options, &mut executor) {
        Err(error) if matches!(error.downcast_ref(), Some(BrowserError::Stopped)) => {
            errln!("{error:#}");
            return Ok(ExitCode::FAILURE);
        }
        evaluated => evaluated?,
    };
    lines.iter().for_each(|line| outln!("{line}"));
    if let Some(path) = &args.output {
        write_run(path, &run)?;
    }
    Ok(exit_code(&run))
}

/// Returns the element type of a name.
///
/// # Errors
/// Name of no element type.
pub fn dtype(name: &str) -> Result<DType, String> {
    let known = DType::ALL.into_iter().find(|(known, _)| *known == name);
    known.map(|(_, dtype)| dtype).ok_or_else(|| "write f32, f16 or bf16".to_owned())
}

/// Returns success for a run whose records all passed.
pub fn exit_code(run: &Run) -> ExitCode {
    let passed = run.records.iter().all(|record| record.measured().is_some());
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes a run file.
pub fn write_run(path: &Path, run: &Run) -> anyhow::Result<()> {
    let text = serde_json::to_string(run)?;
    files::write_text(path, &text)?;
    outln!("{}", path.display());
    Ok(())
}

fn weights(path: Option<&Path>, task: &dyn Task, data: Option<&str>) -> anyhow::Result<Weights> {
    let Some(path) = path else {
        let missing = || format!("no weights are shipped for {}: give --weights", data.unwrap_or("the shipped data"));
        let bytes = task.shipped_weights().with_context(missing)?;
        return Ok(Weights::read(bytes)?);
    };
    let named = || format!("cannot read {}", path.display());
    Weights::read(&std::fs::read(path).with_context(named)?).with_context(named)
}
