//! Commands: one file each, with the command's flags.

pub mod a_a;
pub mod baseline;
pub mod bisect;
pub mod burn_in;
pub mod compare;
pub mod completions;
pub mod config;
pub mod dev;
pub mod devices;
pub mod doctor;
pub mod each_card;
pub mod eval;
pub mod fleet;
pub mod history;
pub mod kernel;
pub mod lab;
pub mod list;
pub mod man;
pub mod measuring;
pub mod model;
pub mod profile;
pub mod report;
pub mod results;
pub mod run;
pub mod run_files;
pub mod safety;
pub mod scaling;
pub mod schema;
pub mod serve;
pub mod site;
pub mod start;
pub mod trace;
pub mod train;
pub mod tune;
pub mod verify;

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::{console, logging};

/// Executes a command. Errors are user errors, and end with exit code 2.
pub fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    console::colour(cli.color);
    console::quiet(cli.quiet);
    logging::begin(cli.log.as_deref(), cli.verbose)?;
    let done = |()| ExitCode::SUCCESS;
    let common = cli.run.common.clone();
    match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Start => start::start(&common).map(done),
        Command::Run(args) => run::run(&args),
        Command::Profile(args) => profile::profile(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::List(args) => list::list(&args),
        Command::Devices(args) => devices::devices(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Baseline(args) => baseline::baseline(&args).map(done),
        Command::Results(args) => results::results(&args).map(done),
        Command::Bisect(args) => Ok(bisect::bisect(&args)),
        Command::Report(args) => report::report(&args).map(done),
        Command::Trace(args) => trace::trace(&args).map(done),
        Command::History(args) => history::history(&args),
        Command::Fleet(args) => fleet::fleet(&args),
        Command::Eval(args) => eval::eval(&args).map(done),
        Command::Model(args) => model::model(&args),
        Command::Train(args) => train::train(&args),
        Command::Kernel(args) => kernel::kernel(&args).map(done),
        Command::Config(args) => config::config(&args).map(done),
        Command::Serve(args) => serve::serve(&args).map(done),
        Command::Site(args) => site::site(&args).map(done),
        Command::Dev(args) => dev::dev(&args),
        Command::Lab(args) => lab::lab(&args),
        Command::Tune(args) => tune::tune(&args),
        Command::BurnIn(args) => burn_in::burn_in_command(&args),
        Command::Schema => schema::schema().map(done),
        Command::Completions(args) => completions::completions(&args).map(done),
        Command::Man(args) => man::man(&args).map(done),
    }
}
