//! `run`: checks and measures cases.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::bail;
use clap::Args;
use parallax_report::{answer, escape, model_sentence, model_table};
use parallax_schema::record::{BROWSER_VERSION, NamedRun, Run};
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;

use crate::args::{Common, RESULTS};
use crate::commands::each_card::{ALL, each_card};
use crate::commands::measuring::{compare_within_targets, each_target, finish, say, show};
use crate::commands::run_files::read;
use crate::commands::{a_a, scaling};
use crate::console::{Painted, noteln, width};
use crate::output::{Output, Resumed, writable_folder};
use crate::{output, reading, table};

/// `run`.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub common: Common,
    /// Repeat the run and compare each with the next: detectable change
    ///
    /// RUNS is the number of runs. The table shows the smallest detectable change, and the number of false differences.
    #[arg(long, value_name = "RUNS", help_heading = RESULTS, hide_short_help = true)]
    pub a_a: Option<usize>,
    /// Run the missing cases of a run file
    ///
    /// For a run that was killed, stopped, or lost its device. Its settings, its device and the build must be the same. Its
    /// records stay unchanged.
    #[arg(long, value_name = "FILE", conflicts_with = "a_a", help_heading = RESULTS)]
    pub resume: Option<PathBuf>,
    /// Append a summary in Markdown to the file of GITHUB_STEP_SUMMARY
    ///
    /// The page of a job of GitHub Actions shows it. Without the variable nothing is written.
    #[arg(long, help_heading = RESULTS, hide_short_help = true)]
    pub summary: bool,
}

/// Measures once, or compares the machine with itself.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let common = &Common { summary: args.summary, ..args.common.clone() };
    match (args.a_a, &args.resume) {
        (Some(runs), _) => a_a::a_a(common, runs),
        (None, Some(file)) => resume(common, file),
        (None, None) => {
            writable_folder(&common.out)?;
            let mut spec = common.spec()?;
            let model = common.model.apply(&mut spec)?;
            let out = Output { model, ..Output::of(common) };
            match common.device.native.device.as_deref() {
                Some(ALL) => each_card(common, &spec, &out),
                _ => once(common, &spec, &out),
            }
        }
    }
}

/// Measures the missing cases of a run file.
fn resume(common: &Common, file: &Path) -> anyhow::Result<ExitCode> {
    if common.settings.any_given() || common.model.from.is_some() {
        bail!("--resume uses the settings of {}: leave the others out", file.display());
    }
    if reading::is_compressed(file) {
        bail!("{} is compressed with gzip: unpack it, and resume that", file.display());
    }
    let lock = output::lock(file)?;
    let NamedRun { run: earlier, .. } = read(&[file.to_owned()])?.remove(0);
    let earlier = earlier.reopened();
    let target = earlier.target.clone();
    if common.target.as_ref().is_some_and(|asked| *asked != target) {
        bail!("{} is of target {target}: leave --target out", file.display());
    }
    let mut device = common.device.clone();
    match (device.browser.features, earlier.reach) {
        (Some(asked), Some(reach)) if asked != reach => {
            bail!("{} was measured with --features {}: leave --features out", file.display(), reach.name())
        }
        (asked, reach) => device.browser.features = asked.or(reach),
    }
    // The run file has checked values.
    device.native.checked = as_before("checked", device.native.checked, earlier.checks(), file)?;
    device.native.arithmetic = as_before("arithmetic", device.native.arithmetic, earlier.arithmetic(), file)?;
    match earlier.missing().count() {
        0 => bail!("nothing is missing in {}", file.display()),
        missing => noteln!("{missing} of {} cases are missing in {}", earlier.planned.len(), file.display()),
    }
    if common.name.is_some() {
        bail!("{} has a name of its device already: leave --name out", file.display());
    }
    let common = Common { target: Some(target), device, ..common.clone() };
    let spec = earlier.spec.clone();
    let resumed = Some(Resumed { path: file.to_owned(), run: earlier, lock });
    let out = Output { resumed, ..Output::of(&common) };
    once(&common, &spec, &out)
}

/// Returns the value of an option with which a run began.
///
/// # Errors
/// Another value on the command line.
fn as_before<T>(option: &str, asked: Option<T>, measured: Option<&str>, file: &Path) -> anyhow::Result<Option<T>>
where
    T: Copy + Default + PartialEq + Display + FromStr,
{
    let measured: Option<T> = measured.and_then(|measured| measured.parse().ok());
    match (asked, measured.unwrap_or_default()) {
        (Some(asked), measured) if asked != measured => {
            bail!("{} was measured with --{option}={measured}: leave --{option} out", file.display())
        }
        _ => Ok(measured),
    }
}

fn once(common: &Common, spec: &Spec, out: &Output) -> anyhow::Result<ExitCode> {
    let (mut written, mut files, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    let measured = each_target(common, spec, Mode::Measure, out, |done| {
        show(common, &table::run(&done.run, width()));
        if let Some(model) = model_table(&done.run) {
            show(common, &Painted::default().above(&table::text(&model, width())));
        }
        say(common, &done.trace_line());
        written.push(done.paths());
        files.push(done.json.display().to_string());
        answers.push(answer(&done.run, done.took));
        answers.extend(model_sentence(&done.run));
    })?;
    scaling::tell(common, &measured.runs, None);
    // Chrome and Chromium of one version differ in this line alone.
    let version = |run: &Run| run.environment.get(BROWSER_VERSION).map(|version| escape(version).into_owned());
    let browsers: Vec<String> =
        measured.runs.iter().map(|run| version(run).or_else(|| run.browser()).unwrap_or_default()).collect();
    compare_within_targets(common, &browsers, &measured.runs, "browser");
    say(common, &format!("\nwritten:\n{}", written.join("\n")));
    say(common, &format!("\n{}\n{}", answers.join("\n"), next(&files)));
    finish(common, measured)
}

/// Returns the command that shows these run files.
fn next(files: &[String]) -> String {
    match files {
        [one] => format!("Next: parallax report {one} --format html --output run.html"),
        several => format!("Next: parallax compare {}", several.join(" ")),
    }
}
