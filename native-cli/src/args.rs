//! Command line: options and help. Other modules interpret the values.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use parallax_cuda::Arithmetic;
use parallax_schema::device::BrowserMode;
use parallax_schema::spec::Spec;
use parallax_schema::spec::schedule::ScheduleError;
use parallax_shaders::Checks;

use crate::commands::baseline::Baseline;
use crate::commands::bisect::Bisect;
use crate::commands::burn_in::BurnIn;
use crate::commands::compare::Compare;
use crate::commands::completions::Completions;
use crate::commands::config::ConfigArgs;
use crate::commands::dev::Dev;
use crate::commands::devices::Devices;
use crate::commands::doctor::Doctor;
use crate::commands::eval::Eval;
use crate::commands::fleet::Fleet;
use crate::commands::history::History;
use crate::commands::kernel::Kernel;
use crate::commands::lab::Lab;
use crate::commands::list::List;
use crate::commands::man::Man;
use crate::commands::model::ModelArgs;
use crate::commands::profile::Profile;
use crate::commands::report::Report;
use crate::commands::results::Results;
use crate::commands::run::RunArgs;
use crate::commands::serve::Serve;
use crate::commands::site::Site;
use crate::commands::trace::TraceArgs;
use crate::commands::train::TrainArgs;
use crate::commands::tune::Tune;
use crate::commands::verify::Verify;
use crate::help;
use crate::model::FromModel;
use crate::settings::{Settings, SettingsError, TRACE};

/// One suite of GPU kernels, measured in the browser's WebGPU and in native CUDA
///
/// Without a command: `run` with these flags, or the plan if there are none.
#[derive(Debug, Parser)]
#[command(name = "parallax", version, max_term_width = 110)]
#[command(after_help = help::EXAMPLES, after_long_help = help::everything())]
pub struct Cli {
    /// Command; `run` if only its flags are given.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value_t)]
    pub color: ColorChoice,
    /// Print only results, warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log progress on stderr; -vv and -vvv log more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Log by module and level, such as parallax=debug,wgpu_hal=warn
    #[arg(long, global = true, value_name = "FILTER", hide_short_help = true)]
    pub log: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `run` in the short help of the whole program, where most options belong to commands.
const SHOWN: [&str; 4] = ["target", "preset", "budget", "out"];

impl Cli {
    /// Returns the whole command line, for parsing, help, completions and man pages.
    pub fn whole() -> clap::Command {
        Cli::command().mut_args(|arg| {
            let shown = SHOWN.contains(&arg.get_id().as_str());
            let arg = arg.hide_short_help(!shown);
            if shown { arg.help_heading(None) } else { arg }
        })
    }

    /// Parses the arguments of the process.
    ///
    /// # Errors
    /// Usage error, or the output of a requested help.
    pub fn read() -> Result<Cli, clap::Error> {
        let mut command = Cli::whole();
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        if let Some(name) = matches.subcommand_name()
            && let Some(flag) = misplaced(&command, &matches)
        {
            return Err(command.error(ErrorKind::ArgumentConflict, format!("{flag} belongs after `{name}`")));
        }
        let cli = Cli::from_arg_matches(&matches).map_err(|mistake| mistake.format(&mut command))?;
        let bare = matches.subcommand_name().is_none() && own_flag(&command, &matches).is_none();
        Ok(Cli { command: if bare { Some(Command::Start) } else { cli.command }, ..cli })
    }
}

/// Returns a flag of `run` that stands before the name of a command, where its value would be lost.
fn misplaced(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let own = own_flag(command, matches)?;
    Some(own.get_long().map_or_else(|| own.to_string(), |long| format!("--{long}")))
}

/// Returns a flag of `run` among the arguments before any command.
fn own_flag<'c>(command: &'c clap::Command, matches: &ArgMatches) -> Option<&'c clap::Arg> {
    let given = |arg: &&clap::Arg| {
        let id = arg.get_id().as_str();
        // Help and version have no values.
        matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    command.get_arguments().filter(|arg| !arg.is_global_set()).find(given)
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the device, the plan and its duration, and start nothing: the program without arguments
    #[command(hide = true)]
    Start,
    /// Check and measure cases; write a run file and its trace
    #[command(after_help = help::RUN)]
    Run(#[command(flatten)] RunArgs),
    /// Profile a workload's cases: stages, bounds, advice
    #[command(after_help = help::PROFILE)]
    Profile(Profile),
    /// Check every case once against the f64 reference
    Verify(Verify),
    /// List the planned cases, and skips with reasons
    List(List),
    /// List targets with their devices, or the reason of their absence
    Devices(Devices),
    /// Check this machine: missing parts of each target, with a remedy
    Doctor(Doctor),
    /// Compare run files with a base: faster, slower, same, undecided
    #[command(after_help = help::COMPARE)]
    Compare(Compare),
    /// Save runs under names, as bases of later comparisons
    Baseline(Baseline),
    /// List the runs of a folder, or delete old ones
    Results(Results),
    /// Compare two programs, with the exit codes of `git bisect run`
    #[command(after_help = help::BISECT)]
    Bisect(Bisect),
    /// Show run files as tables, or as a page with plots
    #[command(after_help = help::REPORT)]
    Report(Report),
    /// Compare trace files by stage
    #[command(after_help = help::TRACE)]
    Trace(TraceArgs),
    /// Find changes over many run files, with their commits and causes
    #[command(after_help = help::HISTORY)]
    History(History),
    /// Find cards that are slow, unsteady or wrong among many of a kind
    #[command(after_help = help::FLEET)]
    Fleet(Fleet),
    /// Load a device for a long time, and compare every result
    #[command(after_help = help::BURN_IN)]
    BurnIn(BurnIn),
    /// Compute one case on your own NumPy arrays
    #[command(after_help = help::EVAL)]
    Eval(Eval),
    /// Evaluate a small model of the suite's workloads: quality, speed
    #[command(after_help = help::MODEL)]
    Model(ModelArgs),
    /// Train a small model by the suite's own backward passes
    #[command(after_help = help::TRAIN)]
    Train(TrainArgs),
    /// Print the kernel sources of a case
    Kernel(Kernel),
    /// Show every setting, its value and its origin
    Config(ConfigArgs),
    /// Serve the page on this machine and collect its results
    Serve(Serve),
    /// Write a static site of run files: costs of targets, comparisons
    Site(Site),
    /// Watch kernel sources: compile, check and time at every save
    #[command(after_help = help::DEV)]
    Dev(Dev),
    /// Compare two WGSL kernels of your own: outputs, then times
    #[command(after_help = help::LAB)]
    Lab(Lab),
    /// Find this device's best values of tunables
    #[command(after_help = help::TUNE)]
    Tune(Tune),
    /// Print the JSON Schema of run files
    #[command(hide = true)]
    Schema,
    /// Print completions for a shell
    #[command(hide = true, after_help = help::COMPLETIONS)]
    Completions(Completions),
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man(Man),
}

/// Options of the commands that measure.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// cuda, wgpu, browser, cpu, wasm, all [default: best]
    ///
    /// The best is the first present target without emulation: cuda, wgpu, else the processor.
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub settings: Settings,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub model: FromModel,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub trace: Trace,
    /// Name of the device in tables, as in "Ann's laptop"
    ///
    /// It is stored in the run file and heads the device's column in comparisons; at most 60 characters.
    #[arg(long, value_name = "NAME", help_heading = DEVICES, hide_short_help = true)]
    pub name: Option<String>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results", help_heading = RESULTS)]
    pub out: PathBuf,
    /// Print the runs as a JSON array on stdout, the rest on stderr
    #[arg(long, help_heading = RESULTS)]
    pub json: bool,
    /// Print a row of CSV for each case on stdout, the rest on stderr
    #[arg(long, help_heading = RESULTS, conflicts_with = "json", hide_short_help = true)]
    pub csv: bool,
    /// Print events as they happen, one JSON object per line
    ///
    /// Those of a run file in progress (`begin`, `baseline`, `sampling`, `samples`, `drift`, `record`,
    /// `spent`, `end`), `started` and `progress`. Everything else goes to stderr.
    #[arg(long, help_heading = RESULTS, conflicts_with_all = ["json", "csv"], hide_short_help = true)]
    pub json_lines: bool,
    /// Whether a command's own options put something for programs on stdout.
    #[arg(skip)]
    pub stdout_taken: bool,
    /// Whether the runs have a summary in GitHub's job.
    #[arg(skip)]
    pub summary: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Options of the trace, apart from its settings.
#[derive(Debug, Clone, Default, Args)]
pub struct Trace {
    /// Available executions; a schedule that takes more is refused
    #[arg(long, value_name = "N", help_heading = TRACE, hide_short_help = true)]
    pub iterations: Option<u64>,
    /// Compress the trace: its file ends in .trace.json.gz
    #[arg(long, help_heading = TRACE, hide_short_help = true)]
    pub trace_gzip: bool,
}

/// Help heading of options for targets and devices.
pub const DEVICES: &str = "Targets and devices";
/// Help heading of options for output.
pub const RESULTS: &str = "Results";

/// Options of devices.
#[derive(Debug, Clone, Default, Args)]
pub struct Device {
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub native: Native,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub browser: Browser,
}

/// Options of native devices.
#[derive(Debug, Clone, Default, Args)]
pub struct Native {
    /// GPU, by number, name, UUID or PCI address
    ///
    /// As `parallax devices` lists it, on every target; `run` takes `all` for each in turn. Default: that of the rank on this host
    /// under torchrun, mpirun or srun, else the first of CUDA, else the first without emulation.
    #[arg(long, value_name = "GPU", visible_alias = "adapter", help_heading = DEVICES, hide_short_help = true)]
    pub device: Option<String>,
    /// cuda: GPUs that work as one device, from --device on, for collectives and training
    ///
    /// With NCCL, in this process. A group runs collectives, such as all_reduce, and train_step. Shapes name their GPUs, as in gpus4.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = DEVICES,
          hide_short_help = true)]
    pub gpus: Option<u32>,
    /// cuda: the GPUs of --gpus are those of all processes of this job, one each, on one host or several
    ///
    /// torchrun, mpirun or srun starts the processes. Rank 0 measures and records, the others work for it. MASTER_ADDR names the host
    /// of rank 0. Without --gpus: as many as there are processes.
    #[arg(long, help_heading = DEVICES, hide_short_help = true)]
    pub processes: bool,
    /// wgpu: keep the browsers' checks in kernels; all if none is named
    ///
    /// As in --checked=bounds,loops: `bounds` of indices, `loops` that end, `divisions` by zero, `zeroing` of workgroup memory.
    /// `profile safety` measures the cost of each.
    #[arg(long, value_name = "CHECKS", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          help_heading = DEVICES, hide_short_help = true)]
    pub checked: Option<Checks>,
    /// cuda: precision of the arithmetic that the compiler generates: precise, ftz or fast [default: precise]
    ///
    /// ftz: denormals are zero. fast: also approximate division, square roots and functions. Results keep their tolerances: a case that
    /// leaves its own is wrong. `compare` sets time and error of both beside each other.
    #[arg(long, value_name = "PRECISION", help_heading = DEVICES, hide_short_help = true)]
    pub arithmetic: Option<Arithmetic>,
    /// cuda, wgpu, browser: folder of kernel sources that replace the built-in ones
    ///
    /// A checkout, or a folder with folders `cuda` and `shaders`. Default: PARALLAX_KERNELS. On wgpu they have all checks.
    #[arg(long, value_name = "DIR", help_heading = DEVICES, hide_short_help = true)]
    pub kernels: Option<PathBuf>,
    /// cuda, wgpu: fix the clock of the GPU's multiprocessors during the run, in MHz
    ///
    /// Through NVML, which needs administrator rights; `nvidia-smi -q -d SUPPORTED_CLOCKS` lists the clocks. The end of the program, or
    /// Ctrl-C, resets the clock. After a kill, `nvidia-smi -rgc` does.
    #[arg(long, value_name = "MHZ", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = DEVICES,
          hide_short_help = true)]
    pub lock_clocks: Option<u32>,
    /// cuda, wgpu: folder of tuning files [default: tuning]
    ///
    /// They take precedence over the built-in ones; `off` disables both.
    #[arg(long, value_name = "DIR", help_heading = DEVICES, hide_short_help = true)]
    pub tuning: Option<PathBuf>,
}

/// Options of a browser.
#[derive(Debug, Clone, Default, Args)]
pub struct Browser {
    /// browser: firefox, chromium, chrome, edge, safari, all, or an executable [default: PARALLAX_BROWSER, or a search]
    ///
    /// `all` measures each browser of the machine in turn and compares them. Firefox runs in a profile of its own with preferences for
    /// WebGPU; each run records them.
    #[arg(long, value_name = "NAME|PATH", help_heading = DEVICES, hide_short_help = true)]
    pub browser: Option<PathBuf>,
    /// browser: additional flag; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true, help_heading = DEVICES, hide_short_help = true)]
    pub browser_flag: Vec<String>,
    /// browser: privileges of the page [default: stock]
    ///
    /// stock: those of any visitor, with rounded timestamps. developer: exact timestamps. unsafe: experimental features too, as
    /// matrices of a subgroup; never visit other pages with these flags. Each run records its mode. Without a
    /// GPU the default is developer, because browsers give their software adapter to developers only.
    #[arg(long, value_name = "REACH", value_parser = reaches(), help_heading = DEVICES, hide_short_help = true)]
    pub features: Option<BrowserMode>,
    /// browser: folder of the built page [default: PARALLAX_PAGE, or a search]
    #[arg(long, value_name = "DIR", help_heading = DEVICES, hide_short_help = true)]
    pub page: Option<PathBuf>,
}

/// Returns the parser of a browser mode's name.
fn reaches() -> impl TypedValueParser<Value = BrowserMode> {
    PossibleValuesParser::new(BrowserMode::ALL.map(BrowserMode::name)).try_map(|name| BrowserMode::named(&name))
}

impl From<&Native> for Device {
    fn from(native: &Native) -> Device {
        Device { native: native.clone(), browser: Browser::default() }
    }
}

impl Common {
    /// Returns whether stdout carries machine-readable output.
    pub fn for_machines(&self) -> bool {
        self.json || self.csv || self.json_lines || self.stdout_taken
    }

    /// Returns the settings in force: flags over the settings file over defaults.
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
