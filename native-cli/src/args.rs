//! The command line: words and help. What they mean is decided elsewhere.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use parallax_core::plan::{Spec, SpecError};

use crate::commands::compare::Compare;
use crate::commands::eval::Eval;
use crate::commands::kernel::Kernel;
use crate::commands::profile::Profile;
use crate::commands::report::Report;
use crate::commands::run::RunArgs;

/// One suite of GPU kernels, measured in the browser's WebGPU and in native CUDA.
///
/// Without a command: measures the quick preset on the best device there is.
#[derive(Debug, Parser)]
#[command(name = "parallax", version, about, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; `run` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub run: RunArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check and measure cases; write the run's JSON and its Chrome trace
    Run(#[command(flatten)] RunArgs),
    /// Take the cases of one workload apart: stages, time, share, what binds each, and what would help
    Profile(Profile),
    /// Check every case once against the f64 reference
    Verify(#[command(flatten)] Common),
    /// Show the plan: cases, and skips with reasons
    List(#[command(flatten)] Common),
    /// Show every target with its devices, or why it is not there
    Devices(#[command(flatten)] Common),
    /// Pair the cases of two or more run files: faster, slower, same or undecided
    Compare(Compare),
    /// Show one or more run files as they are: tables, or a page with plots
    Report(Report),
    /// Compute one case on your own arrays in NumPy's format
    Eval(Eval),
    /// Print the final text of a case's kernels, or text and launches as JSON
    Kernel(Kernel),
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
    /// hot: data stays where the last execution left it; cold: executions go around more data than the caches hold
    #[arg(long, value_name = "hot|cold")]
    pub cache: Option<String>,
    /// Measure the device's ceilings before the cases
    #[arg(long, value_name = "on|off")]
    pub ceilings: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub trace: Trace,
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

/// What is traced, and what the trace tells.
#[derive(Debug, Clone, Default, Args)]
pub struct Trace {
    /// Executions of each case that are traced, as wait=N,warmup=N,active=N,repeat=N: so many run untraced, so many are
    /// traced and thrown away, so many kept, all of that so many times
    #[arg(long)]
    pub schedule: Option<String>,
    /// The executions that there are for the schedule: it is refused if it takes more
    #[arg(long, value_name = "N")]
    pub iterations: Option<u64>,
    /// Shapes and types of the inputs in the trace
    #[arg(long, value_name = "on|off")]
    pub record_shapes: Option<String>,
    /// Device memory over time in the trace
    #[arg(long)]
    pub profile_memory: bool,
    /// The host's call stack at each submission in the trace
    #[arg(long)]
    pub with_stack: bool,
    /// Compress the trace: its file ends in .trace.json.gz
    #[arg(long)]
    pub trace_gzip: bool,
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
    /// browser: do not ask for exact timestamps, so that they are rounded as for visitors of a page; needs a GPU,
    /// and no --browser-flag=--enable-unsafe-webgpu, which lifts the rounding
    #[arg(long)]
    pub rounded_clock: bool,
    /// browser: folder of the built page; looked for when left out
    #[arg(long, value_name = "DIR")]
    pub page: Option<PathBuf>,
}

impl Common {
    /// The flags as a spec, through the same parser that reads URL queries.
    pub fn spec(&self) -> Result<Spec, SpecError> {
        let one = |key, value: &Option<String>| value.iter().map(|v| (key, v.clone())).collect::<Vec<_>>();
        let many = |key, values: &[String]| values.iter().map(|v| (key, v.clone())).collect::<Vec<_>>();
        let flag = |key, on: bool| on.then(|| (key, "on".to_owned())).into_iter().collect::<Vec<_>>();
        let trace = &self.trace;
        let pairs = [
            one("preset", &self.preset),
            many("filter", &self.filter),
            many("dtype", &self.dtype),
            many("variant", &self.variant),
            many("case", &self.case),
            one("seed", &self.seed),
            one("budget", &self.budget),
            one("precision", &self.precision),
            one("cache", &self.cache),
            one("ceilings", &self.ceilings),
            one("schedule", &trace.schedule),
            one("record-shapes", &trace.record_shapes),
            flag("profile-memory", trace.profile_memory),
            flag("with-stack", trace.with_stack),
        ]
        .concat();
        let spec = Spec::from_pairs(pairs.iter().map(|(k, v)| (*k, v.as_str())))?;
        trace.iterations.map_or(Ok(()), |allowed| spec.schedule.fits(allowed))?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(args: &[&str]) -> Result<Spec, SpecError> {
        let cli = Cli::try_parse_from([&["parallax"], args].concat()).expect("flags that exist");
        cli.run.common.spec()
    }

    #[test]
    fn flags_of_the_trace_become_settings() {
        let flags = "--schedule wait=3,active=3 --iterations 7 --record-shapes off --profile-memory --with-stack \
                     --cache cold --ceilings off --trace-gzip";
        let got = spec(&flags.split(' ').filter(|w| !w.is_empty()).collect::<Vec<_>>()).expect("valid");
        let pairs = [
            ("cache", "cold"),
            ("ceilings", "off"),
            ("record-shapes", "off"),
            ("profile-memory", "on"),
            ("with-stack", "on"),
            ("schedule", "wait=3,warmup=1,active=3,repeat=1"),
        ];
        assert_eq!(got, Spec::from_pairs(pairs).expect("valid"));
        assert_eq!(spec(&[]).expect("valid"), Spec::default());
    }

    #[test]
    fn a_schedule_must_fit_the_iterations() {
        let short = spec(&["--schedule", "wait=3,active=3", "--iterations", "6"]).expect_err("one short").to_string();
        assert!(short.contains("takes 7 iterations") && short.contains("allows 6"), "{short}");
        let default = spec(&["--iterations", "1"]).expect_err("the default takes two").to_string();
        assert!(default.contains("takes 2 iterations"), "{default}");
    }
}
