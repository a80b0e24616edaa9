//! The command line: words and help. What they mean is decided elsewhere.

use std::path::PathBuf;

use clap::{Args, ColorChoice, Parser, Subcommand};
use parallax_core::plan::Spec;
use parallax_core::plan::schedule::ScheduleError;

use crate::commands::compare::Compare;
use crate::commands::config::ConfigArgs;
use crate::commands::dev::Dev;
use crate::commands::eval::Eval;
use crate::commands::kernel::Kernel;
use crate::commands::profile::Profile;
use crate::commands::report::Report;
use crate::commands::run::RunArgs;
use crate::commands::serve::Serve;
use crate::commands::tune::Tune;
use crate::settings::{Settings, SettingsError};

/// One suite of GPU kernels, measured in the browser's WebGPU and in native CUDA.
///
/// Without a command: measures the quick preset on the best device there is.
#[derive(Debug, Parser)]
#[command(name = "parallax", version, about, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; `run` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Who sees colours; auto is a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value_t)]
    pub color: ColorChoice,
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
    /// Show every setting with its value and where that came from: a flag, the settings file, or nobody
    Config(ConfigArgs),
    /// Serve the built page on this machine, isolated, so that its clocks are as fine as a page's can be
    Serve(Serve),
    /// Watch kernel texts, and compile, check and time cases at every save
    Dev(Dev),
    /// Look for the best values of what variants leave open, and write them to the tuning file of this device's class
    Tune(Tune),
    /// Print the JSON Schema of run files
    Schema,
}

/// Options that most commands share.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// cpu, wgpu, cuda, browser, or all; the best device when left out
    #[arg(long)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub settings: Settings,
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

/// What becomes of the trace, apart from its settings.
#[derive(Debug, Clone, Default, Args)]
pub struct Trace {
    /// The executions that there are for the schedule: it is refused if it takes more
    #[arg(long, value_name = "N")]
    pub iterations: Option<u64>,
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
    /// cuda, wgpu: kernel texts from this folder, a checkout or one with folders `cuda` and `shaders`, before the program's
    /// own; PARALLAX_KERNELS when left out
    #[arg(long, value_name = "DIR")]
    pub kernels: Option<PathBuf>,
    /// cuda, wgpu: folder of tuning files, which stand before the program's own, `tuning` when left out; `off` for none
    #[arg(long, value_name = "DIR")]
    pub tuning: Option<PathBuf>,
}

impl Common {
    /// The settings in force: flags over the settings file over defaults.
    pub fn spec(&self) -> Result<Spec, SettingsError> {
        let spec = self.settings.in_force()?.spec;
        let mistake = |e: ScheduleError| SettingsError::Flags(e.into());
        self.trace.iterations.map_or(Ok(()), |allowed| spec.schedule.fits(allowed)).map_err(mistake)?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(args: &[&str]) -> Result<Spec, SettingsError> {
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
