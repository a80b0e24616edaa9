//! `run`: check and measure.

use std::process::ExitCode;

use clap::Args;
use parallax_core::measure::runner::Mode;

use crate::args::Common;
use crate::commands::a_a;
use crate::commands::measuring::{each_target, finish, say, show};
use crate::console::width;
use crate::output::{Output, writable_folder};
use crate::table;

/// `run`.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub common: Common,
    /// Measure the machine against itself: run everything so many times, compare each run with the next, and say which
    /// change could have been detected and how often one was seen that is none
    #[arg(long, value_name = "RUNS")]
    pub a_a: Option<usize>,
}

/// Measure once, or the machine against itself.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    match args.a_a {
        Some(runs) => a_a::a_a(&args.common, runs),
        None => once(&args.common),
    }
}

fn once(common: &Common) -> anyhow::Result<ExitCode> {
    writable_folder(&common.out)?;
    let mut written = Vec::new();
    let out = Output { folder: common.out.clone(), gzip: common.trace.trace_gzip };
    let measured = each_target(common, &common.spec()?, Mode::Measure, &out, |done| {
        show(common, &table::run(&done.run, width()));
        say(common, &done.trace_line());
        written.push(done.paths());
    })?;
    say(common, &format!("\nwritten:\n{}", written.join("\n")));
    finish(common, measured)
}
