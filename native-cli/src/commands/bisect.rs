//! `bisect`: verdict on two programs for one case, as exit codes of `git bisect run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use parallax_analysis::compare::verdict::Verdict;
use parallax_analysis::compare::{Comparison, Options, compare, pooled};
use parallax_report as report;
use parallax_schema::record::NamedRun;

use crate::args::{DEVICES, RESULTS};
use crate::bisect::{Checkout, MeasureError, Request, alternate};
use crate::commands::compare::share;
use crate::console::{self, errln, noteln, outln, width};
use crate::files::temporary_folder;
use crate::interrupts::listen_for_interrupts;
use crate::table;

/// `bisect`.
#[derive(Debug, Args)]
pub struct Bisect {
    /// A case, or a pattern of cases as in attention*flash
    pub case: String,
    /// Base: an executable, or a commit to build
    #[arg(long, value_name = "BUILD")]
    pub good: String,
    /// Candidate: an executable, or a commit to build [default: the sources of this checkout]
    #[arg(long, value_name = "BUILD")]
    pub bad: Option<String>,
    /// Shell command in place of cargo; it writes $CARGO_TARGET_DIR/release/parallax
    #[arg(long, value_name = "COMMAND")]
    pub build: Option<String>,
    /// Rounds of good, bad, bad, good
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Seconds of samples for all runs together
    #[arg(long, value_name = "SECONDS", default_value_t = 40.0)]
    pub budget: f64,
    /// Smallest difference that counts, as in 5% or 0.05
    ///
    /// Default: 1 % on a GPU and 5 % on an emulated one, or coarser for runs with more noise.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub resolution: Option<String>,
    /// Target of both programs [default: best of the base]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    /// Print the comparison as JSON on stdout, everything else on stderr
    #[arg(long, help_heading = RESULTS)]
    pub json: bool,
    /// Further options of `run` for both programs
    #[arg(last = true, value_name = "OPTIONS")]
    pub options: Vec<String>,
}

/// Exit code for git: this commit cannot be judged.
const SKIP: u8 = 125;
/// Exit code after Ctrl-C. It ends `git bisect run`, as every code from 128 on.
const INTERRUPTED: u8 = 130;

/// Measures both programs. The exit code is 0 for same or faster, 1 for slower and 125 for undecided and for a program that does not
/// build or run.
pub fn bisect(args: &Bisect) -> ExitCode {
    match verdict(args) {
        Ok(Verdict::Slower) => ExitCode::from(1),
        Ok(Verdict::Undecided) => ExitCode::from(SKIP),
        Ok(Verdict::Same | Verdict::Faster) => ExitCode::SUCCESS,
        Err(error) if matches!(error.downcast_ref(), Some(MeasureError::Interrupted)) => ExitCode::from(INTERRUPTED),
        // Code 2 would tell git that the commit is bad.
        Err(error) => {
            errln!("parallax: {}", console::mistake(&error));
            ExitCode::from(SKIP)
        }
    }
}

fn verdict(args: &Bisect) -> anyhow::Result<Verdict> {
    let resolution = args.resolution.as_deref().map(|text| share("--resolution", text)).transpose()?;
    if !(args.budget.is_finite() && args.budget > 0.0) {
        bail!("--budget {}: write a number of seconds above 0", args.budget);
    }
    listen_for_interrupts()?;
    let programs = temporary_folder("parallax-bisect-")?;
    let good = program("good", Some(&args.good), args.build.as_deref(), programs.path())?;
    let bad = program("bad", args.bad.as_deref(), args.build.as_deref(), programs.path())?;
    let request = Request {
        case: &args.case,
        target: args.target.clone(),
        budget: args.budget,
        rounds: usize::from(args.rounds),
        options: &args.options,
    };
    let [good, bad] = alternate([("good", &good), ("bad", &bad)], &request)?;
    let named = |name, runs: &[_]| NamedRun::new(name, pooled(runs).expect("a round has runs of both"));
    let comparison = compare(&[named("good", &good), named("bad", &bad)], &Options { base: 0, resolution })?;
    let (verdict, sentence) = overall(&comparison);
    if args.json {
        console::raw(&serde_json::to_string(&comparison)?);
        noteln!("{sentence}");
    } else {
        console::show(&table::text(&report::comparison_table(&comparison), width()));
        outln!("{sentence}");
    }
    Ok(verdict)
}

/// Returns the verdict on all cases, with its reason. One slower case is enough; without one, all must be decided.
fn overall(comparison: &Comparison) -> (Verdict, String) {
    let count = |verdict| comparison.count(verdict);
    if let Some(lost) = comparison.lost.first() {
        let sentence = format!("undecided: {}: {}", report::escape(&lost.case), report::escape(&lost.reason));
        return (Verdict::Undecided, sentence);
    }
    match (count(Verdict::Slower), count(Verdict::Undecided), count(Verdict::Faster)) {
        (0, 0, 0) => (Verdict::Same, "good: no case is slower".to_owned()),
        (0, 0, faster) => (Verdict::Faster, format!("good: no case is slower, {faster} faster")),
        (0, undecided, _) => {
            (Verdict::Undecided, format!("undecided: {undecided} of {} cases", comparison.pairs.len()))
        }
        (slower, ..) => (Verdict::Slower, format!("bad: {slower} of {} cases slower", comparison.pairs.len())),
    }
}

/// Returns the program of a side: an executable of the user, or one that is built into the folder.
fn program(side: &str, wanted: Option<&str>, build: Option<&str>, folder: &Path) -> anyhow::Result<PathBuf> {
    if let Some(path) = wanted.map(Path::new).filter(|path| path.is_file()) {
        // A bare name would be searched in the PATH.
        return path.canonicalize().with_context(|| format!("cannot find {}", path.display()));
    }
    let checkout = Checkout::of(Path::new(".")).with_context(|| match wanted {
        Some(name) => format!("`{name}` is no program"),
        None => "there are no sources to build".to_owned(),
    })?;
    let built = folder.join(format!("{side}{}", std::env::consts::EXE_SUFFIX));
    match wanted {
        Some(name) => {
            let commit = checkout.commit(name)?;
            noteln!("building {side}: commit {commit}");
            checkout.build_commit(&commit, build, &built).with_context(|| format!("cannot build {name}"))?;
        }
        None => {
            noteln!("building {side}: this checkout");
            checkout.build_here(build, &built).context("cannot build this checkout")?;
        }
    }
    Ok(built)
}
