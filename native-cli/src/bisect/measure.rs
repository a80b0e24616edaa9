//! Runs of two programs in the order A B B A, so that a steady drift of the device falls on both alike.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parallax_schema::record::Run;
use parallax_workloads::parse_case;

use crate::console::noteln;
use crate::files::{NoTemporary, temporary_folder};
use crate::interrupts::interrupted;
use crate::reading;

/// Measurement of both programs.
pub struct Request<'a> {
    /// Canonical string of a case, or a pattern of cases.
    pub case: &'a str,
    /// Target; the first run decides without one.
    pub target: Option<String>,
    /// Seconds of samples for all runs together.
    pub budget: f64,
    /// Rounds, with two runs of each program.
    pub rounds: usize,
    /// Further options of `run` for both programs.
    pub options: &'a [String],
}

/// Reason for a program without runs.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A program that does not start.
    #[error("cannot start {}: {source}", .program.display())]
    NoStart {
        /// Path of the program.
        program: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A program whose output is no run.
    #[error("{} ended with {status} and printed no run: {reason}", .program.display())]
    NoRun {
        /// Path of the program.
        program: PathBuf,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// Fault of the output.
        reason: String,
    },
    /// A program that ran on another number of targets than one.
    #[error("{} made {count} runs, and a comparison takes one: choose one with --target", .program.display())]
    SeveralRuns {
        /// Path of the program.
        program: PathBuf,
        /// Number of its runs.
        count: usize,
    },
    /// A request to end the program.
    #[error("ended on request")]
    Interrupted,
    /// No folder for the results.
    #[error(transparent)]
    NoTemporary(#[from] NoTemporary),
}

/// Order of the programs in a round.
const ORDER: [usize; 4] = [0, 1, 1, 0];

/// Runs both programs alternately. Returns the runs of each, in order.
///
/// # Errors
/// Program that does not start or prints no run; a request to end.
pub fn alternate(programs: [(&str, &Path); 2], request: &Request) -> Result<[Vec<Run>; 2], MeasureError> {
    let results = temporary_folder("parallax-bisect-")?;
    let mut runs = [Vec::new(), Vec::new()];
    let mut target = request.target.clone();
    for round in 1..=request.rounds {
        noteln!("round {round} of {}: {}", request.rounds, ORDER.map(|side| programs[side].0).join(", "));
        for side in ORDER {
            let run = measure(programs[side].1, target.as_deref(), results.path(), request)?;
            if interrupted() {
                return Err(MeasureError::Interrupted);
            }
            // The best target of one program need not be that of the other.
            target.get_or_insert_with(|| run.target.clone());
            runs[side].push(run);
        }
    }
    Ok(runs)
}

fn measure(program: &Path, target: Option<&str>, out: &Path, request: &Request) -> Result<Run, MeasureError> {
    let selection = if parse_case(request.case).is_ok() { "--case" } else { "--filter" };
    let budget = request.budget / (request.rounds * ORDER.len()) as f64;
    let mut command = Command::new(program);
    command.args(["run", "--quiet", "--json", selection, request.case, "--budget", &budget.to_string(), "--out"]);
    command.arg(out).args(target.iter().flat_map(|target| ["--target", target])).args(request.options);
    let no_start = |source| MeasureError::NoStart { program: program.to_owned(), source };
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(no_start)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut runs = reading::parsed(&text).map_err(|error| MeasureError::NoRun {
        program: program.to_owned(),
        status: output.status,
        reason: format!("{error:#}"),
    })?;
    match runs.pop() {
        Some(run) if runs.is_empty() => Ok(run),
        last => Err(MeasureError::SeveralRuns {
            program: program.to_owned(),
            count: runs.len() + usize::from(last.is_some()),
        }),
    }
}
