//! The command line: words and help. What they mean is decided elsewhere.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use parallax_core::spec::{Spec, SpecError};

/// One suite of GPU kernels, measured in the browser's WebGPU and in native CUDA.
///
/// Without a command: measures the quick preset on the best device there is.
#[derive(Debug, Parser)]
#[command(name = "parallax", version, about, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; `run` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of `run`, when no command is given.
    #[command(flatten)]
    pub common: Common,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check and measure cases; write the run's JSON and its Chrome trace
    Run(#[command(flatten)] Common),
    /// Check every case once against the f64 reference
    Verify(#[command(flatten)] Common),
    /// Show the plan: cases, and skips with reasons
    List(#[command(flatten)] Common),
    /// Show every target with its devices, or why it is not there
    Devices(#[command(flatten)] Common),
    /// Pair the cases of two or more run files; the first file is the base
    Compare(Compare),
    /// Compute one case on your own arrays in NumPy's format
    Eval(Eval),
    /// Print the JSON Schema of run files
    Schema,
}

/// Options that most commands share.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// cpu, wgpu, cuda, browser, or all; the best device when left out
    #[arg(long)]
    pub target: Option<String>,
    /// Which shapes: quick, standard, full, or awkward (small ones that step over every edge, for verify)
    #[arg(long)]
    pub preset: Option<String>,
    /// Keep cases whose string contains this, `*` standing for anything; may be repeated
    #[arg(long)]
    pub filter: Vec<String>,
    /// Keep this element type (f32, f16, bf16); may be repeated
    #[arg(long)]
    pub dtype: Vec<String>,
    /// Keep this variant; may be repeated
    #[arg(long)]
    pub variant: Vec<String>,
    /// Exactly this case, of any shape, as workload/direction/shape/dtype/variant; may be repeated
    #[arg(long)]
    pub case: Vec<String>,
    /// Seed of the inputs
    #[arg(long)]
    pub seed: Option<String>,
    /// Seconds of measuring for the whole run
    #[arg(long, value_name = "SECONDS")]
    pub budget: Option<String>,
    /// Stop sampling a case when the 95 % interval of its median is this narrow (half width, as in 0.01)
    #[arg(long)]
    pub precision: Option<String>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Print machine-readable JSON on stdout, everything else on stderr
    #[arg(long)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// How to reach devices.
#[derive(Debug, Clone, Default, Args)]
pub struct Device {
    /// wgpu: part of the adapter's name, or its number in `devices`
    #[arg(long)]
    pub adapter: Option<String>,
    /// wgpu: keep the run-time checks that browsers always make (bounds, loops)
    #[arg(long)]
    pub checked: bool,
    /// browser: the executable; looked for when left out
    #[arg(long, value_name = "PATH")]
    pub browser: Option<PathBuf>,
    /// browser: one more flag for it; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub browser_flag: Vec<String>,
    /// browser: folder of the built page; looked for when left out
    #[arg(long, value_name = "DIR")]
    pub page: Option<PathBuf>,
}

/// `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Run files; the first is the base
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print a Markdown table
    #[arg(long)]
    pub markdown: bool,
}

/// `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// The case, as workload/direction/shape/dtype/variant
    pub case: String,
    /// NAME=FILE.npy for every input of the case
    #[arg(long, value_name = "NAME=FILE")]
    pub input: Vec<String>,
    /// Folder for NAME.npy of every output
    #[arg(long, value_name = "DIR")]
    pub output_dir: PathBuf,
    /// cpu, wgpu or cuda; the best device when left out
    #[arg(long)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

impl Common {
    /// The flags as a spec, through the same parser that reads URL queries.
    pub fn spec(&self) -> Result<Spec, SpecError> {
        let one = |key, value: &Option<String>| value.iter().map(|v| (key, v.clone())).collect::<Vec<_>>();
        let many = |key, values: &[String]| values.iter().map(|v| (key, v.clone())).collect::<Vec<_>>();
        let pairs = [
            one("preset", &self.preset),
            many("filter", &self.filter),
            many("dtype", &self.dtype),
            many("variant", &self.variant),
            many("case", &self.case),
            one("seed", &self.seed),
            one("budget", &self.budget),
            one("precision", &self.precision),
        ]
        .concat();
        Spec::from_pairs(pairs.iter().map(|(k, v)| (*k, v.as_str())))
    }
}
